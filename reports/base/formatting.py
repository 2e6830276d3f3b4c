"""Numbers as people read them, on the page and in the terminal.

The figures that live lines show too are rounded in storage.formatting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from reusebench.reports.base.statistics import Figure
from reusebench.storage.formatting import (
    EMPTY,
    MIB,
    doubted,
    mib,
    mib_decimals,
    mib_spread,
    milliseconds,
    milliseconds_range,
    number,
    per_second,
    percent,
    seconds,
)
from reusebench.storage.metrics import (
    BYTES,
    NANOSECONDS,
    PER_SECOND,
    PERCENT,
    TOKENS_PER_SECOND,
    Metric,
)

__all__ = [
    "EMPTY",
    "MIB",
    "component_mib",
    "counted",
    "counted_mib",
    "daily",
    "doubted",
    "gigabytes",
    "in_metric_unit",
    "level_amount",
    "megabytes",
    "metric_amount",
    "metric_level",
    "metric_number",
    "metric_unit",
    "mib",
    "mib_decimals",
    "mib_per_minute",
    "mib_spread",
    "milliseconds",
    "milliseconds_range",
    "per_second",
    "percent",
    "plain",
    "ranges",
    "seconds",
    "share",
    "sized",
    "to_the_minute",
    "whole",
    "whole_mib",
]

#: Key: a metric's unit. Values: the unit that is shown, its size in the metric's unit, decimals.
_SHOWN = {
    BYTES: ("MiB", MIB, 2),
    NANOSECONDS: ("ms", 10**6, 3),
    PER_SECOND: ("/s", 1, 2),
    TOKENS_PER_SECOND: ("tokens/s", 1, 2),
    PERCENT: ("%", 1, 2),
}
#: Units for values that are not zero, but would be shown as zero.
_SMALLER = {
    BYTES: (("KiB", 2**10), ("B", 1)),
    NANOSECONDS: (("ns", 1),),
}
#: MiB per minute; decimals of larger rates are noise.
_WITHOUT_DECIMALS = 100
#: Above this number of MiB, GiB are easier to read.
_MANY_MIB = 10_000
#: Below this number of MiB, KiB are.
_FEW_MIB = 0.1


def component_mib(figure: Figure | None) -> str:
    """Return bytes of NPU memory as MiB, with the spread only if the repeats differ."""
    return mib(figure, npu=True, spread=bool(figure and figure.spread))


def counted_mib(size_bytes: float | None) -> str:
    """Return counted bytes as MiB with two decimals; the smallest ones as <0.01."""
    if size_bytes is None:
        return EMPTY
    if size_bytes == 0:
        return "0"
    return mib(Figure(size_bytes), npu=True)


def whole_mib(size_bytes: float) -> str:
    """Return bytes as whole MiB."""
    return f"{size_bytes / MIB:,.0f}"


def mib_per_minute(bytes_per_s: float) -> str:
    """Return a rate, with decimals unless it is large; a rounded zero has no sign."""
    rate = bytes_per_s * 60 / MIB
    decimals = 2 if abs(rate) < _WITHOUT_DECIMALS else 0
    return number(Figure(rate), 1, decimals, spread=False)


def sized(size_bytes: float, spread_bytes: float | None = None) -> str:
    """Return bytes in the unit that gives a few digits, with the spread in the same unit."""
    figure = Figure(size_bytes, spread_bytes)
    largest = round(max(abs(size_bytes), spread_bytes or 0))
    for unit, name in ((MIB, "MiB"), (2**10, "KiB")):
        if largest >= unit:
            return f"{number(figure, unit, 1, spread=True)} {name}"
    return f"{number(figure, 1, 0, spread=True)} B"


def daily(size_bytes: float, spread_bytes: float | None = None) -> str:
    """Return bytes in a day as MiB; as GiB if it is many, in a smaller unit if it is few."""
    if max(abs(size_bytes), spread_bytes or 0) < _FEW_MIB * MIB:
        return sized(size_bytes, spread_bytes)
    unit, name = (MIB, "MiB") if abs(size_bytes) < _MANY_MIB * MIB else (2**30, "GiB")
    decimals = 1 if abs(size_bytes) < _WITHOUT_DECIMALS * MIB or unit > MIB else 0
    return f"{number(Figure(size_bytes, spread_bytes), unit, decimals, spread=True)} {name}"


def counted(count: float, spread: float | None = None) -> str:
    """Return a count, or a share of one, with two decimals if it is not whole."""
    decimals = 0 if spread is None and count == round(count) else 2
    return number(Figure(count, spread), 1, decimals, spread=True)


def megabytes(size_bytes: float) -> str:
    """Return bytes in the unit of the published test."""
    return f"{size_bytes / 1e6:,.0f} MB"


def gigabytes(size_bytes: float) -> str:
    """Return bytes in the other unit of the published test."""
    return f"{size_bytes / 1e9:,.2f} GB"


def share(value: float) -> str:
    """Return a share of one, rounded up to one digit, or two if it is large: 3e-7, 0.012."""
    digits = 2 if value >= 0.01 else 1
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    # The error of the division must not round a digit up.
    rounded = math.ceil(round(value / unit, 6)) * unit
    if rounded >= 0.01:
        return f"{rounded:.2g}"
    digit, _, exponent = f"{rounded:.0e}".partition("e")
    return f"{digit}e{int(exponent)}"


def whole(value: float) -> str:
    """Return a number without decimals."""
    return f"{value:,.0f}"


def plain(value: float) -> str:
    """Return a number with one decimal, or without it if it is whole."""
    text = f"{value:,.1f}"
    return text[:-2] if text.endswith(".0") else text


def ranges(values: Sequence[int]) -> str:
    """Return rising whole numbers with their runs joined: 1, 2, 3, 7 as 1-3, 7."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = []
    for run in runs:
        parts.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return ", ".join(parts)


