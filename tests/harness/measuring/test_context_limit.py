"""The limit of contexts, measured on a real process with a scripted runtime, and stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from reusebench.harness.errors import NoModels
from reusebench.measured import runtimes
from reusebench.storage.metrics import METRICS
from reusebench.storage.result import Result
from tests.harness.measuring.conftest import MakeBench, job
from tests.helpers.scripted_driver import ENTRY
from tests.helpers.support import SCRIPTED, known

pytestmark = pytest.mark.process

_PAGE = 4096
#: A target with the preload library, like a board.
_BOARD = replace(SCRIPTED, name="board", keeps_ledger=True)
#: NPU buffers of a loaded context, and of two more contexts.
_BUFFERS = f"create-1-{6 * _PAGE}@load0;create-2-{2 * _PAGE}@load1;create-3-{4 * _PAGE}@load2"
#: Actions that free the buffers: contexts are destroyed in reverse order.
_GIVEN_BACK = "destroy-3@destroy0;destroy-2@destroy1;destroy-1@destroy2"


def _result(
    tmp_path: Path, make_bench: MakeBench, script: str, most: int = 5, repeats: int = 2
) -> Result:
    """Measure, and return the result as it is read again."""
    bench = make_bench(tmp_path, script, target=_BOARD, repeats=repeats, most_contexts=most)
    measurement = bench.measure(job("limit_no_reuse"))
    assert measurement.latencies_ns == []
    return msgspec.json.decode(msgspec.json.encode(measurement.result), type=Result)


def test_what_fitted(tmp_path: Path, make_bench: MakeBench) -> None:
    """The result has the count, the NPU memory of the contexts, and a failure that does not fail
    the scenario.
    """
    result = _result(tmp_path, make_bench, f"{_BUFFERS};{_GIVEN_BACK};raise@load3")
    limit = known(result.limit)
    assert (result.outcome, result.failure, len(result.repeats)) == ("ok", None, 1)
    assert (limit.contexts, limit.bound, limit.survived, limit.afterwards) == (3, 5, True, None)
    assert (known(limit.failure).phase, known(limit.failure).context) == ("context", 3)
    assert (limit.npu_memory_bytes, limit.further_npu_bytes) == (12 * _PAGE, 3 * _PAGE)
    assert (limit.npu_after_failure_bytes, limit.npu_left_bytes) == (12 * _PAGE, 0)
    assert limit.fd_count > 0
    assert known(limit.fd_limit) > limit.fd_count
    assert len(result.plan.contexts) == 3


def test_it_has_no_figures_to_compare(tmp_path: Path, make_bench: MakeBench) -> None:
    """Memory at the limit is no saving, and no rise from run to run."""
    result = _result(tmp_path, make_bench, "plain")
    assert [metric.name for metric in METRICS if metric.values(result)] == []
    assert result.repeats[0].npu is None


def test_a_failed_attempt_that_keeps_memory(tmp_path: Path, make_bench: MakeBench) -> None:
    """The memory that a failed context leaves is seen before the others run, and at the end."""
    script = f"{_BUFFERS};{_GIVEN_BACK};create-6-{_PAGE}@load3;raise@load3"
    limit = known(_result(tmp_path, make_bench, script).limit)
    assert (limit.npu_memory_bytes, limit.npu_after_failure_bytes) == (12 * _PAGE, 13 * _PAGE)
    assert limit.npu_left_bytes == _PAGE


@pytest.mark.parametrize(
    ("script", "kind", "phase"),
    [("abort@load3", "crashed", "context"), ("exit3@infer3", "crashed", "first_inference")],
)
def test_a_process_that_is_lost(
    tmp_path: Path, make_bench: MakeBench, script: str, kind: str, phase: str
) -> None:
    """A fatal failure of the next context is the limit, too; nothing is known of the time after."""
    result = _result(tmp_path, make_bench, f"{_BUFFERS};{script}")
    limit = known(result.limit)
    assert (result.outcome, limit.contexts, limit.survived) == ("ok", 3, False)
    assert (known(limit.failure).kind, known(limit.failure).phase) == (kind, phase)
    assert (limit.npu_memory_bytes, limit.npu_after_failure_bytes, limit.npu_left_bytes) == (
        12 * _PAGE,
        None,
        None,
    )


def test_the_others_fail_then(tmp_path: Path, make_bench: MakeBench) -> None:
    """If the others fail afterwards, both failures are stored."""
    limit = known(_result(tmp_path, make_bench, "raise@load3;abort@destroy0").limit)
    assert (limit.survived, known(limit.afterwards).phase, known(limit.afterwards).kind) == (
        True,
        "destroy",
        "crashed",
    )
    assert limit.npu_left_bytes is None


def test_none_fails(tmp_path: Path, make_bench: MakeBench) -> None:
    """Without a failure, all contexts that were to be made fit."""
    limit = known(_result(tmp_path, make_bench, "plain", most=2).limit)
    assert (limit.contexts, limit.bound, limit.failure, limit.afterwards) == (2, 2, None, None)


@pytest.mark.parametrize("script", ["raise@load0", "not_supported@load1", "raise@destroy0"])
def test_other_failures_are_failures(tmp_path: Path, make_bench: MakeBench, script: str) -> None:
    """Some failures are no limit: of the first context, of a missing mechanism, of the others
    before any context failed.
    """
    result = _result(tmp_path, make_bench, script, most=2)
    assert (result.limit, result.outcome) == (
        None,
        "not_supported" if "not" in script else "failed",
    )


def test_memory_of_a_cpu_is_not_filled(
    tmp_path: Path, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that uses the system's memory is not asked for its limit; other scenarios run."""
    monkeypatch.setattr(runtimes, "RUNTIMES", (replace(ENTRY, device="cpu"),))
    bench = make_bench(tmp_path, "plain")
    with pytest.raises(NoModels, match="limited by the system's memory"):
        job("limit_no_reuse").plans(bench.supplies)
    assert job("full_dup").plans(bench.supplies)
