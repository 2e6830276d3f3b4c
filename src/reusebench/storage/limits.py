"""Sizes, ages and gate limits as users write them: `512MiB`, `90d`, `application_memory:2%`."""

from __future__ import annotations

import argparse
import datetime
import re
from dataclasses import dataclass

from reusebench.storage.metrics import BYTES, NANOSECONDS, Metric, UnknownMetric, find_metric

__all__ = ["GateLimit", "LimitInvalid", "parse_age", "parse_limit", "parse_size"]

#: Key: a metric's unit, then the suffix of a number; value: the factor. A rate has no suffix.
_UNITS = {
    BYTES: {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    NANOSECONDS: {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
}
#: Days of the units of an age.
_AGES = {"h": 1 / 24, "d": 1, "w": 7, "y": 365}
#: An age that no run has, and a date can still be that much earlier.
_OLDEST = datetime.timedelta(days=365 * 1000)
#: Bytes that a 64-bit address can tell apart; no memory has more.
_ADDRESSES = 2**64
_PART = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z%]*)")


@dataclass(frozen=True)
class GateLimit:
    """The rise that a gate allows: a share of the base's figure plus an amount."""

    metric: Metric
    percent: float
    #: In the metric's unit.
    amount: float
    #: The user's spelling.
    text: str

    def allowed(self, base: float) -> float:
        """Return the allowed change for the worse from `base`, in the metric's unit."""
        return abs(base) * self.percent / 100 + self.amount


class LimitInvalid(argparse.ArgumentTypeError):
    """A limit that cannot be parsed; argparse shows the message as it is."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(
            f"{text!r} is not a limit: {reason}. Write METRIC:PERCENT%+AMOUNT, or one of the two,"
            " such as application_memory:2%+512KiB, npu_memory:0 or latency:5%"
        )


def parse_limit(text: str) -> GateLimit:
    """Parse METRIC:PERCENT%+AMOUNT; raise LimitInvalid."""
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
            raise LimitInvalid(text, f"{part.strip()!r} is not a number with a unit")
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
        else:  # a rate, or 0
            amount += number
    return GateLimit(metric, percent, amount, text)


def parse_size(text: str) -> int:
    """Return whole bytes, above 0; raise argparse.ArgumentTypeError."""
    units = _UNITS[BYTES]
    size_bytes = 0.0
    match = _PART.fullmatch(text)
    if match:
        size_bytes = float(match["number"]) * units.get(match["unit"], 0)
    if not 1 <= size_bytes < _ADDRESSES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size; valid: a number with {', '.join(units)}, as 512MiB"
        )
    return int(size_bytes)


def parse_age(text: str) -> datetime.timedelta:
    """Return a span of time; raise argparse.ArgumentTypeError."""
    match = _PART.fullmatch(text)
    if not match or match["unit"] not in _AGES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an age; valid: a number with {', '.join(_AGES)}, as 90d"
        )
    days = float(match["number"]) * _AGES[match["unit"]]
    return datetime.timedelta(days=min(days, _OLDEST.days))
