"""Figures of metrics in the units that people read."""

from __future__ import annotations

import pytest

from reports.base.units import amount, number
from storage.metrics import find_metric

MEMORY, LATENCY, RATE = (find_metric(name) for name in ("npu_memory", "latency", "throughput"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.00"),
        (2**20, "+1.00"),
        (-(2**20), "-1.00"),
        (6000, "+0.01"),
        (4096, "+4 KiB"),
        (1, "+1 B"),
        (-1.5, "-1.5 B"),
    ],
)
def test_what_is_not_nothing_is_not_shown_as_nothing(value: float, shown: str) -> None:
    """A byte more of counted memory is a change, and is told as one byte."""
    assert number(value, MEMORY, sign=True) == shown


def test_amounts_have_one_unit() -> None:
    """The unit is that of the number, also where it is a smaller one."""
    assert [amount(value, MEMORY) for value in (2**21, 1)] == ["2.00 MiB", "1 B"]
    assert [amount(value, LATENCY) for value in (7_268_000, 100)] == ["7.268 ms", "100 ns"]
    assert amount(0.0001, RATE) == "0.00 /s"
