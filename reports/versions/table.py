"""Memory by version: a row for each configuration, a column for each version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import EMPTY, metric_number, whole
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.memory_use import component_memory, knows_parts_of_commands
from reusebench.reports.results.rows import Row
from reusebench.reports.versions.versions import ComparedConfiguration, VersionSet
from reusebench.storage.metrics import Metric, find_metric

#: Metrics of the tables if no others are named.
VERSION_METRICS = (find_metric("npu_memory"), find_metric("application_memory_over_baseline"))
#: Columns of the records; new ones come at the end.
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
    """Return a metric by version, in its unit, or its outcome; None if no version has figures."""
    lines = []
    for configuration in versions.configurations:
        figures = [
            _figure(configuration.rows.get(version), metric) for version in versions.versions
        ]
        if not any(figures):
            continue
        cells = [configuration_name(versions, configuration, texts)]
        for version, figure in zip(versions.versions, figures):
            cells.append(_cell(configuration.rows.get(version), figure, metric, texts))
        lines.append(("ok", cells))
    heads = [texts("column_scenario"), *map(versions.label, versions.versions)]
    return Table(heads, lines) if lines else None


def component_table(versions: VersionSet, texts: Texts) -> Table | None:
    """Return the components that differ between versions, in bytes; None if none do."""
    lines = []
    for configuration in versions.configurations:
        measured = [configuration.measured(version) for version in versions.versions]
        parts_of_commands = knows_parts_of_commands(row for row in measured if row)
        memories = [component_memory(row, parts_of_commands) if row else None for row in measured]
        for name in COMPONENTS:
            sizes = [memory.sizes[name] if memory else None for memory in memories]
            if len({size.median for size in sizes if size}) < 2:
                continue
            cells = [
                configuration_name(versions, configuration, texts),
                texts(f"component_{name}"),
            ]
            cells += [EMPTY if size is None else whole(size.median) for size in sizes]
            lines.append(("ok", cells))
    heads = [
        texts("column_scenario"),
        texts("column_component"),
        *map(versions.label, versions.versions),
    ]
    return Table(heads, lines, words=(0, 1)) if lines else None


def version_records(versions: VersionSet, metrics: Sequence[Metric]) -> Iterator[dict[str, Any]]:
    """Yield a record in VERSION_COLUMNS for each configuration, version, metric and component.

    Components are those of NPU memory; None stands for a whole metric. Without any figures there is
    one record, with the outcome.
    """
    for configuration in versions.configurations:
        for version, row in configuration.rows.items():
            common = {
                "runtime": row.info.runtime,
                "target": row.info.target,
                "chip": row.info.chip,
                "streams": row.info.streams,
                "contexts": row.info.contexts,
                "board": row.file.board,
                "name": row.scenario,
                "models": row.models,
                "version": version.full,
                "architecture": version.architecture,
                "outcome": row.outcome,
            }
            known = list(_known_figures(row, metrics))
            for metric_name, unit, component, figure in known:
                yield {
                    **common,
                    "metric": metric_name,
                    "unit": unit,
                    "component": component,
                    "median": rounded(figure, 3),
                    "spread": rounded_spread(figure, 3),
                }
            if not known:
                yield common


def _known_figures(
    row: Row, metrics: Sequence[Metric]
) -> Iterator[tuple[str, str, str | None, Figure]]:
    """Yield metric, unit, component and figure, for each figure of the row."""
    for metric in metrics:
        figure = _figure(row, metric)
        if figure:
            yield metric.name, metric.unit, None, figure
    memory = component_memory(row)
    if memory:
        for component, size in memory.sizes.items():
            if size:
                yield "npu_memory", "bytes", component, size


def configuration_name(
    versions: VersionSet, configuration: ComparedConfiguration, texts: Texts
) -> str:
    """Return the name of the scenario, with its models if other configurations share the name."""
    scenario, models = versions.names(configuration)
    name = texts.scenario(scenario)
    return name if models is None else texts("label_with", label=name, fact=models)


def _figure(row: Row | None, metric: Metric) -> Figure | None:
    return Figure.of(metric.values(row.info)) if row and row.measured else None


def _cell(row: Row | None, figure: Figure | None, metric: Metric, texts: Texts) -> str:
    if figure:
        spread = f" ±{metric_number(figure.spread, metric)}" if figure.spread else ""
        return metric_number(figure.median, metric) + spread
    if row and not row.measured:
        return texts(f"outcome_{row.outcome}")
    return EMPTY
