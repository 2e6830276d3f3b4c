"""Changes that break a limit, and those that do not."""

from __future__ import annotations

import pytest

from reusebench.reports.compare.changes import Changes, compare_runs
from reusebench.reports.compare.gate import GateResult, check_limits
from reusebench.reports.compare.rendering import as_text
from reusebench.storage.limits import parse_limit
from reusebench.storage.metrics import find_metric
from tests.reports.compare.short_runs import MIB, SHORT, measured, run

METRICS = [
    find_metric(name)
    for name in ("application_memory_trimmed_over_baseline", "npu_memory", "throughput")
]
MEMORY = "application_memory_trimmed_over_baseline"


def changes(
    base: dict[str, list[float]], head: dict[str, list[float]], **conditions: float
) -> Changes:
    runs = [run(1, measured(base)), run(2, measured(head, **conditions))]  # type: ignore[arg-type]
    return compare_runs(runs[:1], runs[1:], [], METRICS)


def lines(changes: Changes, result: GateResult) -> list[str]:
    return as_text(changes, result).splitlines()


def rise(mib: float, spread: float = 0.0) -> Changes:
    around = [-spread, 0, spread]
    base, head = ([(level + offset) * MIB for offset in around] for level in (50, 50 + mib))
    return changes({MEMORY: base}, {MEMORY: head})


def test_a_rise_beyond_the_limit_that_is_no_noise_breaks_it() -> None:
    """A rise beyond the limit that is no noise fails the build."""
    result = check_limits(rise(5), [parse_limit(f"{MEMORY}:2%+512KiB")])
    assert not result.passed
    assert len(result.broken) == 1


def test_a_significant_rise_within_the_limit_passes() -> None:
    """A significant rise within the limit fails no build."""
    result = check_limits(rise(1), [parse_limit(f"{MEMORY}:2%+512KiB")])
    assert result.passed
    assert not (result.broken)
    assert not (result.unsure)


def test_a_rise_beyond_the_limit_that_may_be_noise_is_unsure() -> None:
    """A rise that may be noise passes, with advice on how to be sure."""
    found = rise(5, spread=10)
    result = check_limits(found, [parse_limit(f"{MEMORY}:2%")])
    assert result.passed
    assert len(result.unsure) == 1
    said = [line for line in lines(found, result) if line.startswith("unsure")]
    assert "more repeats" in said[0]


def test_a_fall_breaks_nothing() -> None:
    """Less memory is no failure."""
    assert check_limits(rise(-20), [parse_limit(f"{MEMORY}:0")]).passed


def test_of_throughput_a_fall_is_worse() -> None:
    """A limit applies to the worse direction, which is less for a rate."""
    fall = changes({"throughput": [100.0] * 3}, {"throughput": [50.0] * 3})
    rise = changes({"throughput": [50.0] * 3}, {"throughput": [100.0] * 3})
    limit = parse_limit("throughput:10%")
    assert (check_limits(fall, [limit]).passed, check_limits(rise, [limit]).passed) == (False, True)


def test_counted_memory_may_be_held_at_nothing() -> None:
    """One more byte of NPU memory breaks a limit of 0."""
    assert not check_limits(
        changes({"npu_memory": [100] * 3}, {"npu_memory": [101] * 3}), [parse_limit("npu_memory:0")]
    ).passed
    assert check_limits(
        changes({"npu_memory": [100] * 3}, {"npu_memory": [100] * 3}), [parse_limit("npu_memory:0")]
    ).passed


def test_a_limit_that_is_held_against_nothing_is_no_pass() -> None:
    """A limit on a metric that no configuration has is reported."""
    found = rise(0)
    result = check_limits(found, [parse_limit("npu_memory:0")])
    assert result.is_open
    assert "NOTHING to hold npu_memory:0 against" in lines(found, result)


def test_what_cannot_be_measured_any_more_fails() -> None:
    """A crashed configuration fails the build, although it has no figure above the limit."""
    base = run(1, measured({MEMORY: [50]}))
    head = run(2, measured({}, outcome="out_of_memory"))
    found = compare_runs([base], [head], [], METRICS)
    result = check_limits(found, [parse_limit(f"{MEMORY}:0")])
    assert not result.passed
    assert any(line.startswith("FAILED onnxruntime full_dup") for line in lines(found, result))


@pytest.mark.parametrize("busy", [0.0, 50.0])
def test_speed_on_a_busy_machine_fails_no_build(busy: float) -> None:
    """Other work on the machine does not break a limit of latency."""
    base = run(1, measured({"latency": [1e6] * 3}))
    head = run(2, measured({"latency": [9e6] * 3}, busy_percent=busy))
    found = compare_runs([base], [head], [], [find_metric("latency")])
    assert check_limits(found, [parse_limit("latency:10%")]).passed == (busy > 0)


def test_a_limit_that_could_not_have_been_seen_says_so() -> None:
    """A pass with few repeats and much noise says that it proves little."""
    for spread, blind in ((0.0, 0), (20.0, 1)):
        found = rise(0, spread)
        result = check_limits(found, [parse_limit(f"{MEMORY}:5MiB")])
        (passed,) = [line for line in lines(found, result) if line.startswith("passed")]
        assert result.blind == (blind,)
        assert ("could not have been distinguished" in passed) == bool(blind)


def test_figures_taken_while_memory_was_short_are_not_held() -> None:
    """Figures with evictions are not held against the limit, which is reported; NPU buffers are.

    An eviction would hide a rise.
    """
    levels = {MEMORY: [50 * MIB] * 3, "npu_memory": [100] * 3}
    runs = [run(1, measured(levels)), run(2, measured(levels, shortage_signs=SHORT))]
    short = compare_runs(runs[:1], runs[1:], [], METRICS)
    assert [change.verdict for change in short.rows] == ["memory short", "no change"]
    result = check_limits(short, [parse_limit(f"{MEMORY}:2%"), parse_limit("npu_memory:0")])
    assert result.passed
    assert result.is_open
    printed = lines(short, result)
    assert any(line.startswith(f"NOT HELD {MEMORY}:2%: onnxruntime full_dup") for line in printed)
    assert any("30.0 MiB of its mapped files were evicted" in line for line in printed)
    assert "passed npu_memory:0: 1 compared" in printed


def test_noise_is_not_learnt_from_runs_while_memory_was_short() -> None:
    """Evictions do not count as noise."""
    levels = [
        run(number, measured({MEMORY: [level * MIB] * 3}))
        for number, level in enumerate((50, 50, 50, 50), 1)
    ]
    short = run(5, measured({MEMORY: [9 * MIB] * 3}, shortage_signs=SHORT))
    base = run(6, measured({MEMORY: [50 * MIB] * 3}))
    head = run(7, measured({MEMORY: [50 * MIB] * 3}))
    known = [[*levels, short, base], [*levels, base]]
    noises = [
        compare_runs([base], [head], runs, METRICS).rows[0].difference.noise for runs in known
    ]
    assert noises[0] == noises[1]
