"""Known leaks are found by `pytest bench/test_leaks.py`, named and sized; without leaks nothing is
told.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.reports.base.texts import texts_of
from reusebench.reports.results.drift import drifts, growing, unclear
from reusebench.reports.results.grouping import group_results
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.leaks import leak_sentences
from tests.bench.bench_process import Bench
from tests.helpers.support import Reusebench

pytestmark = pytest.mark.process

_LEAKS = "bench/test_leaks.py"
#: The growing quantities, by the kind of leak in the double.
_QUANTITIES = {"fd": "fds", "mapping": "mappings"}
KIB = 1024


def _rows(bench: Bench, *arguments: object) -> dict[str, Row]:
    done = bench.run(_LEAKS, *arguments)
    assert done.code == 0, done.words
    (group,) = group_results(done.runs())
    return {row.scenario.removeprefix("cycles_"): row for row in group.rows}


def _rows_of_double(bench: Bench, library: Path, kinds: str, cycles: int = 20) -> dict[str, Row]:
    model = bench.folder / "model.rknn"
    model.write_text("9000 5000 1 ")
    options = (
        "--runtime",
        "rknn",
        "--rknn-library",
        library,
        "--model",
        model,
        "--cycles",
        cycles,
        "-k",
        kinds,
    )
    return _rows(bench, *options)


def _grown(row: Row) -> dict[str, float]:
    """Return the slope of each growing quantity."""
    return {drift.quantity: drift.trend.slope for drift in growing(row) if drift.trend}


@pytest.fixture
def library(rknn_double: Callable[..., Path]) -> Path:
    """Return a double of the full runtime."""
    return rknn_double("librknnrt version: 2.3.2 (double)")


def test_a_clean_library_leaks_nothing(bench: Bench, library: Path) -> None:
    """Every kind of cycles is walked to its end; nothing grows, and heap, descriptors and mappings
    are clear.
    """
    rows = _rows_of_double(bench, library, "cycles")
    assert list(rows) == ["inferences", "contexts", "dups", "io_memory", "replaced"]
    for row in rows.values():
        assert row.outcome == "ok"
        assert (_grown(row), unclear(row)) == ({}, [])
        assert len(drifts(row)["fds"].readings) == 21


def test_heap_that_each_inference_leaks(
    bench: Bench, library: Path, monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """40 KiB per inference are told as such, and as twice that per cycle of contexts."""
    monkeypatch.setenv("DOUBLE_LEAK", "rknn_run=heap")
    rows = _rows_of_double(bench, library, "inferences or replaced")
    assert _grown(rows["inferences"]) == {"heap": pytest.approx(40 * KIB, rel=0.02)}
    assert _grown(rows["replaced"]) == {"heap": pytest.approx(80 * KIB, rel=0.02)}
    (leak, _) = leak_sentences(list(rows.values()), texts_of("en"))
    assert leak.startswith("Inferences: each inference leaks 40.")
    shown = reusebench(
        "report", "--storage", bench.storage, "--output", bench.folder / "report", "--format", "csv"
    )
    assert "each inference leaks 40." in shown.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("of_context", "of_dup"),
    [("fd", "mapping"), pytest.param("mapping", "fd", marks=pytest.mark.slow)],
)
def test_what_each_cycle_leaks(
    bench: Bench, library: Path, monkeypatch: pytest.MonkeyPatch, of_context: str, of_dup: str
) -> None:
    """One file descriptor or one mapping for each context or dup is told, and nothing else."""
    monkeypatch.setenv("DOUBLE_LEAK", f"rknn_init={of_context},rknn_dup_context={of_dup}")
    rows = _rows_of_double(bench, library, "replaced or dups")
    assert _grown(rows["replaced"]) == {_QUANTITIES[of_context]: pytest.approx(1, abs=0.1)}
    assert _grown(rows["dups"]) == {_QUANTITIES[of_dup]: pytest.approx(1, abs=0.1)}


def test_memory_that_nothing_maps(
    bench: Bench, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 KiB in a memfd of each context are told as such, beside the descriptor."""
    monkeypatch.setenv("DOUBLE_LEAK", "rknn_init=memfd")
    rows = _rows_of_double(bench, library, "replaced")
    assert _grown(rows["replaced"]) == {
        "held": pytest.approx(40 * KIB, rel=0.02),
        "fds": pytest.approx(1, abs=0.1),
    }


def test_a_leak_of_each_binding(
    bench: Bench, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input and output are freed and made anew: each has a descriptor, and there are no more if
    contexts stay.
    """
    monkeypatch.setenv("DOUBLE_LEAK", "rknn_create_mem=fd")
    rows = _rows_of_double(bench, library, "io_memory or inferences")
    assert _grown(rows["io_memory"]) == {"fds": pytest.approx(2, abs=0.1)}
    assert _grown(rows["inferences"]) == {}


def test_cycles_that_end_early(
    bench: Bench, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readings until the failure are stored and judged."""
    monkeypatch.setenv("DOUBLE_LEAK", "rknn_init=fd")
    model = bench.folder / "model.rknn"
    model.write_text("9000 5000 1 ")
    options = (
        "--runtime",
        "rknn",
        "--rknn-library",
        library,
        "--model",
        model,
        "--cycles",
        150,
        "-k",
        "contexts",
    )
    done = bench.run(_LEAKS, *options)
    assert done.code == 1
    assert "too many contexts" in done.words
    ((row,),) = (group.rows for group in group_results(done.runs()))
    assert row.outcome == "crashed"
    assert len(drifts(row)["fds"].readings) > 50
    assert _grown(row) == {"fds": pytest.approx(1, abs=0.1)}


def test_onnxruntime_leaks_nothing(bench: Bench, tiny_model: Path) -> None:
    """A clean runtime raises no alarm."""
    rows = _rows(bench, "--model", tiny_model)
    assert {kind: row.outcome for kind, row in rows.items()} == dict.fromkeys(rows, "ok")
    assert [kind for kind, row in rows.items() if _grown(row)] == []
