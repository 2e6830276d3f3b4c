"""Figures as people read them: one unit and one rounding for each, wherever it is shown.

The terminal's live lines, the report, its page and its messages all call these functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.storage.measured_figure import DOUBT, Figure

__all__ = [
    "EMPTY",
    "MIB",
    "doubted",
    "mib",
    "mib_decimals",
    "mib_spread",
    "milliseconds",
    "milliseconds_range",
    "number",
    "per_second",
    "percent",
    "seconds",
]

MIB = 2**20
#: Shown if nothing was measured.
EMPTY = "-"
#: Decimals of MiB; sizes from a ledger are exact.
_APPLICATION_DECIMALS = 1
_NPU_DECIMALS = 2


def mib(figure: Figure | None, npu: bool = False, spread: bool = True) -> str:
    """Return bytes as MiB: NPU memory with two decimals, other memory with one.

    NPU memory that is not zero, but would be rounded to it, is shown as <0.01.
    """
    if npu and figure is not None and 0 < figure.median < 0.005 * MIB:
        return "<0.01"
    return number(figure, MIB, mib_decimals(npu), spread)


def mib_decimals(npu: bool) -> int:
    """Return the number of decimals of MiB."""
    return _NPU_DECIMALS if npu else _APPLICATION_DECIMALS


def mib_spread(figure: Figure, npu: bool = False) -> str:
    """Return the spread alone, with a space before it; empty if there is none."""
    return _spread(figure, MIB, mib_decimals(npu))


def milliseconds(figure: Figure | None, spread: bool = True) -> str:
    """Return nanoseconds as ms with two decimals."""
    return number(figure, 1e6, 2, spread)


def milliseconds_range(figures: Sequence[Figure]) -> str:
    """Return one figure in ms as `milliseconds` does; of several the lowest and highest median."""
    if len(figures) < 2:
        return milliseconds(figures[0] if figures else None)
    medians = sorted(figure.median for figure in figures)
    lowest, highest = (milliseconds(Figure(median)) for median in (medians[0], medians[-1]))
    return lowest if lowest == highest else f"{lowest} ... {highest}"


def seconds(figure: Figure | None, spread: bool = True) -> str:
    """Return nanoseconds as s with two decimals."""
    return number(figure, 1e9, 2, spread)


def per_second(figure: Figure | None, spread: bool = True) -> str:
    """Return a rate with one decimal."""
    return number(figure, 1, 1, spread)


def percent(figure: Figure | float | None, spread: bool = False) -> str:
    """Return a percentage with one decimal."""
    if isinstance(figure, (int, float)):
        figure = Figure(figure)
    return number(figure, 1, 1, spread)


def doubted(figure: str, is_doubtful: bool) -> str:
    """Return a figure, with a mark if it is not to be trusted."""
    if not is_doubtful or figure == EMPTY:
        return figure
    return f"{figure} {DOUBT}"


def number(figure: Figure | None, unit: float, decimals: int, spread: bool) -> str:
    """Return a figure in this unit, rounded; EMPTY without one."""
    if figure is None:
        return EMPTY
    # Adding zero takes the sign from a rounded zero.
    median = round(figure.median / unit, decimals) + 0.0
    text = f"{median:,.{decimals}f}"
    if not spread:
        return text
    return text + _spread(figure, unit, decimals)


def _spread(figure: Figure, unit: float, decimals: int) -> str:
    if figure.spread is None:
        return ""
    return f" ±{figure.spread / unit:,.{decimals}f}"
