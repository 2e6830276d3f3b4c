"""What a trial comes to: by outcome, saved memory and avoided copies."""

from __future__ import annotations

from typing import Any

from harness.verdict import judge

_MIB = 2**20


def _result(scenario: str, *memory: int, copied: int = 100, npu: Any = None, **changes: Any) -> dict[str, Any]:
    """Return as much of a result as is looked at."""
    return {
        "scenario": scenario,
        "outcome": "ok",
        "failure": None,
        "copies": [{"input_bytes": copied, "output_bytes": 11}] * 2,
        "memory": {
            "application_memory_over_baseline_bytes": list(memory),
            "npu_memory_bytes": npu or [None] * len(memory),
        },
        "plan": {"contexts": []},
        **changes,
    }


def _failed(scenario: str, kind: str, message: str) -> dict[str, Any]:
    failure = {"kind": kind, "phase": "context", "context": 1, "message": message, "last_words": ""}
    return _result(scenario, outcome=kind, failure=failure)


def test_a_saving_beyond_the_spread_works() -> None:
    """The median, the spread of both together, and the whole that it is of."""
    trial = judge(_result("full_dup", 40, 44), _result("no_reuse_one_model", 98, 102))
    assert (trial.scenario, trial.verdict, trial.reason) == ("full_dup", "works", "")
    assert (trial.saved_bytes, trial.spread_bytes, trial.whole_bytes) == (58, 4, 100)
    assert (trial.memory, trial.copies_avoided_bytes, trial.combined) == ("application", 0, ())


def test_a_saving_within_the_spread_is_none() -> None:
    """The reason says by how much the repeats differ."""
    less = judge(_result("full_dup", 98 * _MIB, 102 * _MIB), _result("no_reuse_one_model", 99 * _MIB, 105 * _MIB))
    assert less.verdict == "saves_nothing"
    assert less.reason == "it takes as much as without, within the spread of the repeats (5.00 MiB)"
    more = judge(_result("full_dup", 8 * _MIB, 8 * _MIB), _result("no_reuse_one_model", 6 * _MIB, 6 * _MIB))
    assert (more.verdict, more.saved_bytes) == ("saves_nothing", -2 * _MIB)
    assert more.reason == "it takes 2.00 MiB more than without"


def test_fewer_copies_are_a_saving_too() -> None:
    """Zero copy need not change what is allocated."""
    trial = judge(_result("zero_copy_input", 50, 50, copied=0), _result("copied_io", 50, 50))
    assert (trial.verdict, trial.copies_avoided_bytes, trial.saved_bytes) == ("works", 100, 0)


def test_contexts_in_another_order_copy_the_same() -> None:
    """Copies are those of all contexts, since the first of one plan need not be the first of the other."""
    copies = [{"input_bytes": size, "output_bytes": 1} for size in (100, 60)]
    trial = judge(
        _result("internal_reuse_last_first", 50, 50, copies=copies[::-1]), _result("in_turn", 50, 50, copies=copies)
    )
    assert (trial.verdict, trial.copies_avoided_bytes) == ("saves_nothing", 0)


def test_npu_memory_counts_where_there_is_some() -> None:
    """What the process takes on the CPU is then of no account; without an account it is all there is."""
    result, baseline = (
        _result("full_dup", 50, 50, npu=[700, 700]),
        _result("no_reuse_one_model", 10, 10, npu=[900, 900]),
    )
    trial = judge(result, baseline)
    assert (trial.verdict, trial.memory, trial.saved_bytes, trial.whole_bytes) == ("works", "npu", 200, 900)
    without = judge({**result, "memory": {**result["memory"], "npu_memory_bytes": [0, 0]}}, baseline)
    assert (without.verdict, without.memory, without.saved_bytes) == ("saves_nothing", "application", -40)


def test_what_was_not_measured() -> None:
    """A missing mechanism is told apart from one that fails, and neither has figures."""
    baseline = _result("no_reuse_one_model", 50, 50)
    missing = judge(_failed("full_dup", "not_supported", "there is no dup"), baseline)
    assert (missing.verdict, missing.reason, missing.saved_bytes) == ("not_supported", "there is no dup", None)
    failing = judge(_failed("full_dup", "crashed", "the process was ended by SIGSEGV"), baseline)
    assert (failing.verdict, failing.saved_bytes) == ("fails", None)
    assert failing.reason == "crashed in phase 'context 1': the process was ended by SIGSEGV"
    alone = judge(_result("full_dup", 50, 50), _failed("no_reuse_one_model", "failed", "no memory"))
    assert (alone.verdict, alone.saved_bytes) == ("fails", None)
    assert alone.reason == "its baseline no_reuse_one_model: failed in phase 'context 1': no memory"


def test_what_lean_combined() -> None:
    """By the plan that was measured; the scenarios of one plan combine nothing."""
    context: dict[str, Any] = {"mechanism": "load", "internal": None, "zero_copy": []}
    contexts = [context, {**context, "mechanism": "dup", "internal": 0}]
    plan = {"contexts": contexts}
    assert judge(_result("lean", 10, plan=plan), _result("plain", 90)).combined == ("full_dup", "internal_reuse")
    assert judge(_result("full_dup", 10, plan=plan), _result("no_reuse_one_model", 90)).combined == ()
    plan = {"contexts": [{**context, "zero_copy": ["input", "output"]}]}
    assert judge(_result("lean", 10, plan=plan), _result("plain", 90)).combined == ("zero_copy_io",)
