"""Numbers as the page and the terminal show them: MiB, ms and percent, with the spread where there is one."""

from __future__ import annotations

from reports.summary import Figure

__all__ = ["EMPTY", "mib", "milliseconds", "per_second", "percent", "plus_minus"]

MIB = 2**20
#: Where nothing was measured.
EMPTY = "-"


def mib(figure: Figure | None, spread: bool = True) -> str:
    """Return bytes as MiB with one decimal."""
    return _number(figure, MIB, 1, spread)


def milliseconds(figure: Figure | None, spread: bool = True) -> str:
    """Return nanoseconds as ms with two decimals."""
    return _number(figure, 1e6, 2, spread)


def per_second(figure: Figure | None, spread: bool = True) -> str:
    """Return a rate with one decimal."""
    return _number(figure, 1, 1, spread)


def percent(value: float | None) -> str:
    """Return a percentage with one decimal."""
    return EMPTY if value is None else f"{value:.1f}"


def plus_minus(figure: Figure | None) -> str:
    """Return the spread alone in MiB, with a space before it; nothing where there is none."""
    return f" ±{figure.spread / MIB:,.1f}" if figure and figure.spread is not None else ""


def _number(figure: Figure | None, unit: float, decimals: int, spread: bool) -> str:
    if figure is None:
        return EMPTY
    text = f"{figure.median / unit:,.{decimals}f}"
    if spread and figure.spread is not None:
        text += f" ±{figure.spread / unit:,.{decimals}f}"
    return text
