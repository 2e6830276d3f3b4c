"""The evidence that memory was short while a repeat was measured."""

from __future__ import annotations

from typing import Optional

import pytest

from reusebench.harness.measuring.shortage_evidence import shortage_of
from reusebench.samplers.readings import GroupMemory, Pressure
from reusebench.storage.memory_shortage import Shortage
from reusebench.targets.barriers import BarrierReading
from tests.helpers.support import barrier, known

_MIB = 2**20
_S = 10**9


def _barrier(
    phase: str, at_s: int, file_mib: Optional[int], pressure: Optional[Pressure], swap_mib: int = 0
) -> BarrierReading:
    file_bytes = None if file_mib is None else file_mib * _MIB
    read = barrier(
        phase,
        at_ns=at_s * _S,
        pss_bytes=400 * _MIB,
        rss_file_bytes=file_bytes,
        swap_bytes=swap_mib * _MIB,
    )
    read.pressure = pressure
    return read


def _walk(loaded: Pressure, ran: Pressure, lost_mib: int = 0, swap_mib: int = 0) -> Shortage:
    """Return the shortage of a process that maps 100 MiB of files and loses some in the steady
    state.
    """
    barriers = [
        _barrier("imported", 1, 20, Pressure(major_faults=30)),
        _barrier("first_inference", 5, 100, loaded),
        _barrier("steady", 10, 100 - lost_mib, ran, swap_mib),
        _barrier("destroy", 10, 20, ran),
    ]
    return known(shortage_of(barriers, start_ns=0))


def _codes(shortage: Shortage) -> list[str]:
    return [sign.code for sign in shortage.signs]


def _pressure(faults: int = 0, refaulted_mib: int = 0, stalled_ms: int = 0) -> Pressure:
    return Pressure(
        major_faults=faults,
        refaulted_file_bytes=refaulted_mib * _MIB,
        stalled_some_ns=stalled_ms * 1_000_000,
    )


def test_first_loads_are_no_shortage() -> None:
    """With a cold cache, models load with major faults and refaults, and reclaiming unused cache
    stalls a little.
    """
    loaded = _pressure(faults=500, refaulted_mib=300, stalled_ms=80)
    shortage = _walk(loaded, loaded)
    assert (shortage.signs, shortage.lost_file_bytes, shortage.steady_major_faults) == ((), 0, 0)
    assert shortage.counted == loaded


@pytest.mark.parametrize(
    ("ran", "lost_mib", "swap_mib", "codes"),
    [
        (_pressure(faults=3, refaulted_mib=1), 30, 0, ["shortage_evicted"]),
        (_pressure(refaulted_mib=1), 30, 0, []),  # the faults of others
        (_pressure(faults=3, refaulted_mib=1), 3, 0, []),
        (_pressure(faults=3), 30, 0, []),  # the runtime dropped it
        (
            Pressure(major_faults=3),
            30,
            0,
            ["shortage_evicted"],
        ),  # the kernel does not count what it reclaims
        (_pressure(), 0, 5, ["shortage_swapped"]),
        (_pressure(faults=70, refaulted_mib=40), 0, 0, ["shortage_refaulted"]),
        (_pressure(faults=70), 0, 0, []),  # files that were never read before
        (_pressure(stalled_ms=900), 0, 0, []),  # another program
    ],
)
def test_signs(ran: Pressure, lost_mib: int, swap_mib: int, codes: list[str]) -> None:
    """Memory that the kernel took from the process is a sign if a figure can show it."""
    assert _codes(_walk(_pressure(), ran, lost_mib, swap_mib)) == codes


def test_signs_say_how_much() -> None:
    """The signs are sentences for the terminal."""
    shortage = _walk(_pressure(), _pressure(faults=70, refaulted_mib=1, stalled_ms=1200), 30, 8)
    assert [str(sign) for sign in shortage.signs] == [
        "30.0 MiB of its mapped files were evicted",
        "8.0 MiB of its memory were swapped out",
        "in the steady state 70 page faults waited for evicted pages",
        "work waited for memory for 12 % of the time",
    ]


@pytest.mark.parametrize("is_limited", [False, True])
def test_waiting_is_a_sign_in_a_limited_group(is_limited: bool) -> None:
    """If the control group has no limit, another program waited, which is a remark."""
    group = GroupMemory(limit_bytes=400, limit_source="f", available_bytes=80, charged_bytes=320)
    waited = Pressure(stalled_some_ns=_S, stalls_of="cgroup")
    barriers = [_barrier("imported", 1, 20, Pressure()), _barrier("steady", 10, 20, waited)]
    for read in barriers:
        read.group = group if is_limited else None
    shortage = known(shortage_of(barriers, start_ns=0))
    assert _codes(shortage) == (["shortage_stalled"] if is_limited else [])
    assert [remark.code for remark in shortage.remarks] == ([] if is_limited else ["others_waited"])


def test_what_is_not_told_is_no_sign() -> None:
    """Traces of older versions have no counters, and some kernels do not tell files from anonymous
    memory.
    """
    assert shortage_of([], 0) is None
    assert shortage_of([_barrier("imported", 1, 20, None)], 0) is None
    shortage = known(shortage_of([_barrier("imported", 1, None, Pressure())], 0))
    assert (shortage.signs, shortage.lost_file_bytes, shortage.steady_major_faults) == (
        (),
        None,
        None,
    )
