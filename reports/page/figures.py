"""The figures of a page: which there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from reports.base.drawing_pool import Draw, DrawnFigure, draw_all
from reports.base.texts import LANGUAGES, texts_of
from reports.explanation.figure import explanation_figure
from reports.results.labels import group_id, labels
from reports.results.rows import Group, Row
from reports.sections.contexts_figure import contexts, npu_contexts
from reports.sections.copies_figure import copies_figure
from reports.sections.programs import RecordedProgram
from reports.sections.programs_figure import programs_figure
from reports.sections.resolutions_figure import resolutions_figure
from reports.sections.savings import savings_figure
from reports.sections.speed_figure import speed_figure
from reports.sections.timeline import timeline
from reports.streams.frames import STREAMS
from reports.streams.section import streams_drawings

#: The figure that opens the page.
SAVINGS = "savings"
PROGRAMS = "programs"


def figures_of(groups: Sequence[Group], programs: Sequence[RecordedProgram] = ()) -> dict[str, DrawnFigure]:
    """Return every figure that there is something to draw for, by its name."""
    jobs: dict[str, Draw] = {SAVINGS: partial(savings_figure, groups)}
    for number, group in enumerate(groups):
        jobs.update({f"{group_id(number)}-{name}": draw for name, draw in _of_group(group).items()})
    return draw_all({**jobs, PROGRAMS: partial(programs_figure, programs)})


def file_names(groups: Sequence[Group], names: Iterable[str]) -> dict[str, str]:
    """Return, by the name of each figure, that of its file, which names the group in English."""
    words = dict(zip(map(group_id, range(len(groups))), labels(groups, texts_of(LANGUAGES[0]))))
    split = {name: name.partition("-") for name in names}
    return {name: f"{words.get(group, group)}{dash}{rest}" for name, (group, dash, rest) in split.items()}


def drawn_rows(group: Group) -> list[Row]:
    """Return the rows of the figures of a whole group: lines of more scenarios could not be told apart."""
    asked = next((rows for rows in group.questions.values() if any(row.measured for row in rows)), [])
    return [row for row in asked if not row.is_variant] or asked


def _of_group(group: Group) -> dict[str, Draw]:
    rows = drawn_rows(group)
    jobs: dict[str, Draw] = {
        "timeline": partial(timeline, rows),
        "npu_contexts": partial(npu_contexts, rows),
        "speed": partial(speed_figure, group),
    }
    if group.computes:
        jobs["contexts"] = partial(contexts, rows)
    for name, asked in group.questions.items():
        if name != STREAMS:
            jobs[f"{name}-explanation"] = partial(explanation_figure, asked)
    jobs.update(streams_drawings(group))
    jobs["copies"] = partial(copies_figure, group.questions.get("io_copies", []))
    jobs["resolutions"] = partial(resolutions_figure, group.questions.get("shared_weights", []))
    return jobs
