"""The titles of scenarios."""

from __future__ import annotations

import json

import pytest

from reusebench.measured.messages import LANGUAGES
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.scenarios.titles import title_of
from tests.helpers.support import CHECKOUT


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_scenario_has_a_title_of_its_own(language: str) -> None:
    """Lines of the terminal and of the page can be told apart by their titles alone."""
    titles = {scenario.name: title_of(scenario.name, language) for scenario in SCENARIOS}
    assert [name for name, title in titles.items() if name == title] == []
    assert len(set(titles.values())) == len(SCENARIOS)


def test_languages_have_the_same_titles_in_the_same_order() -> None:
    """No title of a language is left out, or is there without a scenario."""
    folder = CHECKOUT / "scenarios" / "titles"
    keys = [
        list(json.loads((folder / f"{language}.json").read_text(encoding="utf-8")))
        for language in LANGUAGES
    ]
    assert keys == [keys[0]] * len(LANGUAGES)


def test_a_plan_and_an_option_keep_their_names() -> None:
    """A plan without reuse is the plan's name and what it is."""
    assert title_of("gate") == "gate"
    assert title_of("gate.no_reuse") == "gate, no reuse"
    assert title_of("threads=2") == "threads=2"
