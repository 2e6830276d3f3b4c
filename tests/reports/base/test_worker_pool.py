"""Processes that do parts of the work."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import ClassVar

import pytest

from reusebench.reports.base.worker_pool import worker_pool

pytestmark = pytest.mark.process


class _Threads:
    """What may only be finalised where its threads are."""

    finalised_in: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        self.finalised_in.append(os.getpid())


@pytest.fixture
def garbage() -> Iterator[None]:
    """Leave an object to the next collection."""
    gc.disable()
    _Threads()
    yield
    gc.enable()
    gc.collect()


def _finalised_by_a_collection(_: int) -> list[int]:
    gc.collect()
    return _Threads.finalised_in


@pytest.mark.usefixtures("garbage")
def test_a_collection_leaves_the_parents_garbage() -> None:
    """A process of the pool finalises nothing that its parent has made."""
    pool = worker_pool(1)
    assert pool is not None
    with pool:
        assert list(pool.map(_finalised_by_a_collection, [0])) == [[]]
    assert _finalised_by_a_collection(0) == [os.getpid()]
