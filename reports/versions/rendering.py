"""The output of `reusebench compare --versions`: text, Markdown and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from reusebench.reports.base.formatting import metric_unit
from reusebench.reports.base.table import Table, csv, markdown
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.versions.sentences import version_sentences
from reusebench.reports.versions.table import (
    VERSION_COLUMNS,
    component_table,
    version_records,
    version_table,
)
from reusebench.reports.versions.versions import VersionSet
from reusebench.storage.metrics import Metric

_texts = texts_of(LANGUAGES[0])


def as_text(sets: Sequence[VersionSet], metrics: Sequence[Metric]) -> str:
    """Return tables and sentences for a terminal."""
    lines = []
    for versions in sets:
        lines += [_title(versions), ""]
        for title, table in _tables(versions, metrics):
            alignment = ["right" if is_number else "left" for is_number in table.is_number]
            rows = [cells for _, cells in table.rows]
            lines += [
                title,
                tabulate(rows, table.heads, "plain", disable_numparse=True, colalign=alignment),
                "",
            ]
        lines += [*version_sentences(versions, _texts), ""]
    return "\n".join(lines[:-1])


def as_markdown(sets: Sequence[VersionSet], metrics: Sequence[Metric]) -> str:
    """Return tables and sentences as Markdown."""
    lines = []
    for versions in sets:
        lines += [f"**{_title(versions)}**", ""]
        for title, table in _tables(versions, metrics):
            numbers = [index for index, is_number in enumerate(table.is_number) if is_number]
            lines += [title, "", markdown(table.heads, [cells for _, cells in table.rows], numbers)]
        lines += [*(f"- {sentence}" for sentence in version_sentences(versions, _texts)), ""]
    return "\n".join(lines[:-1])


def as_csv(sets: Sequence[VersionSet], metrics: Sequence[Metric]) -> str:
    """Return the records of all sets as CSV in VERSION_COLUMNS."""
    records = [record for versions in sets for record in version_records(versions, metrics)]
    return csv(VERSION_COLUMNS, records).rstrip("\n")


def as_documents(sets: Sequence[VersionSet], metrics: Sequence[Metric]) -> list[dict[str, Any]]:
    """Return the sets for JSON: their versions, the sentences on changes, and the records."""
    documents: list[dict[str, Any]] = []
    for versions in sets:
        names = [
            {"version": version.full, "architecture": version.architecture}
            for version in versions.versions
        ]
        documents.append(
            {
                "versions": names,
                "changes": version_sentences(versions, _texts),
                "rows": list(version_records(versions, metrics)),
            }
        )
    return documents


def _title(versions: VersionSet) -> str:
    info = versions.group.info
    names = ", ".join(map(str, versions.versions))
    return f"{_texts.runtime(info.runtime)} on {info.target}, board {versions.group.board}: {names}"


def _tables(versions: VersionSet, metrics: Sequence[Metric]) -> Iterator[tuple[str, Table]]:
    for metric in metrics:
        table = version_table(versions, metric, _texts)
        if table:
            yield f"{metric.name}, {metric_unit(metric)}", table
    components = component_table(versions, _texts)
    if components:
        yield _texts("versions_components"), components
