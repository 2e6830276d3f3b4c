"""The published test of dup; own measurements are never mixed in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Optional

import msgspec

from reusebench.reports.base.formatting import EMPTY, gigabytes, megabytes, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group
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


def comparable_rows(group: Group) -> list[PublishedRow]:
    """Return the published rows that the group can be compared with; on most boards none.

    They were measured on a real board of the same chip, with as many streams and contexts.
    """
    info = group.info
    if not group.computes:
        return []
    own = (info.runtime, info.chip, info.streams, info.contexts)
    return [
        row
        for row in published_rows()
        if (row.runtime, row.target.lower(), row.streams, row.contexts) == own
    ]


@cache
def _published() -> _Published:
    return msgspec.json.decode(_FILE.read_bytes(), type=_Published)
