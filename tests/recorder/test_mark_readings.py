"""Memory at a mark at which the program went on, from counters and shares that the test sets."""

from __future__ import annotations

import pytest

from reusebench.recorder.mark_readings import Known
from reusebench.recorder.moments import Moment, ProcessState
from reusebench.samplers.process_memory import Shares

_PAGE = 4096


def state(resident: int, faults: int = 0, file: int = 0, peak: int = 0) -> ProcessState:
    """Return the counters of a process; sizes in pages."""
    peak_bytes = max(peak, resident) * _PAGE
    return ProcessState(resident * _PAGE, peak_bytes, faults, file * _PAGE)


def shares(rss: int, pss: int, uss: int) -> Shares:
    """Return the shares of a process; sizes in pages."""
    return Shares(pss * _PAGE, uss * _PAGE, 0, rss * _PAGE, 0)


def in_pages(*sizes: int | None) -> tuple[float | None, ...]:
    """Return sizes in pages."""
    return tuple(None if size is None else size / _PAGE for size in sizes)


@pytest.mark.parametrize(
    ("before", "last", "after", "figure", "least", "most"),
    [
        # Nothing changed, although the kernel's counters are not those of smaps_rollup.
        (state(103), state(103), state(103), 90, 90, 90),
        # It took 40 pages before the mark, and 7 around it.
        (state(100), state(140, 40), state(147, 47), 130, 130, 137),
        # It freed 60 pages around the mark; of the 20 shared ones others may have kept all.
        (state(100), state(100), state(40), 90, 30, 90),
        # It freed 60 pages before the mark.
        (state(100), state(40), state(40), 30, 30, 50),
        # Files of 30 pages came, which another process may have had.
        (state(100), state(130, 2, 30), state(130, 2, 30), 120, 90, 122),
        # It wrote to pages that it shared: RSS is the same, and 15 are its own now.
        (state(100), state(100), state(100, 15), 90, 75, 105),
    ],
)
def test_memory_at_a_passed_mark(
    before: ProcessState,
    last: ProcessState,
    after: ProcessState,
    figure: int,
    least: int,
    most: int,
) -> None:
    """The figure is the PSS and the change of RSS until the last counters, within its bounds."""
    known = Known(Moment(5, {1: last}), Moment(3, {1: before}), {1: shares(100, 90, 80)})
    at_mark = Moment(9, {1: after})
    passed = known.passed(at_mark, at_mark, _PAGE, {})
    assert passed.before_ns == 5
    assert in_pages(passed.pss_bytes) == (figure,)
    assert in_pages(passed.least_bytes, passed.most_bytes) == (least, most)
    assert passed.uss_bytes <= passed.pss_bytes <= passed.rss_bytes


def test_processes_that_come_and_go_around_a_mark() -> None:
    """A new one may have any share up to its RSS; of one that has gone, others may keep a part."""
    parent = state(100)
    gone = state(50)
    known = Known(
        Moment(5, {1: parent}),
        Moment(3, {1: parent, 2: gone, 7: state(60)}),
        {1: shares(100, 70, 40), 2: shares(50, 30, 10)},
    )
    found = state(30)
    passed = known.passed(
        Moment(9, {1: state(80, peak=100)}), Moment(9, {1: state(80), 8: found}), _PAGE, {}
    )
    # Process 2 took its own 10 pages along; the hidden process 7 counts nowhere.
    assert in_pages(passed.pss_bytes, passed.uss_bytes) == (90, 40)
    # The parent had 80 to 100 pages. Of process 2 up to 40 pages may be left, of 8 up to 30 more.
    assert in_pages(passed.least_bytes, passed.most_bytes) == (100 - 20 - 30, 100 - 0 + 30)
    assert passed.peak.processes.keys() == {1, 8}


def test_a_process_that_was_ending_may_leave_its_shares() -> None:
    """Its memory was no longer readable, and its parent did not yet have all of what they share."""
    parent = state(100)
    known = Known(Moment(5, {1: parent}), Moment(5, {1: parent}), {1: shares(100, 60, 20)}, 90)
    at_mark = Moment(9, {1: parent})
    passed = known.passed(at_mark, at_mark, 1, {})
    assert in_pages(passed.pss_bytes, passed.least_bytes) == (60, 60)
    assert passed.most_bytes == 60 * _PAGE + 90


def test_a_program_that_has_ended_has_no_bounds() -> None:
    """Nothing is known of what it did after the last reading."""
    known = Known(Moment(5, {1: state(9)}), Moment(5, {1: state(9)}), {1: shares(9, 9, 9)})
    passed = known.passed(Moment(9, {}), Moment(9, {}), _PAGE, {})
    assert in_pages(passed.pss_bytes, passed.least_bytes, passed.most_bytes) == (9, None, None)
