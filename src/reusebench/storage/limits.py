"""What users write of sizes: `512MiB`, and how much a figure may get worse before a build fails:
`application_memory:2%+512KiB`.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from reusebench.storage.metrics import BYTES, NANOSECONDS, Metric, UnknownMetric, find_metric

__all__ = ["GateLimit", "LimitInvalid", "parse_limit", "parse_size"]

#: By a metric's unit: what may follow a number, and how many of the unit it is; a rate has no unit.
_UNITS = {
    BYTES: {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    NANOSECONDS: {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
}
#: No memory has more bytes than an address of 64 bits can tell apart.
_ADDRESSES = 2**64
_PART = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z%]*)")


@dataclass(frozen=True)
class GateLimit:
    """How much worse a figure may get: a share of the baseline's and an amount besides, both
    together.
    """

    metric: Metric
    percent: float
    #: In the metric's unit.
    amount: float
    #: As the user wrote it.
    text: str

    def allowed(self, base: float) -> float:
        """Return how much worse the figure may get from this one, in the metric's unit."""
        return abs(base) * self.percent / 100 + self.amount


class LimitInvalid(argparse.ArgumentTypeError):
    """A limit that cannot be read; argparse shows the message as it is."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(
            f"{text!r} is no limit: {reason}. Write METRIC:PERCENT%+AMOUNT, or one of the two, such"
            " as application_memory:2%+512KiB, npu_memory:0 or latency:5%"
        )


def parse_limit(text: str) -> GateLimit:
    """Return the limit, or raise LimitInvalid."""
    name, colon, allowed = text.partition(":")
    if not colon:
        raise LimitInvalid(text, "there is no colon")
    try:
        metric = find_metric(name.strip())
    except UnknownMetric as error:
        raise LimitInvalid(text, str(error)) from None
    units = _UNITS.get(metric.unit, {})
    percent = 0.0
    amount = 0.0
    for part in allowed.split("+"):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise LimitInvalid(text, f"{part.strip()!r} is no number with a unit")
        number = float(match["number"])
        unit = match["unit"]
        if unit == "%":
            percent += number
        elif unit in units:
            amount += number * units[unit]
        elif unit or (number and units):
            valid = ", ".join((*units, "%"))
            raise LimitInvalid(
                text, f"{part.strip()} of {metric.name} needs a unit; valid: {valid}"
            )
        else:  # of a rate, or 0
            amount += number
    return GateLimit(metric, percent, amount, text)


def parse_size(text: str) -> int:
    """Return whole bytes, above 0; raise argparse.ArgumentTypeError."""
    match = _PART.fullmatch(text)
    units = _UNITS[BYTES]
    size_bytes = float(match["number"]) * units.get(match["unit"], 0) if match else 0.0
    if not 1 <= size_bytes < _ADDRESSES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size; valid: a number with {', '.join(units)}, as 512MiB"
        )
    return int(size_bytes)
