"""Memory by version: a row for each configuration, a column for each version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import EMPTY, metric_number, whole
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.memory_use import component_memory
from reusebench.reports.results.rows import Row
from reusebench.reports.versions.versions import ComparedConfiguration, Version, VersionSet
from reusebench.storage.metrics import Metric, find_metric

#: What tables are of where nothing else is named.
VERSION_METRICS = (find_metric("npu_memory"), find_metric("application_memory_over_baseline"))
#: Of the records; new ones come at the end.
VERSION_COLUMNS = (
    "board",
    "runtime",
    "target",
    "chip",
    "name",
    "models",
    "streams",
    "contexts",
    "version",
    "architecture",
    "outcome",
    "metric",
    "unit",
    "component",
    "median",
    "spread",
)


def version_table(versions: VersionSet, metric: Metric, texts: Texts) -> Table | None:
    """Return a metric by version, in its unit; where it was not measured, the outcome. None where
    no version has it.
    """
    lines = []
    for configuration in versions.configurations:
        figures = {one: _figure(configuration.rows.get(one), metric) for one in versions.versions}
        if any(figures.values()):
            cells = [
                _cell(configuration, one, figures[one], metric, texts) for one in versions.versions
            ]
            lines.append(("ok", [configuration_name(versions, configuration, texts), *cells]))
    heads = [texts("column_scenario"), *map(versions.label, versions.versions)]
    return Table(heads, lines) if lines else None


def component_table(versions: VersionSet, texts: Texts) -> Table | None:
    """Return each component that is not the same in all versions, in bytes; None if none is."""
    lines = []
    for configuration in versions.configurations:
        memories = {
            one: memory
            for one in versions.versions
            if (row := configuration.measured(one)) and (memory := component_memory(row))
        }
        for name in COMPONENTS:
            sizes = {one: memory.sizes[name] for one, memory in memories.items()}
            if len({size.median for size in sizes.values() if size}) > 1:
                cells = [
                    EMPTY if (size := sizes.get(one)) is None else whole(size.median)
                    for one in versions.versions
                ]
                scenario = configuration_name(versions, configuration, texts)
                lines.append(("ok", [scenario, texts(f"component_{name}"), *cells]))
    heads = [
        texts("column_scenario"),
        texts("column_component"),
        *map(versions.label, versions.versions),
    ]
    return Table(heads, lines, words=(0, 1)) if lines else None


def version_records(versions: VersionSet, metrics: Sequence[Metric]) -> Iterator[dict[str, Any]]:
    """Yield a record in VERSION_COLUMNS for each configuration, version and metric, and each
    component of NPU memory.

    The component is None for all of the metric; without figures there is one record, with the
    outcome.
    """
    for configuration in versions.configurations:
        for version, row in configuration.rows.items():
            info = row.info
            same = {
                name: getattr(info, name)
                for name in ("runtime", "target", "chip", "streams", "contexts")
            }
            same |= {
                "board": row.file.board,
                "name": row.scenario,
                "models": row.models,
                "version": version.full,
            }
            same |= {"architecture": version.architecture, "outcome": row.outcome}
            figures: dict[tuple[str, str, str | None], Figure | None] = {
                (metric.name, metric.unit, None): _figure(row, metric) for metric in metrics
            }
            memory = component_memory(row)
            for name, size in memory.sizes.items() if memory else ():
                figures["npu_memory", "bytes", name] = size
            known = {key: figure for key, figure in figures.items() if figure}
            for (metric_name, unit, component), figure in known.items():
                values = {"median": rounded(figure, 3), "spread": rounded_spread(figure, 3)}
                yield {
                    **same,
                    "metric": metric_name,
                    "unit": unit,
                    "component": component,
                    **values,
                }
            if not known:
                yield same


def configuration_name(
    versions: VersionSet, configuration: ComparedConfiguration, texts: Texts
) -> str:
    """Return the scenario's name, with its models where that is needed."""
    scenario, models = versions.names(configuration)
    name = texts.scenario(scenario)
    return name if models is None else texts("label_with", label=name, fact=models)


def _figure(row: Row | None, metric: Metric) -> Figure | None:
    return Figure.of(metric.values(row.info)) if row and row.measured else None


def _cell(
    configuration: ComparedConfiguration,
    version: Version,
    figure: Figure | None,
    metric: Metric,
    texts: Texts,
) -> str:
    if figure is None:
        row = configuration.rows.get(version)
        return texts(f"outcome_{row.outcome}") if row and not row.measured else EMPTY
    spread = f" ±{metric_number(figure.spread, metric)}" if figure.spread else ""
    return metric_number(figure.median, metric) + spread
