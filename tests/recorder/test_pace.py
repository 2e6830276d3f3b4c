"""The times at which costly readings are due."""

from __future__ import annotations

import random

from reusebench.recorder.pace import Pace

_MS = 10**6


def _taken_until(end_ns: int, pace: Pace, cost_ns: int) -> list[int]:
    """Return the times of readings of that cost, if the pace is asked every millisecond."""
    times = []
    for now_ns in range(0, end_ns, _MS):
        if pace.is_due(now_ns):
            times.append(now_ns)
            pace.taken(now_ns + cost_ns, cost_ns)
    return times


def test_readings_are_often_at_first_and_then_seldom() -> None:
    """The gaps double up to the longest, if readings cost next to nothing."""
    pace = Pace(5 * _MS, 100 * _MS, 0.01, 0.02)
    times = _taken_until(1000 * _MS, pace, cost_ns=1)
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    assert gaps == sorted(gaps)
    assert gaps[0] < 10 * _MS
    assert gaps[-1] in (100 * _MS, 101 * _MS)


def test_readings_keep_within_their_share() -> None:
    """However much a reading costs, all readings together keep within the share of the time."""
    for cost_ns in (20_000, 300_000, 6_000_000):
        end_ns = 60_000 * _MS
        times = _taken_until(end_ns, Pace(5 * _MS, 500 * _MS, 0.002, 0.005), cost_ns)
        # The first reading is made before its cost is known.
        assert (len(times) - 1) * cost_ns <= 0.005 * end_ns
        late = [time_ns for time_ns in times if time_ns > end_ns / 2]
        assert len(late) * cost_ns <= 0.002 * end_ns / 2 + cost_ns
        assert late


def test_a_new_phase_is_read_often_again_within_the_share() -> None:
    """A restart brings the next reading forward.

    It still waits until the last reading is paid for, or is a quarter of a second old.
    """
    pace = Pace(5 * _MS, 500 * _MS, 0.002, 0.005)
    _taken_until(5000 * _MS, pace, cost_ns=1000)
    pace.restart(5000 * _MS)
    assert pace.is_due(5005 * _MS)
    pace.taken(5010 * _MS, _MS)
    pace.restart(5020 * _MS)
    assert not pace.is_due(5200 * _MS)
    assert pace.is_due(5010 * _MS + 200 * _MS)
    pace.taken(6000 * _MS, 10 * _MS)
    pace.restart(6020 * _MS)
    assert not pace.is_due(6200 * _MS)
    assert pace.is_due(6250 * _MS)
    pace.taken(6250 * _MS, 10 * _MS)
    assert not pace.is_due(6250 * _MS + 1900 * _MS)


def test_readings_at_marks_keep_within_their_share() -> None:
    """Marks may come at any time: readings at them are skipped if they would exceed the share."""
    pace = Pace(5 * _MS, 500 * _MS, 0.002, 0.005)
    spent_ns = 0
    now_ns = 0
    chance = random.Random(1)
    while now_ns < 20_000 * _MS:
        now_ns += chance.randrange(10 * _MS)
        if pace.affords(now_ns):
            pace.taken(now_ns, _MS)
            spent_ns += _MS
    assert 0.03 * now_ns < spent_ns <= 0.05 * now_ns + _MS


def test_a_reading_at_a_mark_is_due_after_a_while_whatever_it_costs() -> None:
    """On a busy machine a reading may cost so much that a phase would otherwise end without one."""
    pace = Pace(5 * _MS, 500 * _MS, 0.002, 0.005)
    pace.taken(1000 * _MS, 20 * _MS)
    assert not pace.affords(1200 * _MS)
    assert pace.affords(1250 * _MS)
