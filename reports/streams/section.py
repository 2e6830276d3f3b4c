"""The section of streams of video: for each group and workload the sentences, the figures by name,
and the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.figure import explanation_figure
from reusebench.reports.explanation.table import explanation_sentences, explanation_table
from reusebench.reports.results.published import PUBLISHED, PublishedRow
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.tables import components_table, page_kinds_table
from reusebench.reports.streams.figures import latency_figure, memory_figure, over_time_figure
from reusebench.reports.streams.sentences import (
    frame_sentences,
    growth_sentences,
    memory_sentences,
    stream_warnings,
    workload_sentence,
)
from reusebench.reports.streams.tables import (
    machine_table,
    memory_table,
    per_stream_table,
    stages_table,
)
from reusebench.reports.streams.workload import workloads


def workload_parts(
    group: Group, published: Sequence[PublishedRow], texts: Texts
) -> list[dict[str, Any]]:
    """Return what the page says of each workload of the group."""
    parts = []
    for number, workload in enumerate(workloads(group.rows), start=1):
        table = memory_table(group, workload, published, texts)
        first = published[0] if any(look == PUBLISHED for look, _ in table.rows) else None
        values = (
            {key: getattr(first, key) for key in ("target", "streams", "contexts", "source")}
            if first
            else {}
        )
        parts.append(
            {
                "id": f"streams_{number}",
                "sentences": [
                    workload_sentence(workload, texts),
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
                "components": components_table(workload.modes, texts),
                "parts": None if group.has_npu_memory else page_kinds_table(workload.rows, texts),
                "reasons": explanation_sentences(workload.rows, texts),
                "explanation": explanation_table(workload.rows, texts),
            }
        )
    return parts


def workload_figures(group: Group, texts: Texts) -> dict[str, Callable[[], str | None]]:
    """Return how each figure of each workload is drawn, by the name of the figure."""
    jobs: dict[str, Callable[[], str | None]] = {}
    for number, workload in enumerate(workloads(group.rows), start=1):
        jobs[f"streams_{number}_memory"] = partial(memory_figure, workload, texts)
        jobs[f"streams_{number}_over_time"] = partial(over_time_figure, workload, texts)
        jobs[f"streams_{number}_latency"] = partial(latency_figure, workload, texts)
        jobs[f"streams_{number}_explanation"] = partial(explanation_figure, workload.rows, texts)
    return jobs


def stream_definitions(groups: Sequence[Group], texts: Texts) -> list[tuple[str, str]]:
    """Return what the figures of streams mean; nothing where no group has any."""
    if not any(row.schedule for group in groups for row in group.rows):
        return []
    return [
        (texts(f"stream_term_{key}"), text)
        for key, text in texts.starting_with("stream_define_").items()
    ]
