from __future__ import annotations

import json
import re
import string

import pytest

from accounting.sizes import COMPONENTS
from reports.base.texts import LANGUAGES, texts_of
from reports.results.colours import PHASE_COLOURS
from reports.results.memory import PAGE_KINDS
from reports.results.questions import OTHER, QUESTIONS
from reports.sections.contexts import RESOLUTION_LINES
from scenarios.catalogue import MODEL_SETS, SCENARIOS
from targets.outcome import OUTCOMES
from tests.support import CHECKOUT


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_languages_say_the_same(language: str) -> None:
    """Every language has the same keys, and each text fills in the same values."""
    first, other = texts_of(LANGUAGES[0]).words, texts_of(language).words
    assert list(first) == list(other)
    assert {key: fields(text) for key, text in first.items()} == {key: fields(text) for key, text in other.items()}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_key_stands_in_one_file(language: str) -> None:
    """No text hides another one of the same key in another file of the language."""
    files = (CHECKOUT / "reports" / "texts" / language).glob("*.json")
    keys = [key for file in files for key, _ in json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=list)]
    assert sorted(keys) == sorted(set(keys))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_scenario_and_outcome_has_words(language: str) -> None:
    """No scenario, outcome or definition is without its text."""
    words = texts_of(language).words
    for scenario in SCENARIOS:
        assert {f"scenario_{scenario.name}", f"about_{scenario.name}"} <= set(words)
    assert {f"outcome_{outcome}" for outcome in OUTCOMES} <= set(words)
    assert {f"phase_{phase}" for phase in PHASE_COLOURS} <= set(words)
    assert {f"question_{question}" for question in (*QUESTIONS, OTHER)} <= set(words)
    assert {f"component_{component}" for component in (*COMPONENTS, "total", "peak", "left")} <= set(words)
    assert {f"models_of_{name}" for name in MODEL_SETS} <= set(words)
    assert {f"part_{name}" for name in PAGE_KINDS} <= set(words)
    assert {f"line_{name}" for name in RESOLUTION_LINES} <= set(words)
    assert {f"mechanism_{each}" for each in ("load", "dup", "shared_context", "shared_weights")} <= set(words)
    definitions = {key.partition("_")[2] for key in words if key.startswith("define_")}
    assert definitions == {key.partition("_")[2] for key in words if key.startswith("term_")}


def test_chinese_has_chinese_punctuation() -> None:
    """No comma, colon, semicolon, question mark or bracket of ASCII stands beside a Chinese character."""
    beside = re.compile(r"[\u3400-\u9fff][,:;?()]|[,:;?()][\u3400-\u9fff]")
    assert {key: text for key, text in texts_of("zh-CN").words.items() if beside.search(text)} == {}
