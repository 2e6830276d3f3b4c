"""Figures that others have published: shown beside what was measured here, never mixed with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Optional

import msgspec

from reports.results.publication import Source

_FILE = Path(__file__).parent.parent / "data" / "published.json"


class PublishedRow(msgspec.Struct, frozen=True):
    """One row of the published comparison. Its test names MB and GB; they are read as decimal."""

    runtime: str
    target: str
    #: The address.
    source: str
    streams: int
    contexts: int
    scenario: str
    baseline: Optional[str]
    application_memory_bytes: int
    system_memory_bytes: int
    saved_bytes: Optional[int]
    saved_percent: Optional[float]


class _Sourced(msgspec.Struct, frozen=True):
    #: In the file, the name of the source.
    source_name: str = msgspec.field(name="source")

    @property
    def source(self) -> Source:
        """Where it was published."""
        return _published().sources[self.source_name]


class PublishedThroughput(_Sourced, frozen=True):
    """Inferences per second of one model on one board."""

    target: str
    model: str
    #: Each with a context of its own; None: one NPU core, one inference after the other.
    threads: Optional[int]
    throughput_per_s: float


class PublishedBreakdown(_Sourced, frozen=True):
    """What rknn-toolkit2's eval_memory printed for one model."""

    #: Target and model are None where the source does not name them.
    target: Optional[str]
    model: Optional[str]
    weights_mib: float
    internal_mib: float
    #: Register commands, input and output; None where the version of the toolkit did not print it.
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
    throughput: tuple[PublishedThroughput, ...]
    breakdown: tuple[PublishedBreakdown, ...]


def published_rows() -> list[PublishedRow]:
    """Return the rows of the published dup test in their order."""
    test = _published().dup
    application = {row.scenario: row.application_memory_bytes for row in test.rows}
    rows = []
    for row in test.rows:
        saved = percent = None
        if row.baseline:
            saved = application[row.baseline] - row.application_memory_bytes
            percent = 100 * saved / application[row.baseline]
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
                saved_bytes=saved,
                saved_percent=percent,
            )
        )
    return rows


def published_throughputs() -> tuple[PublishedThroughput, ...]:
    """Return the published throughputs, by rising number of threads within a source."""
    return _published().throughput


def published_breakdowns() -> tuple[PublishedBreakdown, ...]:
    """Return the published outputs of eval_memory."""
    return _published().breakdown


@cache
def _published() -> _Published:
    return msgspec.json.decode(_FILE.read_bytes(), type=_Published)
