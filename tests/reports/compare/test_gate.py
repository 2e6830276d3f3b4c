"""Changes that break a limit, and those that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reusebench.reports.compare.changes import Changes, compare_runs
from reusebench.reports.compare.gate import (
    NOT_HELD,
    UNDECIDED,
    WITHIN,
    WORSE,
    GateResult,
    check_limits,
)
from reusebench.reports.compare.text import as_text
from reusebench.storage.limits import parse_limit
from reusebench.storage.metrics import find_metric
from tests.reports.compare.short_runs import FULL_DUP, MIB, SHORT, measured, run

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


def outcomes(result: GateResult) -> list[str]:
    return [held.outcome for held in result.held]


@pytest.mark.parametrize("limit", ["2%+512KiB", "9.9%"])
def test_a_rise_beyond_the_limit_and_noise_breaks_it(limit: str) -> None:
    """A significant rise that is beyond the limit fails the build, by however little it is."""
    result = check_limits(rise(5), [parse_limit(f"{MEMORY}:{limit}")])
    assert (outcomes(result), result.exit_code) == ([WORSE], 1)


@pytest.mark.parametrize("limit", ["10.1%", "10.5%"])
def test_a_rise_that_noise_may_have_made_too_small_is_undecided(limit: str) -> None:
    """A rise within the limit is undecided if its interval is not."""
    (held,) = check_limits(rise(5, spread=0.2), [parse_limit(f"{MEMORY}:{limit}")]).held
    assert held.change.worsening < held.allowed
    assert held.change.worsening + (held.change.difference.error or 0) > held.allowed
    assert held.outcome == UNDECIDED


def test_the_same_limit_is_held_once() -> None:
    """A limit that is given twice is one test, with one sentence for each change."""
    limit = parse_limit(f"{MEMORY}:2%")
    found = rise(5)
    result = check_limits(found, [limit, limit])
    assert len(result.limits) == len(result.held) == 1
    assert len([line for line in lines(found, result) if limit.text in line]) == 1


def test_a_significant_rise_within_the_limit_passes() -> None:
    """A significant rise within the limit fails no build, not even a strict one."""
    found = rise(4)
    assert found.rows[0].is_worse
    result = check_limits(found, [parse_limit(f"{MEMORY}:20%")], strict=True)
    assert (outcomes(result), result.exit_code) == ([WITHIN], 0)


@pytest.mark.parametrize("mib", [-1.0, 0.0, 1.0, 5.0])
def test_an_interval_with_the_limit_in_it_is_undecided(mib: float) -> None:
    """Whether the figure rose or not, a limit within noise passes with advice; a strict gate ends
    with 2.
    """
    found = rise(mib, spread=10)
    limit = parse_limit(f"{MEMORY}:2%")
    result = check_limits(found, [limit])
    assert (outcomes(result), result.exit_code) == ([UNDECIDED], 0)
    printed = lines(found, result)
    assert any(line.startswith(f"UNDECIDED {limit.text}: onnx") for line in printed)
    (passed,) = [line for line in printed if line.startswith(f"passed {limit.text}")]
    assert "1 of them undecided, which proves nothing; noise is larger than the limit" in passed
    strict = check_limits(found, [limit], strict=True)
    assert strict.exit_code == 2
    assert any(line.startswith(f"NOT PASSED {limit.text}") for line in lines(found, strict))


def test_a_fall_larger_than_noise_is_within_any_limit() -> None:
    """Less memory is no failure and no doubt, although noise is larger than the limit; the
    improvement is told.
    """
    found = rise(-20, spread=1)
    limit = parse_limit(f"{MEMORY}:0")
    result = check_limits(found, [limit], strict=True)
    (change,) = found.rows
    assert (change.difference.error or 0) > limit.allowed(change.difference.base_mean)
    assert (outcomes(result), result.exit_code) == ([WITHIN], 0)
    (passed,) = [line for line in lines(found, result) if line.startswith("passed")]
    assert "1 better" in passed
    assert "(-40.0 %)" in passed


def test_one_repeat_on_each_side_decides_nothing() -> None:
    """Without any spread nothing is known of noise."""
    found = changes({MEMORY: [50 * MIB]}, {MEMORY: [90 * MIB]})
    result = check_limits(found, [parse_limit(f"{MEMORY}:2%")])
    assert outcomes(result) == [UNDECIDED]
    assert any("measure with --repeats 3" in line for line in lines(found, result))


def test_the_worst_comes_first_and_many_undecided_are_counted() -> None:
    """A limit tells five undecided changes; the others are counted."""
    sides = []
    for more in (0, 1):
        each = [
            measured(
                {MEMORY: [(50 + more * number + offset) * MIB for offset in (-9, 0, 9)]},
                replace(FULL_DUP, name=f"plan_{number}"),
            )
            for number in range(8)
        ]
        sides.append(run(more + 1, *each))
    found = compare_runs(sides[:1], sides[1:], [], METRICS)
    result = check_limits(found, [parse_limit(f"{MEMORY}:0")])
    assert [held.change.subject.configuration.name for held in result.held][:2] == [
        "plan_7",
        "plan_6",
    ]
    said = [line for line in lines(found, result) if line.startswith("UNDECIDED")]
    assert len(said) == 6
    assert said[-1] == f"UNDECIDED {MEMORY}:0: and 3 more like these"


def test_of_throughput_a_fall_is_worse() -> None:
    """A limit applies to the worse direction, which is less for a rate."""
    fall = changes({"throughput": [100.0] * 3}, {"throughput": [50.0] * 3})
    rise = changes({"throughput": [50.0] * 3}, {"throughput": [100.0] * 3})
    limit = parse_limit("throughput:10%")
    assert [check_limits(each, [limit]).exit_code for each in (fall, rise)] == [1, 0]


def test_counted_memory_may_be_held_at_nothing() -> None:
    """One more byte of NPU memory breaks a limit of 0."""
    limit = parse_limit("npu_memory:0")
    for more, code in ((0, 0), (1, 1), (-1, 0)):
        found = changes({"npu_memory": [100] * 3}, {"npu_memory": [100 + more] * 3})
        assert check_limits(found, [limit], strict=True).exit_code == code


def test_a_limit_that_is_held_against_nothing_is_no_pass() -> None:
    """A limit on a metric that no configuration has is reported."""
    found = rise(0)
    result = check_limits(found, [parse_limit("npu_memory:0")])
    assert result.exit_code == 2
    assert "NOTHING to hold npu_memory:0 against" in lines(found, result)


def test_what_cannot_be_measured_any_more_fails() -> None:
    """A crashed configuration fails the build, although it has no figure above the limit."""
    base = run(1, measured({MEMORY: [50]}))
    head = run(2, measured({}, outcome="out_of_memory"))
    found = compare_runs([base], [head], [], METRICS)
    result = check_limits(found, [parse_limit(f"{MEMORY}:0")])
    assert result.exit_code == 1
    assert any(line.startswith("FAILED onnxruntime full_dup") for line in lines(found, result))


@pytest.mark.parametrize("busy", [0.0, 50.0])
def test_speed_on_a_busy_machine_fails_no_build(busy: float) -> None:
    """Other work on the machine does not break a limit of latency."""
    base = run(1, measured({"latency": [1e6] * 3}))
    head = run(2, measured({"latency": [9e6] * 3}, busy_percent=busy))
    found = compare_runs([base], [head], [], [find_metric("latency")])
    result = check_limits(found, [parse_limit("latency:10%")])
    assert outcomes(result) == [UNDECIDED if busy else WORSE]


def test_figures_taken_while_memory_was_short_are_not_held() -> None:
    """Figures with evictions are not held against the limit, which is reported; NPU buffers are.

    An eviction would hide a rise.
    """
    levels = {MEMORY: [50 * MIB] * 3, "npu_memory": [100] * 3}
    runs = [run(1, measured(levels)), run(2, measured(levels, shortage_signs=SHORT))]
    short = compare_runs(runs[:1], runs[1:], [], METRICS)
    assert [change.verdict for change in short.rows] == ["memory short", "no change"]
    result = check_limits(short, [parse_limit(f"{MEMORY}:2%"), parse_limit("npu_memory:0")])
    assert sorted(outcomes(result)) == [NOT_HELD, WITHIN]
    assert result.exit_code == 2
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
