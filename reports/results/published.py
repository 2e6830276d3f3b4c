"""Figures that others have published: shown beside what was measured here, never mixed with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from reports.results.publication import Source

__all__ = [
    "PublishedBreakdown",
    "PublishedRow",
    "PublishedThroughput",
    "published_breakdowns",
    "published_rows",
    "published_throughputs",
]

_FILE = Path(__file__).parent.parent / "data" / "published.json"


@dataclass(frozen=True)
class PublishedRow:
    """One row of the published comparison. Its test names MB and GB; they are read as decimal."""

    runtime: str
    target: str
    #: The address.
    source: str
    scenario: str
    baseline: str | None
    streams: int
    contexts: int
    application_memory_bytes: int
    system_memory_bytes: int
    saved_bytes: int | None
    saved_percent: float | None


@dataclass(frozen=True)
class PublishedThroughput:
    """Inferences per second of one model on one board."""

    source: Source
    target: str
    model: str
    #: Each with a context of its own; None: one NPU core, one inference after the other.
    threads: int | None
    throughput_per_s: float


@dataclass(frozen=True)
class PublishedBreakdown:
    """What rknn-toolkit2's eval_memory printed for one model."""

    source: Source
    #: Target and model are None where the source does not name them.
    target: str | None
    model: str | None
    weights_mib: float
    internal_mib: float
    #: Register commands, input and output; None where the version of the toolkit did not print it.
    other_mib: float | None
    total_mib: float


def published_rows() -> list[PublishedRow]:
    """Return the rows of the published dup test in their order."""
    data = _data()["dup"]
    common = {key: data[key] for key in ("runtime", "target", "streams", "contexts")}
    common["source"] = _data()["sources"][data["source"]]["url"]
    application = {row["scenario"]: row["application_memory_bytes"] for row in data["rows"]}
    rows = []
    for row in data["rows"]:
        whole = application.get(row["baseline"])
        saved = whole - row["application_memory_bytes"] if whole else None
        rows.append(PublishedRow(**common, **row, saved_bytes=saved, saved_percent=_percent(saved, whole)))
    return rows


def published_throughputs() -> list[PublishedThroughput]:
    """Return the published throughputs, by rising number of threads within a source."""
    return [PublishedThroughput(**{**row, "source": _source(row["source"])}) for row in _data()["throughput"]]


def published_breakdowns() -> list[PublishedBreakdown]:
    """Return the published outputs of eval_memory."""
    return [PublishedBreakdown(**{**row, "source": _source(row["source"])}) for row in _data()["breakdown"]]


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return data


def _source(key: str) -> Source:
    return Source(**_data()["sources"][key])


def _percent(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None
