"""Published figures of others and their tables; own measurements are never mixed in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Optional

import msgspec

from reusebench.reports.base.formatting import EMPTY, gigabytes, megabytes, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.storage.savings import APPLICATION, Saving, saving_of

_FILE = Path(__file__).parent.parent / "data" / "published.json"
#: The class of every published row of a table.
PUBLISHED = "published"


class Source(msgspec.Struct, frozen=True):
    """A document with published figures or claims."""

    #: Key: language.
    title: dict[str, str]
    #: None if the document is known by its title and version alone.
    url: Optional[str]
    #: The part of the date that the source tells; None if it tells nothing.
    published: Optional[str]
    read: str

    def dates(self, texts: Texts) -> str:
        """Return the dates when it was published, if that is known, and when it was read."""
        if self.published is None:
            return texts("source_read", read=self.read)
        return texts("source_published", published=self.published, read=self.read)


@dataclass(frozen=True)
class PublishedRow:
    """One row of the published comparison. Its test names MB and GB; they are read as decimal."""

    runtime: str
    target: str
    #: The address.
    source: str
    streams: int
    contexts: int
    scenario: str
    baseline: str | None
    application_memory_bytes: int
    system_memory_bytes: int
    saving: Saving | None

    def cell(self, column: str) -> str:
        """Return its figure for a column of measured figures; the cell includes its own unit."""
        if column == "column_application":
            return megabytes(self.application_memory_bytes)
        if column == "column_system":
            return gigabytes(self.system_memory_bytes)
        if self.saving and column in ("column_saved", "column_application_saved"):
            return megabytes(self.saving.saved.median)
        if self.saving and column in ("column_saved_percent", "column_application_saved_percent"):
            return percent(self.saving.percent)
        return EMPTY


class _Sourced(msgspec.Struct, frozen=True):
    #: The key of the source in the file.
    source_name: str = msgspec.field(name="source")

    @property
    def source(self) -> Source:
        """The document with the figure."""
        return _published().sources[self.source_name]


class _Throughput(_Sourced, frozen=True):
    """Inferences per second of one model on one board."""

    target: str
    model: str
    #: Threads, each with its own context; None means one NPU core, one inference after the other.
    threads: Optional[int]
    throughput_per_s: float


class _Breakdown(_Sourced, frozen=True):
    """The output of rknn-toolkit2's eval_memory for one model."""

    #: Target and model are None if the source does not name them.
    target: Optional[str]
    model: Optional[str]
    weights_mib: float
    internal_mib: float
    #: Register commands, input and output; None if the version of the toolkit did not print it.
    other_mib: Optional[float]
    total_mib: float


class _DupRow(msgspec.Struct, frozen=True):
    scenario: str
    baseline: Optional[str]
    application_memory_bytes: int
    system_memory_bytes: int


class _DupTest(_Sourced, frozen=True):
    runtime: str
    target: str
    streams: int
    contexts: int
    rows: tuple[_DupRow, ...]


class _Published(msgspec.Struct, frozen=True):
    sources: dict[str, Source]
    dup: _DupTest
    throughput: tuple[_Throughput, ...]
    breakdown: tuple[_Breakdown, ...]


@dataclass(frozen=True)
class Reference:
    """A table of published figures, with its sources."""

    table: Table
    note: str
    #: Title, address and dates of each source once.
    sources: list[tuple[str, str | None, str]]


def published_rows() -> list[PublishedRow]:
    """Return the rows of the published dup test in their order."""
    test = _published().dup
    application = {row.scenario: Figure(row.application_memory_bytes) for row in test.rows}
    rows = []
    for row in test.rows:
        own = application[row.scenario]
        baseline = application.get(row.baseline) if row.baseline else None
        rows.append(
            PublishedRow(
                runtime=test.runtime,
                target=test.target,
                source=test.source.url or "",
                streams=test.streams,
                contexts=test.contexts,
                scenario=row.scenario,
                baseline=row.baseline,
                application_memory_bytes=row.application_memory_bytes,
                system_memory_bytes=row.system_memory_bytes,
                saving=saving_of(APPLICATION, baseline, own),
            )
        )
    return rows


def published_throughput(texts: Texts) -> Reference:
    """Return the published throughputs by threads, in inferences per second."""
    heads = (
        "reference_model",
        "reference_target",
        "reference_how",
        "column_throughput",
        "column_source",
    )
    published = _published().throughput
    rows = []
    for row in published:
        how = texts("reference_one_core")
        if row.threads:
            how = texts("reference_threads", threads=row.threads)
        rate = f"{row.throughput_per_s:.1f}"
        title = row.source.title[texts.language]
        rows.append((PUBLISHED, [row.model, row.target, how, rate, title]))
    table = Table(heads_of(heads, texts), rows, words=(0, 1, 2, 4))
    return Reference(table, texts("reference_throughput_note"), _sources_of(published, texts))


def published_breakdown(texts: Texts) -> Reference:
    """Return the published outputs of eval_memory by component, in MiB."""
    parts = [
        texts("column_in_mib", name=texts(f"component_{part}"))
        for part in ("weights", "internal", "other", "total")
    ]
    heads = [texts("reference_model"), texts("reference_target"), *parts, texts("column_source")]
    published = _published().breakdown
    rows = []
    for row in published:
        sizes = (row.weights_mib, row.internal_mib, row.other_mib, row.total_mib)
        size_cells = [EMPTY if size is None else f"{size:.2f}" for size in sizes]
        title = row.source.title[texts.language]
        cells = [row.model or EMPTY, row.target or EMPTY, *size_cells, title]
        rows.append((PUBLISHED, cells))
    table = Table(heads, rows, words=(0, 1, -1))
    return Reference(table, texts("reference_breakdown_note"), _sources_of(published, texts))


def _sources_of(published: Iterable[_Sourced], texts: Texts) -> list[tuple[str, str | None, str]]:
    sources = {row.source_name: row.source for row in published}
    return [
        (source.title[texts.language], source.url, source.dates(texts))
        for source in sources.values()
    ]


@cache
def _published() -> _Published:
    return msgspec.json.decode(_FILE.read_bytes(), type=_Published)