def to_the_minute(recorded_at: str) -> str:
    """Return a time of ISO 8601 without its seconds."""
    return recorded_at[:16].replace("T", " ")


def metric_unit(metric: Metric) -> str:
    """Return the unit that the metric is shown in."""
    return _SHOWN[metric.unit][0]


def in_metric_unit(value: float, metric: Metric) -> float:
    """Return the value in the shown unit."""
    return value / _SHOWN[metric.unit][1]


def metric_number(value: float, metric: Metric, sign: bool = False) -> str:
    """Return the value in the shown unit, without the unit.

    A value that is not zero, but would be shown as zero, has a smaller unit, which is shown.
    """
    text, unit = _metric_value(value, metric, sign)
    return text if unit == metric_unit(metric) else f"{text} {unit}"


def metric_level(value: float, metric: Metric) -> str:
    """Return the value of a result, without the unit, in the digits of every other place.

    Changes have more digits than levels: see metric_number.
    """
    figure = Figure(value)
    texts = {
        BYTES: lambda: mib(figure, metric.is_pinned),
        NANOSECONDS: lambda: milliseconds(figure),
        PER_SECOND: lambda: per_second(figure),
        TOKENS_PER_SECOND: lambda: per_second(figure),
        PERCENT: lambda: percent(figure),
    }
    text = texts[metric.unit]()
    is_lost = value != 0 and not text.strip("-0.")
    return metric_number(value, metric) if is_lost else text


def level_amount(value: float, metric: Metric) -> str:
    """Return the value of a result with its unit."""
    text = metric_level(value, metric)
    return text if " " in text else f"{text} {metric_unit(metric)}"


def metric_amount(value: float, metric: Metric, sign: bool = False) -> str:
    """Return the value with its unit."""
    return " ".join(_metric_value(value, metric, sign))


def _metric_value(value: float, metric: Metric, sign: bool) -> tuple[str, str]:
    unit, factor, decimals = _SHOWN[metric.unit]
    plus = "+" if sign and value > 0 else ""
    shown = value / factor
    if value == 0 or round(shown, decimals) != 0:
        return f"{plus}{shown:,.{decimals}f}", unit
    for smaller_unit, smaller_factor in _SMALLER.get(metric.unit, ()):
        shown = value / smaller_factor
        if round(shown, 2) != 0:
            return f"{plus}{shown:,.2f}".rstrip("0").rstrip("."), smaller_unit
    return f"{0:.{decimals}f}", unit
