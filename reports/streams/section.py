"""The section of streams of video: for each group and workload the sentences, the figures by name, and the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from reports.base.drawing_pool import Draw
from reports.base.texts import Texts
from reports.explanation.figure import explanation_colours, explanation_figure
from reports.explanation.table import explanation_sentences, explanation_table
from reports.results.published import PublishedRow
from reports.results.rows import Group
from reports.sections import tables as page_tables
from reports.streams.figures import latency_figure, latency_marks, memory_figure, over_time_figure, part_colours
from reports.streams.frames import Workload, workloads
from reports.streams.tables import machine_table, memory_table, per_stream_table, stages_table
from reports.streams.text import (
    asked_sentences,
    frame_sentences,
    growth_sentences,
    memory_sentences,
    stream_warnings,
)


def streams_parts(group: Group, published: Sequence[PublishedRow], texts: Texts) -> list[dict[str, Any]]:
    """Return what the page says of each workload of the group."""
    return [
        {"id": _name(number), **_part(group, workload, published, texts)}
        for number, workload in enumerate(workloads(group.rows), start=1)
    ]


def streams_drawings(group: Group) -> dict[str, Draw]:
    """Return how each figure of each workload is drawn, by the name of the figure."""
    jobs: dict[str, Draw] = {}
    for number, workload in enumerate(workloads(group.rows), start=1):
        name = _name(number)
        jobs[f"{name}_memory"] = partial(memory_figure, workload)
        jobs[f"{name}_over_time"] = partial(over_time_figure, workload)
        jobs[f"{name}_latency"] = partial(latency_figure, workload)
        jobs[f"{name}_explanation"] = partial(explanation_figure, workload.rows)
    return jobs


def streams_legends(group: Group, texts: Texts) -> dict[str, list[tuple[str, str, str]]]:
    """Return the legend of each figure of streams_drawings: what is meant, its colour and its mark."""
    legends = {}
    for number, workload in enumerate(workloads(group.rows), start=1):
        name = _name(number)
        legends[f"{name}_memory"] = _squares(part_colours(workload, texts).items())
        legends[f"{name}_over_time"] = []
        legends[f"{name}_latency"] = latency_marks(texts)
        legends[f"{name}_explanation"] = _squares(explanation_colours(workload.rows, texts).items())
    return legends


def stream_definitions(groups: Sequence[Group], texts: Texts) -> list[tuple[str, str]]:
    """Return what the figures of streams mean; nothing where no group has any."""
    if not any(row.schedule for group in groups for row in group.rows):
        return []
    return [(texts(f"stream_term_{key}"), text) for key, text in texts.some("stream_define_").items()]


def _part(group: Group, workload: Workload, published: Sequence[PublishedRow], texts: Texts) -> dict[str, Any]:
    table = memory_table(group, workload, published, texts)
    first = published[0] if any(look == "published" for look, _ in table.rows) else None
    values = {key: getattr(first, key) for key in ("target", "streams", "contexts", "source")} if first else {}
    return {
        "said": [
            *asked_sentences(workload, texts),
            *frame_sentences(workload, texts),
            *memory_sentences(workload, texts),
        ],
        "warnings": stream_warnings(workload, texts),
        "memory": table,
        "published_note": texts("streams_published_note", **values) if first else "",
        "growth": growth_sentences(workload, texts),
        "per_stream": per_stream_table(workload, texts),
        "stages": stages_table(workload, texts),
        "machine": machine_table(workload, texts),
        "components": page_tables.components(workload.modes, texts),
        "parts": None if group.has_npu_memory else page_tables.parts(workload.rows, texts),
        "reasons": explanation_sentences(workload.rows, texts),
        "explanation": explanation_table(workload.rows, texts),
    }


def _name(number: int) -> str:
    return f"streams_{number}"


def _squares(colours: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(name, colour, "\N{BLACK SQUARE}") for name, colour in colours]
