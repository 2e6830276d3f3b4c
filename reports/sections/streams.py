"""The section of streams of video: sentences, figures and tables of each group and workload."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.figure import explanation_figure
from reusebench.reports.explanation.sentences import explanation_sentences
from reusebench.reports.results.published import PublishedRow, comparable_rows
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.question import QuestionSection, saving_in_words
from reusebench.reports.sections.section import GroupView, Values
from reusebench.reports.shared.breakdown import components_table, page_kinds_table
from reusebench.reports.streams.figures import latency_figure, memory_figure, over_time_figure
from reusebench.reports.streams.sentences import (
    frame_sentences,
    frames_in_words,
    growing_parts,
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
from reusebench.reports.streams.workload import Workload, workloads


class StreamsSection(QuestionSection):
    """Memory of streams of video, and the frames that they keep."""

    def __init__(self) -> None:
        super().__init__("streams")

    def part(self, view: GroupView) -> Values:
        """Return the values of each workload."""
        parts = workload_parts(view, comparable_rows(view.group))
        return {**super().part(view), "workloads": parts}

    def part_summary(self, view: GroupView) -> str | None:
        """Return the frames that were kept, and what reuse saves."""
        workload = next(iter(workloads(view.group.rows)), None)
        if workload is None:
            return None
        texts = view.texts
        frames = frames_in_words(workload, texts)
        saving = saving_in_words(workload.rows, texts)
        return texts.joined([frames, saving, *growing_parts(view.group, texts)])

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figures of each workload."""
        return workload_figures(view.group, view.texts)


def workload_parts(view: GroupView, published: Sequence[PublishedRow] = ()) -> list[dict[str, Any]]:
    """Return the values of each workload of the group for the page's template.

    A page of many groups leaves tables out that the exported tables have.
    """
    group = view.group
    texts = view.texts
    parts = []
    for number, workload in enumerate(workloads(group.rows), start=1):
        parts.append(
            {
                "id": f"streams_{number}",
                "sentences": [
                    workload_sentence(workload, texts),
                    *frame_sentences(workload, texts),
                    *memory_sentences(workload, texts),
                ],
                "warnings": stream_warnings(workload, texts),
                "memory": memory_table(group, workload, published, texts),
                "published_note": _published_note(published, texts),
                "growth": growth_sentences(workload, texts),
                "reasons": [],
                **({} if view.page.is_folded else _tables(group, workload, texts)),
            }
        )
    return parts


def _tables(group: Group, workload: Workload, texts: Texts) -> dict[str, Any]:
    """Return the explanation, and tables of streams, stages, the machine and parts of memory.

    A first look is too short for these tables.
    """
    reasons = explanation_sentences(workload.rows, texts)
    if workload.is_first_look:
        return {"reasons": reasons, "components": components_table(workload.modes, texts)}
    return {
        "reasons": reasons,
        "per_stream": per_stream_table(workload, texts),
        "stages": stages_table(workload, texts),
        "machine": machine_table(workload, texts),
        "components": components_table(workload.modes, texts),
        "parts": None if group.has_npu_memory else page_kinds_table(workload.rows, texts),
    }


def _published_note(published: Sequence[PublishedRow], texts: Texts) -> str:
    """Return the source of the published rows; empty if there are none."""
    if not published:
        return ""
    first = published[0]
    return texts(
        "streams_published_note",
        target=first.target,
        streams=first.streams,
        contexts=first.contexts,
        source=first.source,
    )


def workload_figures(group: Group, texts: Texts) -> dict[str, Draw]:
    """Return a function that draws each figure of each workload. Key: the figure's name."""
    jobs: dict[str, Draw] = {}
    for number, workload in enumerate(workloads(group.rows), start=1):
        jobs[f"streams_{number}_memory"] = partial(memory_figure, workload, texts)
        jobs[f"streams_{number}_over_time"] = partial(over_time_figure, workload, texts)
        jobs[f"streams_{number}_latency"] = partial(latency_figure, workload, texts)
        jobs[f"streams_{number}_explanation"] = partial(explanation_figure, workload.rows, texts)
    return jobs
