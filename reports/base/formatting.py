"""Numbers as the page and the terminal show them: MiB, ms and percent, with the spread where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from reports.base.statistics import Figure

MIB = 2**20
#: What two decimals of MiB show as more than nothing.
_LEAST_SHOWN = 0.005 * MIB
#: Where nothing was measured.
EMPTY = "-"


def mib(figure: Figure | None, spread: bool = True) -> str:
    """Return bytes as MiB with one decimal."""
    return _number(figure, MIB, 1, spread)


def shows_in_mib(saved: Figure) -> bool:
    """Whether a saving of application memory is more than repeats differ by, and more than the last digit shown."""
    return saved.exceeds_spread and mib(saved, spread=False) != mib(Figure(0.0, None))


def npu_mib(figure: Figure | None, spread: bool = True) -> str:
    """Return bytes as MiB with two decimals, for a ledger is exact; what they would round to nothing is not."""
    if figure is not None and 0 < figure.median < _LEAST_SHOWN:
        return "<0.01"
    return _number(figure, MIB, 2, spread)


def component_mib(figure: Figure | None) -> str:
    """Return bytes as npu_mib does, and the spread only where the repeats differ."""
    return npu_mib(figure, spread=bool(figure and figure.spread))


def copied_mib(size: float) -> str:
    """Return bytes that were counted as MiB with two decimals; of what is less than that, that it is not nothing."""
    return "0" if size == 0 else npu_mib(Figure(size, None))


def milliseconds(figure: Figure | None, spread: bool = True) -> str:
    """Return nanoseconds as ms with two decimals."""
    return _number(figure, 1e6, 2, spread)


def per_second(figure: Figure | None, spread: bool = True) -> str:
    """Return a rate with one decimal."""
    return _number(figure, 1, 1, spread)


def percent(value: float | None) -> str:
    """Return a percentage with one decimal."""
    # A zero has no sign, also where it was rounded to.
    return EMPTY if value is None else f"{round(value, 1) + 0.0:.1f}"


def plus_minus(figure: Figure | None) -> str:
    """Return the spread alone in MiB, with a space before it; nothing where there is none."""
    return _spread(figure, MIB, 1)


def npu_plus_minus(figure: Figure | None) -> str:
    """Return the spread as plus_minus does, with the two decimals of NPU memory."""
    return _spread(figure, MIB, 2)


def numbers(values: Sequence[int]) -> str:
    """Return rising whole numbers with their runs drawn together: 1, 2, 3, 7 as 1-3, 7."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _number(figure: Figure | None, unit: float, decimals: int, spread: bool) -> str:
    if figure is None:
        return EMPTY
    # A zero has no sign, also where it was rounded to.
    text = f"{round(figure.median / unit, decimals) + 0.0:,.{decimals}f}"
    return text + _spread(figure, unit, decimals) if spread else text


def _spread(figure: Figure | None, unit: float, decimals: int) -> str:
    return f" ±{figure.spread / unit:,.{decimals}f}" if figure and figure.spread is not None else ""
