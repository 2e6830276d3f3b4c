"""The runs that are compared if the user names none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reusebench.reports.compare.choice import newest_before, newest_pair, newest_stored_pair
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.metrics import find_metric
from reusebench.storage.runs import Run
from tests.reports.compare.short_runs import NO_REUSE, measured, run

METRICS = [find_metric("npu_memory")]
_FIGURES = {"npu_memory": [5]}


def _runs() -> dict[int, Run]:
    """Return runs by number; 1 and 4, and 2 and 5, can be compared."""
    return {
        1: run(1, measured(_FIGURES)),
        2: run(2, measured(_FIGURES, NO_REUSE)),
        3: run(3, measured(_FIGURES, runtime_version="9")),
        4: run(4, measured(_FIGURES)),
        5: run(5, measured(_FIGURES, NO_REUSE), measured({}, outcome="crashed")),
        6: run(6, measured({"latency": [7]})),
    }


def _stored(runs: Iterable[Run]) -> StoredRuns:
    """Return the runs as those of a storage."""
    stored = StoredRuns()
    stored.runs += runs
    return stored


@pytest.mark.parametrize(
    ("numbers", "pair"),
    [
        ((1, 2, 3, 4, 5, 6), (2, 5)),
        ((6, 4, 3, 2, 1), (1, 4)),
        ((1, 2, 3, 6), None),
        ((), None),
    ],
)
def test_the_newest_pair(numbers: tuple[int, ...], pair: tuple[int, int] | None) -> None:
    """Figures and conditions must be in common; the order of the runs in the storage counts."""
    runs = _runs()
    chosen = [runs[number] for number in numbers]
    for found in (newest_pair(chosen, METRICS), newest_stored_pair(_stored(chosen), METRICS)):
        assert (found and tuple(each.number for each in found)) == pair


def test_conditions_that_may_differ() -> None:
    """--across makes more runs comparable."""
    runs = _runs()
    found = newest_pair([runs[1], runs[3]], METRICS, ["runtime_version"])
    assert found == (runs[1], runs[3])


def test_the_nearest_before() -> None:
    """Later runs, and the head itself, are no base."""
    runs = _runs()
    stored = _stored(runs.values())
    assert newest_before([runs[4]], stored, METRICS) == runs[1]
    assert newest_before([runs[1]], stored, METRICS) is None
    assert newest_before([runs[4]], stored, METRICS, ["runtime_version"]) == runs[3]
