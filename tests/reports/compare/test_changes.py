"""Changes between two sides of runs, and configurations that cannot be compared."""

from __future__ import annotations

import random
from collections.abc import Sequence

from reusebench.reports.compare.changes import DISTURBED, compare_runs
from reusebench.reports.compare.difference import HIGHER, NO_CHANGE
from reusebench.storage.metrics import find_metric
from reusebench.storage.runs import Configuration, Measured, Run
from tests.reports.compare.short_runs import FULL_DUP, MIB, NO_REUSE, measured, memory, run

NAME = "application_memory_trimmed_over_baseline"
METRIC = find_metric(NAME)


def earlier(count: int, sd: float = 0.1) -> list[Run]:
    """Return runs around 50 MiB, the first with number 1."""
    rolled = random.Random(1)
    return [
        memory(number, *(rolled.gauss(50, sd) for _ in range(3))) for number in range(1, count + 1)
    ]


def test_a_row_for_each_configuration_and_metric_of_both() -> None:
    """Figures of both sides are compared, in the head's order of configurations."""
    values = {"npu_memory": [5, 5], "latency": [1, 2]}
    runs = [run(number, measured(values, NO_REUSE), measured(values)) for number in (1, 2)]
    metrics = [find_metric(name) for name in ("latency", "npu_memory", "throughput")]
    changes = compare_runs(runs[:1], runs[1:], runs, metrics)
    named = [(change.subject.configuration, change.metric.name) for change in changes.rows]
    assert named == [
        (NO_REUSE, "latency"),
        (NO_REUSE, "npu_memory"),
        (FULL_DUP, "latency"),
        (FULL_DUP, "npu_memory"),
    ]
    assert not (changes.differing)
    assert not (changes.unmeasured)
    assert not (changes.across)


def test_earlier_runs_of_the_series_show_the_noise() -> None:
    """A small rise is reported if earlier runs show that the figure changes little."""
    known = earlier(20)
    head = memory(30, 50.9, 51.0, 51.1)
    (alone,) = compare_runs(known[-1:], [head], [], [METRIC]).rows
    (change,) = compare_runs(known[-1:], [head], [*known, head], [METRIC]).rows
    assert (alone.difference.noise.runs, change.difference.noise.runs) == (0, 20)
    assert change.verdict == HIGHER


def test_later_runs_and_the_head_itself_are_no_earlier_runs() -> None:
    """Later runs, and the head itself, do not count for the noise."""
    known = earlier(20)
    head = memory(21, 50, 50, 50)
    later = [memory(number, 90, 10, 50) for number in range(22, 30)]
    (change,) = compare_runs(known[:1], [head], [*known, head, *later], [METRIC]).rows
    assert change.difference.noise.runs == 20
    assert change.difference.noise.repeat < MIB


def test_earlier_runs_under_other_conditions_do_not_count() -> None:
    """Runs with another version of the runtime do not count for the noise."""
    others = [
        run(number, measured({NAME: [1, 99]}, runtime_version="0.9")) for number in range(1, 9)
    ]
    (change,) = compare_runs([memory(10, 50, 50)], [memory(11, 50, 50)], others, [METRIC]).rows
    assert change.difference.noise.runs == 0


def test_a_copy_of_both_sides_is_compared_once() -> None:
    """A copy is left out, unless a side measured both, or its original is missing."""
    own = measured({NAME: [50]})
    copy = measured({NAME: [50]}, original=NO_REUSE)
    original = measured({NAME: [50]}, NO_REUSE)

    def compared(*sides: Sequence[Measured]) -> list[Configuration]:
        base, head = (run(number, *each) for number, each in enumerate(sides, start=1))
        changes = compare_runs([base], [head], [], [METRIC])
        assert not changes.unmeasured
        return [change.subject.configuration for change in changes.rows]

    assert compared([original, copy], [original, copy]) == [NO_REUSE]
    turned = measured({NAME: [50]}, NO_REUSE, original=FULL_DUP)
    assert compared([original, copy], [own, turned]) == [NO_REUSE]
    assert compared([original, own], [original, copy]) == [NO_REUSE, FULL_DUP]
    assert compared([copy], [copy]) == [FULL_DUP]


