"""Figures that others have published: shown beside what was measured here, never mixed with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PublishedRow", "published_rows"]

_FILE = Path(__file__).parent / "data" / "published.json"


@dataclass(frozen=True)
class PublishedRow:
    """One row of the published comparison. Its test names MB and GB; they are read as decimal."""

    runtime: str
    target: str
    source: str
    scenario: str
    baseline: str | None
    streams: int
    contexts: int
    application_memory_bytes: int
    system_memory_bytes: int
    saved_bytes: int | None
    saved_percent: float | None


def published_rows() -> list[PublishedRow]:
    """Return the published rows in their order."""
    data = json.loads(_FILE.read_text(encoding="utf-8"))
    common = {key: data[key] for key in ("runtime", "target", "source", "streams", "contexts")}
    application = {row["scenario"]: row["application_memory_bytes"] for row in data["rows"]}
    rows = []
    for row in data["rows"]:
        whole = application.get(row["baseline"])
        saved = whole - row["application_memory_bytes"] if whole else None
        rows.append(PublishedRow(**common, **row, saved_bytes=saved, saved_percent=_percent(saved, whole)))
    return rows


def _percent(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None
