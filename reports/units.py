"""A figure of any metric in the unit that people read: MiB, ms, inferences per second."""

from __future__ import annotations

from storage.metrics import BYTES, NANOSECONDS, PER_SECOND, Metric

__all__ = ["amount", "number", "scaled", "shown_unit"]

#: By a metric's unit: the unit that is shown, how many of the metric's it is, and decimals.
_SHOWN = {BYTES: ("MiB", 2**20, 2), NANOSECONDS: ("ms", 10**6, 3), PER_SECOND: ("/s", 1, 2)}


def shown_unit(metric: Metric) -> str:
    """Return the unit that the metric is shown in."""
    return _SHOWN[metric.unit][0]


def scaled(value: float, metric: Metric) -> float:
    """Return the value in the shown unit."""
    return value / _SHOWN[metric.unit][1]


def number(value: float, metric: Metric, sign: bool = False) -> str:
    """Return the value in the shown unit, without it; no sign at what is shown as zero."""
    decimals = _SHOWN[metric.unit][2]
    shown = round(scaled(value, metric), decimals)
    return f"{shown + 0.0:{'+' if sign and shown else ''},.{decimals}f}"


def amount(value: float, metric: Metric, sign: bool = False) -> str:
    """Return the value with the shown unit."""
    return f"{number(value, metric, sign)} {shown_unit(metric)}"
