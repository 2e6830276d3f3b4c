"""Files are read on all CPUs, with the same outcome as one after the other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage import parallel as module
from storage.files import BadFile, StoredFile, read_storage
from storage.parallel import side_by_side
from storage.runs import Run, read_runs
from tests.reports.stored import even, result, write_run


def _who(path: Path) -> tuple[str, int]:
    return path.name, os.getpid()


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Return forty files."""
    each = [tmp_path / f"{number:02}" for number in range(40)]
    for path in each:
        path.write_text("x" * 100)
    return each


@pytest.fixture
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two CPUs, and files that are worth it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(module, "_WORTH_BYTES", 1)


@pytest.mark.usefixtures("two_cpus")
def test_the_order_of_the_files_stays(paths: list[Path]) -> None:
    """Whichever process has read them."""
    found = list(side_by_side(_who, paths))
    assert [name for name, _ in found] == [path.name for path in paths]
    assert os.getpid() not in {pid for _, pid in found}


def test_little_is_read_in_this_process(paths: list[Path]) -> None:
    """Starting others would take longer."""
    assert {pid for _, pid in side_by_side(_who, paths)} == {os.getpid()}
    assert list(side_by_side(_who, [])) == []


@pytest.mark.usefixtures("two_cpus")
def test_one_cpu(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to gain."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1})
    assert {pid for _, pid in side_by_side(_who, paths)} == {os.getpid()}


@pytest.mark.usefixtures("two_cpus")
def test_a_file_that_is_gone(paths: list[Path]) -> None:
    """Its size is not known; who reads it says that it is gone."""
    paths[3].unlink()
    assert len(list(side_by_side(_who, paths))) == 40


def test_a_storage_that_is_read_on_all_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, runs in short and damaged files are the same as those that one process reads."""
    info = result(tmp_path, "no_reuse", even(3))
    for number in range(1, 30):
        path = write_run(tmp_path, [info] if number % 5 else [], number)
        if number % 7 == 0:
            path.write_text(path.read_text()[:5000])
    alone = [*read_runs(tmp_path), *read_storage(tmp_path, ("steady",))]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(module, "_WORTH_BYTES", 1)
    assert [*read_runs(tmp_path), *read_storage(tmp_path, ("steady",))] == alone
    assert {type(each) for each in alone} == {Run, StoredFile, BadFile}
