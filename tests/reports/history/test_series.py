"""Series from runs: gaps, failed runs, other machines, and conditions that change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reusebench.reports.history.configuration_runs import configurations_of
from reusebench.reports.history.series import Event, MetricSeries, series_of
from reusebench.storage.metrics import Metric, find_metric
from reusebench.storage.runs import Run
from tests.reports.compare.short_runs import FULL_DUP, MIB, NO_REUSE, SHORT, measured, run

_MEMORY = find_metric("application_memory")
_LATENCY = find_metric("latency")


def series_in(runs: Sequence[Run], metrics: Sequence[Metric]) -> list[MetricSeries]:
    return series_of(configurations_of(runs, metrics), metrics)


def test_runs_stand_in_their_order_with_gaps_left_out() -> None:
    """Points are in order of time; runs without the configuration are left out."""
    both = run(
        3,
        measured({_MEMORY.name: [5 * MIB, 7 * MIB, 6 * MIB]}),
        measured({_MEMORY.name: [1.0]}, NO_REUSE),
    )
    runs = [
        both,
        run(1, measured({_MEMORY.name: [4 * MIB]})),
        run(2, measured({_MEMORY.name: [1.0]}, NO_REUSE)),
    ]
    dup, reuse = series_in(runs, [_MEMORY, _LATENCY])
    assert (dup.configuration, reuse.configuration) == (FULL_DUP, NO_REUSE)
    assert [(point.run.number, point.median / MIB) for point in dup.points] == [(1, 4), (3, 6)]
    assert [point.run.number for point in reuse.points] == [2, 3]


def test_failed_runs_are_points_without_values() -> None:
    """A crash is a point with its outcome; a configuration without any values has no series."""
    runs = [
        run(1, measured({_MEMORY.name: [1.0]})),
        run(2, measured({}, outcome="crashed"), measured({}, NO_REUSE, outcome="not_supported")),
    ]
    (series,) = series_in(runs, [_MEMORY])
    assert [point.outcome for point in series.points] == ["ok", "crashed"]
    assert series.measured == [0]


def test_a_copy_has_a_series_if_it_was_measured_once() -> None:
    """A copy that was never measured has no series: its original has the same points."""
    both = [
        measured({_MEMORY.name: [1.0]}, NO_REUSE),
        measured({_MEMORY.name: [1.0]}, original=NO_REUSE),
    ]
    copies = [run(number, *both) for number in (1, 2)]
    assert [series.configuration for series in series_in(copies, [_MEMORY])] == [NO_REUSE]
    for own in (measured({_MEMORY.name: [1.0]}), both[1]):
        assert [len(series.points) for series in series_in([*copies, run(3, own)], [_MEMORY])] == [
            2,
            3,
        ]


def test_another_machine_is_another_series() -> None:
    """Runs on another board or chip make a series of their own."""
    one = run(1, measured({_MEMORY.name: [1.0]}))
    runs = [
        one,
        run(1, measured({_MEMORY.name: [1.0]}, board="another")),
        run(2, measured({_MEMORY.name: [2.0]}, chip="rk3588")),
    ]
    assert [(series.board, series.chip) for series in series_in(runs, [_MEMORY])] == [
        ("a board", "a chip"),
        ("another", "a chip"),
        ("a board", "rk3588"),
    ]


def test_conditions_that_change_are_events() -> None:
    """A new version is an event at the first run under it, also over a failed run; the series goes
    on.
    """
    runs = [
        run(1, measured({_MEMORY.name: [1.0]}, runtime_version="1.0")),
        run(2, measured({}, outcome="hung", runtime_version="1.1")),
        run(3, measured({_MEMORY.name: [1.0]}, runtime_version="1.2", plan="other")),
    ]
    (series,) = series_in(runs, [_MEMORY])
    assert series.events == [
        Event(2, "runtime_version", "1.0", "1.2"),
        Event(2, "plan", "a plan", "other"),
    ]


def test_runs_of_one_commit_are_points_of_their_own() -> None:
    """A commit that was measured twice has two points."""
    one = run(1, measured({_MEMORY.name: [1.0]}))
    two = run(2, measured({_MEMORY.name: [1.0]}))
    (series,) = series_in([one, replace(two, commit=one.commit)], [_MEMORY])
    assert len(series.points) == 2


def test_speed_of_a_busy_machine_is_disturbed() -> None:
    """Other work on the machine disturbs latency, but not memory."""
    busy = run(1, measured({_MEMORY.name: [1.0], _LATENCY.name: [2.0]}, busy_percent=90))
    memory, latency = series_in([busy], [_MEMORY, _LATENCY])
    assert (memory.undisturbed, latency.undisturbed, latency.measured) == ([0], [], [0])


def test_figures_taken_while_memory_was_short_are_disturbed() -> None:
    """Runs with a shortage of memory are disturbed, for all metrics, and stay in the history."""
    short = run(1, measured({_MEMORY.name: [1.0], _LATENCY.name: [2.0]}, shortage_signs=SHORT))
    for series in series_in([short], [_MEMORY, _LATENCY]):
        assert (series.undisturbed, series.measured) == ([], [0])
