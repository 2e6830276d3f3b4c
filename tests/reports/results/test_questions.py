from __future__ import annotations

from reports.results.colours import COMPONENT_COLOURS, OTHER_COLOUR, scenario_colour
from reports.results.questions import OTHER, QUESTIONS, question_of, scenarios_of
from scenarios.catalogue import SCENARIOS


def test_every_scenario_answers_a_question() -> None:
    """No scenario of the catalogue is left over, and a baseline answers the question of those compared with it."""
    assert [name for question in QUESTIONS for name in scenarios_of(question)] == [
        scenario.name for scenario in SCENARIOS
    ]
    for scenario in SCENARIOS:
        assert question_of(scenario.name, scenario.baseline) == question_of(scenario.baseline or scenario.name, None)


def test_a_scenario_of_another_version_is_another_question() -> None:
    """A stored scenario that this version does not know is reported too."""
    assert question_of("of_tomorrow", "baseline_of_tomorrow") == OTHER


def test_colours_of_a_figure_are_distinct() -> None:
    """Every scenario has a colour, which no other one of its question has; no two components share one."""
    for question in QUESTIONS:
        colours = [OTHER_COLOUR, *map(scenario_colour, scenarios_of(question))]
        assert len(set(colours)) == len(colours)
    assert len(set(COMPONENT_COLOURS.values())) == len(COMPONENT_COLOURS)
