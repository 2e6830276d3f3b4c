"""Bounds of memory between two moments, from counters that the test sets."""

from __future__ import annotations

import pytest

from reusebench.recorder.moments import MemoryRange, Moment, ProcessState

_PAGE = 4096
_HUGE = 2**21


def moment(time_ns: int, **pages: tuple[int, int, int]) -> Moment:
    """Return a moment; of each process its resident pages, its peak and its faults."""
    states = {}
    for name, (resident, peak, faults) in pages.items():
        states[int(name[1:])] = ProcessState(resident * _PAGE, peak * _PAGE, faults, 0)
    return Moment(time_ns, states)


@pytest.mark.parametrize(
    ("before", "after", "low", "high"),
    [
        ((100, 100, 7), (100, 100, 7), 100, 100),  # nothing
        ((300, 300, 7), (100, 300, 7), 100, 300),  # a fall
        ((100, 100, 7), (180, 180, 87), 100, 180),  # growth, which its faults explain
        ((300, 300, 7), (160, 300, 107), 60, 300),  # a fall, and growth after it or before
        ((100, 100, 7), (100, 190, 97), 10, 190),  # a spike, or a dip and another one
        ((100, 500, 7), (100, 500, 97), 10, 190),  # the same after a higher peak
        ((100, 100, 7), (100, 400, 8), 99, 400),  # a spike without faults, as with huge pages
        ((100, 500, 7), (90, 90, 7), 90, 100),  # it executed another program
    ],
)
def test_what_memory_can_have_been(
    before: tuple[int, int, int], after: tuple[int, int, int], low: int, high: int
) -> None:
    """It is no higher than the kernel's peak, and changed by no more than its faults brought."""
    bounds = MemoryRange.between(moment(0, p1=before), moment(1, p1=after), _PAGE, {})
    assert bounds.processes == {1: (low * _PAGE, high * _PAGE)}


def test_a_fault_may_bring_a_huge_page() -> None:
    """As many as there are afterwards, and at most one for each fault."""
    before = moment(0, p1=(5000, 9000, 7))
    after = moment(1, p1=(5000, 9000, 9))
    for huge_bytes, brought_bytes in ((0, 0), (_HUGE, _HUGE), (9 * _HUGE, 2 * _HUGE)):
        bounds = MemoryRange.between(before, after, _PAGE, {1: huge_bytes})
        low_bytes, high_bytes = bounds.processes[1]
        assert low_bytes == 5000 * _PAGE - 2 * _PAGE - brought_bytes
        assert high_bytes == 5000 * _PAGE + 2 * _PAGE + brought_bytes


def test_processes_that_come_and_go() -> None:
    """They had anything up to the memory that was seen."""
    before = moment(0, p1=(50, 60, 1), p2=(30, 30, 1))
    after = moment(1, p1=(50, 60, 1), p3=(20, 25, 1))
    bounds = MemoryRange.between(before, after, _PAGE, {})
    assert bounds.processes[2] == (0, 30 * _PAGE)
    assert bounds.processes[3] == (0, 25 * _PAGE)
    assert (bounds.high_bytes, bounds.largest_bytes) == (105 * _PAGE, 50 * _PAGE)


def test_peaks_that_began_anew() -> None:
    """An earlier peak still bounds what was between an earlier moment and now."""
    later = moment(2, p1=(10, 20, 1), p2=(5, 5, 1)).since(moment(1, p1=(30, 40, 1)))
    assert [state.high_water_bytes for state in later.states.values()] == [40 * _PAGE, 5 * _PAGE]
    assert later.since(None) == later
