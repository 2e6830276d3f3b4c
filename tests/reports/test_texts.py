from __future__ import annotations

import string

import pytest

from reports.texts import LANGUAGES, texts_of
from scenarios.catalogue import SCENARIOS
from targets.outcome import OUTCOMES


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_languages_say_the_same(language: str) -> None:
    """Every language has the same keys, and each text fills in the same values."""
    first, other = texts_of(LANGUAGES[0]).words, texts_of(language).words
    assert list(first) == list(other)
    assert {key: fields(text) for key, text in first.items()} == {key: fields(text) for key, text in other.items()}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_scenario_and_outcome_has_words(language: str) -> None:
    """No scenario, outcome or definition is without its text."""
    words = texts_of(language).words
    for scenario in SCENARIOS:
        assert {f"scenario_{scenario.name}", f"about_{scenario.name}"} <= set(words)
    assert {f"outcome_{outcome}" for outcome in OUTCOMES} <= set(words)
    definitions = {key.partition("_")[2] for key in words if key.startswith("define_")}
    assert definitions == {key.partition("_")[2] for key in words if key.startswith("term_")}
