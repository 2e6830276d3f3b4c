"""Processes that the tests of readings observe."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.samplers.child import Child


@pytest.fixture
def child() -> Iterator[Child]:
    """Return a child that stands still."""
    child = Child()
    yield child
    child.reap()


@pytest.fixture
def second_child() -> Iterator[Child]:
    """Return another child."""
    child = Child()
    yield child
    child.reap()
