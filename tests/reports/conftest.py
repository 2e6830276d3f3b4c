"""Stored runs that tests only read, written once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.results.rows import Group
from tests.reports.stored import full_run, groups_of, npu_run
from tests.reports.stored_streams import published_run


@pytest.fixture(scope="session")
def full_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of one run of the scenarios of dup on a CPU."""
    folder = tmp_path_factory.mktemp("full")
    full_run(folder)
    return folder


@pytest.fixture(scope="session")
def full_group(full_storage: Path) -> Group:
    """Return its group."""
    (group,) = groups_of(full_storage)
    return group


@pytest.fixture(scope="session")
def npu_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of one run of every mechanism on a virtual board."""
    folder = tmp_path_factory.mktemp("npu")
    npu_run(folder)
    return folder


@pytest.fixture(scope="session")
def npu_group(npu_storage: Path) -> Group:
    """Return its group."""
    (group,) = groups_of(npu_storage)
    return group


@pytest.fixture(scope="session")
def streams_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of one run of all scenarios of streams."""
    folder = tmp_path_factory.mktemp("streams")
    published_run(folder)
    return folder


@pytest.fixture(scope="session")
def streams_group(streams_storage: Path) -> Group:
    """Return its group."""
    (group,) = groups_of(streams_storage)
    return group
