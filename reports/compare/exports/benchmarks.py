"""The files of tools that follow benchmarks over commits: Bencher and github-action-benchmark.

tests/reports/compare/export_forms has the schemas of their documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.reports.base.statistics import rounded_in_unit
from reusebench.reports.compare.exports.figures import Number, as_json, figures, number
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import Run

__all__ = ["bencher", "github"]


def bencher(runs: Sequence[Run], metrics: Sequence[Metric]) -> list[str]:
    """Return Bencher Metric Format: the median and the range over the repeats."""
    benchmarks: dict[str, dict[str, dict[str, Number]]] = {}
    for figure in figures(runs, metrics):
        metric = {
            "value": rounded_in_unit(figure.over_repeats, figure.metric.unit),
            "lower_value": number(min(figure.values)),
            "upper_value": number(max(figure.values)),
        }
        # A measure is known by its slug, which has no underscores.
        benchmarks.setdefault(figure.name, {})[figure.metric.name.replace("_", "-")] = metric
    return [as_json(benchmarks)]


def github(runs: Sequence[Run], metrics: Sequence[Metric]) -> list[str]:
    """Return the list of github-action-benchmark's custom tools."""
    entries = []
    for figure in figures(runs, metrics):
        over_repeats = figure.over_repeats
        conditions = ", ".join(
            f"{name} {value}" for name, value in figure.conditions.items() if value is not None
        )
        # People read these numbers, and rates have many decimals.
        spread = number(round(over_repeats.spread or 0, 3))
        least = number(round(min(figure.values), 3))
        most = number(round(max(figure.values), 3))
        entry = {
            "name": f"{figure.name}: {figure.metric.name}",
            "unit": figure.metric.unit,
            "value": rounded_in_unit(over_repeats, figure.metric.unit),
            "range": f"± {spread}",
            "extra": f"median of {len(figure.values)} repeats, {least} to {most}\n{conditions}",
        }
        entries.append(entry)
    return [as_json(entries)]
