"""Signs of short memory from partial evidence.

tests/harness/measuring/test_shortage.py has the other cases.
"""

from __future__ import annotations

import msgspec
import pytest

from reusebench.samplers.evidence import Evidence, available_share
from reusebench.samplers.readings import GroupMemory, Pressure
from tests.helpers.support import SYSTEM

_MIB = 2**20
_S = 10**9


def _evidence(stalled_ms: int = 0, **other: object) -> Evidence:
    """Return the evidence of ten seconds of a process of 400 MiB, with memory left."""
    given = {"pss_bytes": 400 * _MIB, "swapped_bytes": 0, "least_available_share": 0.9, **other}
    given.setdefault("counted", Pressure(stalled_some_ns=stalled_ms * 10**6, stalls_of="system"))
    return msgspec.convert({"elapsed_ns": 10 * _S, **given}, Evidence)


def _codes(evidence: Evidence) -> list[str]:
    return [sign.code for sign in evidence.signs()]


@pytest.mark.parametrize(
    ("pss_mib", "swapped_mib", "stalled_ms", "codes"),
    [
        (400, 4, 0, ["shortage_swapped"]),
        (400, 3, 0, []),
        (0, 0, 0, []),  # its PSS was never read
        (0, 4, 199, []),
        (400, 4, 200, ["shortage_swapped", "shortage_stalled"]),
    ],
)
def test_signs_of_a_recorded_program(
    pss_mib: int, swapped_mib: int, stalled_ms: int, codes: list[str]
) -> None:
    """The limits are a hundredth of PSS swapped out, or two hundredths of the time waited."""
    evidence = _evidence(stalled_ms, pss_bytes=pss_mib * _MIB, swapped_bytes=swapped_mib * _MIB)
    assert _codes(evidence) == codes


@pytest.mark.parametrize(
    ("available", "is_limited", "stalls_of", "is_short"),
    [
        (0.9, False, "system", False),
        (0.9, False, "cgroup", False),  # of a session with other programs
        (0.9, True, "system", False),
        (0.9, True, "cgroup", True),
        (0.05, False, "system", True),
        (0.06, False, "system", False),
    ],
)
def test_waiting_of_other_programs_is_no_sign(
    available: float, is_limited: bool, stalls_of: str, is_short: bool
) -> None:
    """Waiting counts in a limited control group, or if hardly any memory was left.

    Otherwise it is said that another program waited.
    """
    evidence = _evidence(
        counted=Pressure(stalled_some_ns=_S, stalls_of=stalls_of),
        least_available_share=available,
        is_limited=is_limited,
    )
    assert _codes(evidence) == (["shortage_stalled"] if is_short else [])
    remarks = [str(remark) for remark in evidence.remarks()]
    assert len(remarks) == (0 if is_short else 1)
    assert all("another program waited for memory for 10 % of the time" in text for text in remarks)


@pytest.mark.parametrize(
    ("reclaimed_mib", "reclaims_of", "available", "is_limited", "faults", "is_short"),
    [
        (30, "cgroup", 0.9, True, 0, True),
        (29, "cgroup", 0.9, True, 0, False),  # the process has released the rest by itself
        (30, "cgroup", 0.9, False, 0, False),
        (900, "system", 0.9, True, 0, False),  # page cache of others
        (900, "system", 0.9, False, 1, True),
        (900, "system", 0.04, False, 0, True),
        (0, "system", 0.04, False, 0, False),
    ],
)
def test_lost_pages_are_a_sign_if_the_kernel_took_them(
    reclaimed_mib: int,
    reclaims_of: str,
    available: float,
    is_limited: bool,
    faults: int,
    is_short: bool,
) -> None:
    """The kernel took as much as was lost, and from this process: a runtime may unmap by itself."""
    counted = Pressure(
        refaulted_file_bytes=_MIB, reclaimed_bytes=reclaimed_mib * _MIB, reclaims_of=reclaims_of
    )
    evidence = _evidence(
        counted=counted,
        lost_file_bytes=30 * _MIB,
        least_available_share=available,
        is_limited=is_limited,
        steady_major_faults=faults,
    )
    assert _codes(evidence) == (["shortage_evicted"] if is_short else [])


def test_the_tighter_of_machine_and_control_group_counts() -> None:
    """The available share is that of the machine, or of a control group's limit if it is less."""
    system = msgspec.structs.replace(SYSTEM, total_bytes=1000, available_bytes=500)
    group = GroupMemory(limit_bytes=100, limit_source="f", available_bytes=20, charged_bytes=80)
    assert available_share(system, None) == 0.5
    assert available_share(system, group) == 0.2
    assert available_share(SYSTEM, None) == 1.0