def test_a_copy_that_is_lost_is_told_once() -> None:
    """A lost copy is left out, since its original is reported as lost."""
    base = run(1, measured({NAME: [50]}, NO_REUSE), measured({NAME: [50]}, original=NO_REUSE))
    head = run(
        2, measured({}, NO_REUSE, "crashed"), measured({}, outcome="crashed", original=NO_REUSE)
    )
    (lost,) = compare_runs([base], [head], [], [METRIC]).unmeasured
    assert (lost.subject.configuration, lost.is_broken) == (NO_REUSE, True)


def test_several_runs_are_one_side() -> None:
    """A baseline of several runs has the repeats of all."""
    known = earlier(4)
    (change,) = compare_runs(known, [memory(9, 50)], known, [METRIC]).rows
    assert (change.difference.base_count, change.difference.head_count) == (12, 1)


def test_other_conditions_are_not_compared_silently() -> None:
    """Configurations under other conditions are not compared, and the differences are listed."""
    base = run(1, measured({NAME: [50, 50]}, runtime_version="1.6.0", plan="a"))
    head = run(2, measured({NAME: [60, 60]}, runtime_version="2.3.2", plan="b"))
    changes = compare_runs([base], [head], [], [METRIC])
    assert changes.rows == ()
    (differing,) = changes.differing
    assert differing.conditions == {"runtime_version": ("1.6.0", "2.3.2"), "plan": ("a", "b")}


def test_what_the_user_allows_to_differ_is_compared_and_said() -> None:
    """If all differences are allowed, configurations are compared and the differences reported."""
    base = run(1, measured({NAME: [50, 50]}, runtime_version="1.6.0", plan="a"))
    head = run(2, measured({NAME: [60, 60]}, runtime_version="2.3.2", plan="b"))
    assert not compare_runs([base], [head], [], [METRIC], ["runtime_version"]).rows
    changes = compare_runs([base], [head], [], [METRIC], ["runtime_version", "plan"])
    assert len(changes.rows) == 1
    assert changes.across[0].conditions["plan"] == ("a", "b")


def test_what_cannot_be_measured_any_more_is_broken() -> None:
    """A configuration that failed in the head differs from a new one, or one not measured."""
    ok = measured({NAME: [50]})
    failed = measured({}, outcome="crashed")
    other = measured({NAME: [50]}, NO_REUSE)
    (lost,) = compare_runs([run(1, ok)], [run(2, failed)], [], [METRIC]).unmeasured
    assert lost.is_broken
    assert (lost.base, lost.head) == ("ok", "crashed")
    (gone, new) = compare_runs([run(1, ok)], [run(2, other)], [], [METRIC]).unmeasured[::-1]
    assert not (gone.is_broken)
    assert not (new.is_broken)
    assert (gone.head, new.base) == (None, None)


def test_what_neither_side_could_measure_is_no_news() -> None:
    """A mechanism that is not supported on both sides is not listed."""
    lacking = measured({}, outcome="not_supported")
    assert not compare_runs([run(1, lacking)], [run(2, lacking)], [], [METRIC]).unmeasured


def test_speed_on_a_busy_machine_has_no_verdict() -> None:
    """Other work on the machine disturbs latencies, but not memory."""
    quiet, busy = (
        {NAME: [level * MIB] * 3, "latency": [level * 1e5] * 3} for level in (50.0, 90.0)
    )
    base = run(1, measured(quiet))
    head = run(2, measured(busy, busy_percent=50))
    memory_row, speed = compare_runs([base], [head], [], [METRIC, find_metric("latency")]).rows
    assert (memory_row.verdict, speed.verdict) == (HIGHER, DISTURBED)


def test_the_confidence_is_of_the_whole_table() -> None:
    """More rows in a table widen the interval of each."""
    values = {NAME: [50 * MIB, 51 * MIB, 52 * MIB]}
    one = [run(number, measured(values)) for number in (1, 2)]
    many = [run(number, measured(values), measured(values, NO_REUSE)) for number in (1, 2)]
    errors = [
        compare_runs(runs[:1], runs[1:], [], [METRIC]).rows[0].difference.error or 0
        for runs in (one, many)
    ]
    assert errors[1] > errors[0]


def test_a_failed_run_beside_a_good_one_of_a_side_does_not_count() -> None:
    """A failed run of a side does not hide the good ones."""
    good = measured({NAME: [50 * MIB] * 3})
    failed = measured({}, outcome="crashed")
    (change,) = compare_runs([run(1, good), run(2, failed)], [run(3, good)], [], [METRIC]).rows
    assert change.verdict == NO_CHANGE
    assert change.difference.base_count == 3
