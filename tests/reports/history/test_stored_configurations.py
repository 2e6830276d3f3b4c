"""The configurations of storages: by the index as by the files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reusebench.reports.history import series_pool
from reusebench.reports.history.configuration_runs import ConfigurationRuns
from reusebench.reports.history.series import histories_of
from reusebench.reports.history.stored_configurations import stored_configurations
from reusebench.reports.history.table import history_records
from reusebench.storage.index import covered, storage_index
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.metrics import find_metric
from tests.reports.history.history_storage import make_history
from tests.reports.stored import machine

pytestmark = pytest.mark.process

_METRICS = [find_metric(name) for name in ("application_memory", "latency", "npu_memory")]
_BOARDS = ("board-b", "board-a")


@pytest.fixture(scope="module")
def storages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the storages of two boards with gaps, failed runs and another version."""
    folder = tmp_path_factory.mktemp("fleet")
    for board in _BOARDS:
        make_history(folder / board, 20, 4, machine(board=board))
    return [folder / board for board in _BOARDS]


@pytest.fixture
def indexed(
    storages: Sequence[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> StoredRuns:
    """Return the runs of storages that have an index, however small they are."""
    monkeypatch.setattr(covered, "_STEP_S", 0)
    monkeypatch.setattr(storage_index, "LEAST_BYTES", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    StoredRuns.open(storages)
    stored = StoredRuns.open(storages)
    assert stored.ask("measured", lambda table: table.aggregate("count(*)").fetchall())
    return stored


def facts(configurations: Sequence[ConfigurationRuns]) -> list[dict[str, Any]]:
    """Return all that the history tells of each run."""
    return list(history_records(histories_of(configurations, _METRICS)))


@pytest.mark.parametrize("chosen", [{}, {"names": ["full_dup"]}, {"boards": ["board-a"]}])
def test_the_index_has_what_the_files_have(
    indexed: StoredRuns,
    storages: Sequence[Path],
    chosen: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Series, points, conditions and values are the same, in the same order, without an index."""
    by_index = facts(stored_configurations(indexed, _METRICS, **chosen))
    monkeypatch.setenv("REUSEBENCH_INDEX", "off")
    files = StoredRuns.open(storages)
    assert files.ask("measured", lambda table: table.fetchall()) is None
    assert by_index == facts(stored_configurations(files, _METRICS, **chosen))
    assert {row["board"] for row in by_index} == set(chosen.get("boards", _BOARDS))
    assert {row["name"] for row in by_index} >= set(chosen.get("names", ["full_dup"]))


def test_several_processes_find_the_same(
    indexed: StoredRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Series that other processes fit have the same changes as those that this one fits."""
    configurations = stored_configurations(indexed, _METRICS)
    here = facts(configurations)
    monkeypatch.setattr(series_pool, "_MANY_RUNS", 0)
    monkeypatch.setattr(series_pool, "_SENT", 1)
    assert facts(configurations) == here
    assert any(row["is_change"] for row in here)
