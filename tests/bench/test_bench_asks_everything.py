"""The questions in bench/ and the catalogue of scenarios."""

from __future__ import annotations

import importlib

import pytest

from scenarios.catalogue import SCENARIOS, scenarios_of
from tests.support import CHECKOUT

_QUESTIONS = sorted(path.stem for path in (CHECKOUT / "bench").glob("test_*.py"))


def test_every_scenario_is_asked_once() -> None:
    """Each stands in one file, in the order of the catalogue, in which a baseline comes before what it is for."""
    asked = [name for question in _QUESTIONS for name in scenarios_of(question)]
    assert sorted(asked) == sorted(scenario.name for scenario in SCENARIOS)
    order = [scenario.name for scenario in SCENARIOS]
    for question in _QUESTIONS:
        assert list(scenarios_of(question)) == [name for name in order if name in scenarios_of(question)]


def test_what_is_compared_stands_together() -> None:
    """A scenario and its baseline are in one file, so that choosing the file is enough."""
    baselines = {scenario.name: scenario.baseline for scenario in SCENARIOS}
    for question in _QUESTIONS:
        names = scenarios_of(question)
        assert {baselines[name] for name in names if baselines[name]} <= set(names)


@pytest.mark.parametrize("question", _QUESTIONS)
def test_every_file_opens_with_its_question(question: str) -> None:
    """One sentence, which ends as a question does."""
    words = importlib.import_module(f"bench.{question}").__doc__
    assert words
    assert words.splitlines()[0].endswith("?")
