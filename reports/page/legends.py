"""What the colours of each figure mean, for figures that stand alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports.base.texts import Texts
from reports.explanation.figure import explanation_colours
from reports.page.figures import PROGRAMS, SAVINGS, drawn_rows
from reports.results.colours import OTHER_COLOUR, PHASE_COLOURS, SCENARIO_COLOURS
from reports.results.labels import group_id, labels
from reports.results.rows import Group, Row
from reports.sections.copies_figure import way_colours
from reports.sections.programs import RecordedProgram
from reports.sections.programs_figure import phase_colours
from reports.sections.resolutions_figure import LINES
from reports.sections.savings import runtime_colours
from reports.sections.speed_figure import speed_legend
from reports.streams.section import streams_legends

#: What is meant, the colour, and the mark that is drawn in it.
Legend = list[tuple[str, str, str]]
_SQUARE = "\N{BLACK SQUARE}"


def legends_of(groups: Sequence[Group], texts: Texts, programs: Sequence[RecordedProgram] = ()) -> dict[str, Legend]:
    """Return the legend of each figure that page_figures.figures_of may draw, by its name."""
    found = {
        SAVINGS: _squares(runtime_colours(groups, labels(groups, texts), texts)),
        PROGRAMS: _squares(phase_colours(programs).items()),
    }
    for number, group in enumerate(groups):
        found.update({f"{group_id(number)}-{name}": legend for name, legend in _of_group(group, texts).items()})
    return found


def _of_group(group: Group, texts: Texts) -> dict[str, Legend]:
    rows, questions = drawn_rows(group), group.questions
    scenarios = _squares(
        (texts.scenario(row.scenario), SCENARIO_COLOURS.get(row.scenario, OTHER_COLOUR)) for row in rows if row.measured
    )
    explanations = {
        f"{name}-explanation": _squares(explanation_colours(asked, texts).items()) for name, asked in questions.items()
    }
    return {
        "timeline": _squares(_phases(rows, texts)),
        "contexts": scenarios,
        "npu_contexts": scenarios,
        "speed": speed_legend(group, texts),
        "copies": _squares(way_colours(questions.get("io_copies", []), texts).items()),
        "resolutions": _squares((texts(f"line_{line}"), SCENARIO_COLOURS[line]) for line in LINES),
        **explanations,
        **streams_legends(group, texts),
    }


def _phases(rows: Sequence[Row], texts: Texts) -> list[tuple[str, str]]:
    """Return the phases that these rows went through."""
    phases = {phase for row in rows for repeat in row.info.repeats for phase in repeat.phases}
    return [(texts(f"phase_{name}"), colour) for name, colour in PHASE_COLOURS.items() if name in phases]


def _squares(colours: Iterable[tuple[str, str]]) -> Legend:
    return [(name, colour, _SQUARE) for name, colour in colours]
