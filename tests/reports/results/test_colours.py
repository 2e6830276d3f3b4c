from __future__ import annotations

from reports.results.colours import COMPONENT_COLOURS, OTHER_COLOUR, scenario_colour
from scenarios.catalogue import QUESTIONS, scenarios_of


def test_colours_of_a_figure_are_distinct() -> None:
    """Every scenario has a colour, which no other one of its question has; no two components share one."""
    for question in QUESTIONS:
        colours = [OTHER_COLOUR, *map(scenario_colour, scenarios_of(question))]
        assert len(set(colours)) == len(colours)
    assert len(set(COMPONENT_COLOURS.values())) == len(COMPONENT_COLOURS)
