"""The figures of a result as properties of its test, which JUnit files and other reports have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from reusebench.storage.measured_figure import Figure
from reusebench.storage.metrics import METRICS
from reusebench.storage.result import Result
from reusebench.storage.result_figures import main_memory, memory
from reusebench.storage.savings import saving_of

__all__ = ["Property", "figure_properties"]

#: A name with its unit, and the median over the repeats.
Property = tuple[str, Union[int, float]]


def figure_properties(result: Result, baseline: Result | None) -> Iterator[Property]:
    """Yield every figure that the result has, then the saving if its baseline was measured."""
    for metric in METRICS:
        figure = Figure.of(metric.values(result))
        if figure is not None:
            yield metric.column, _number(figure)
    main = main_memory(result)
    if baseline is None or main_memory(baseline) != main:
        return
    saving = saving_of(main, memory(baseline, main), memory(result, main))
    if saving is not None:
        yield "saved_bytes", _number(saving.saved)
        if saving.percent is not None:
            yield "saved_percent", round(saving.percent.median, 1)


def _number(figure: Figure) -> int | float:
    """Return whole numbers, as bytes are, without a fraction."""
    return int(figure.median) if float(figure.median).is_integer() else figure.median
