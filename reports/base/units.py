"""A figure of any metric in the unit that people read: MiB, ms, inferences per second, percent."""

from __future__ import annotations

from storage.metrics import BYTES, NANOSECONDS, PER_SECOND, PERCENT, Metric

#: By a metric's unit: the unit that is shown, how many of the metric's it is, and decimals.
_SHOWN = {BYTES: ("MiB", 2**20, 2), NANOSECONDS: ("ms", 10**6, 3), PER_SECOND: ("/s", 1, 2), PERCENT: ("%", 1, 2)}
#: Units for what would be shown as zero and is not.
_SMALLER = {BYTES: (("KiB", 2**10), ("B", 1)), NANOSECONDS: (("ns", 1),)}


def shown_unit(metric: Metric) -> str:
    """Return the unit that the metric is shown in."""
    return _SHOWN[metric.unit][0]


def scaled(value: float, metric: Metric) -> float:
    """Return the value in the shown unit."""
    return value / _SHOWN[metric.unit][1]


def number(value: float, metric: Metric, sign: bool = False) -> str:
    """Return the value in the shown unit, without it; what would be zero there and is not has a unit of its own."""
    text, unit = _written(value, metric, sign)
    return text if unit == shown_unit(metric) else f"{text} {unit}"


def amount(value: float, metric: Metric, sign: bool = False) -> str:
    """Return the value with its unit."""
    return " ".join(_written(value, metric, sign))


def _written(value: float, metric: Metric, sign: bool) -> tuple[str, str]:
    unit, factor, decimals = _SHOWN[metric.unit]
    plus = "+" if sign and value > 0 else ""
    if value == 0 or round(value / factor, decimals) != 0:
        return f"{plus}{value / factor:,.{decimals}f}", unit
    for smaller, parts in _SMALLER.get(metric.unit, ()):
        if round(value / parts, 2) != 0:
            return f"{plus}{value / parts:,.2f}".rstrip("0").rstrip("."), smaller
    return f"{0:.{decimals}f}", unit
