"""Signs of short memory from partial evidence.

tests/harness/measuring/test_shortage.py has the other cases.
"""

from __future__ import annotations

import pytest

from reusebench.samplers.evidence import Evidence
from reusebench.samplers.readings import Pressure

_MIB = 2**20
_S = 10**9


@pytest.mark.parametrize(
    ("pss_mib", "swapped_mib", "stalled_ms", "codes"),
    [
        (400, 4, 0, ["shortage_swapped"]),
        (400, 3, 0, []),
        (0, 0, 0, []),  # its PSS was never read
        (0, 4, 199, []),
        (400, 0, 200, ["shortage_stalled"]),
        (400, 4, 200, ["shortage_swapped", "shortage_stalled"]),
    ],
)
def test_signs_of_a_recorded_program(
    pss_mib: int, swapped_mib: int, stalled_ms: int, codes: list[str]
) -> None:
    """The limits are a hundredth of PSS swapped out, or two hundredths of the time waited."""
    evidence = Evidence(
        counted=Pressure(stalled_some_ns=stalled_ms * 10**6),
        elapsed_ns=10 * _S,
        pss_bytes=pss_mib * _MIB,
        swapped_bytes=swapped_mib * _MIB,
    )
    assert [sign.code for sign in evidence.signs()] == codes
