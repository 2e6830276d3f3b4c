"""The words of the report in each language, and stored messages in them."""

from __future__ import annotations

import json
import re
import string

import pytest
from msgspec.structs import replace

from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.messages import Message
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.colours import PHASE_COLOURS
from reusebench.reports.results.memory_use import PAGE_KINDS
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.environment import memory_sources_table
from reusebench.reports.sections.failures import failures
from reusebench.reports.sections.mechanisms import mechanism_reasons
from reusebench.reports.sections.shared_weights import RESOLUTION_LINES
from reusebench.reports.shared.answers import answers
from reusebench.scenarios.catalogue import MODEL_SETS, OTHER_QUESTION, QUESTIONS, SCENARIOS
from reusebench.system.package import PACKAGE
from reusebench.targets.outcome import OUTCOMES
from tests.helpers.chinese import not_chinese, with_foreign_punctuation
from tests.helpers.support import CHECKOUT
from tests.reports.stored import FAILED, NOT_SUPPORTED, even, group_of, in_words, result

ENGLISH = texts_of("en")
CHINESE = texts_of("zh-CN")
REASON = Message("rknn_one_thread")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_languages_say_the_same(language: str) -> None:
    """Every language has the same keys, and each text fills in the same values."""
    first = texts_of(LANGUAGES[0]).words
    other = texts_of(language).words
    assert list(first) == list(other)
    assert {key: fields(text) for key, text in first.items()} == {
        key: fields(text) for key, text in other.items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_key_stands_in_one_file(language: str) -> None:
    """No text hides another one with the same key in another file of the language."""
    files = (CHECKOUT / "reports" / "texts" / language).glob("*.json")
    keys = [
        key
        for file in files
        for key, _ in json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=list)
    ]
    assert sorted(keys) == sorted(set(keys))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_scenario_and_outcome_has_words(language: str) -> None:
    """Every scenario, outcome and definition has its text."""
    words = texts_of(language).words
    for scenario in SCENARIOS:
        assert f"about_{scenario.name}" in words
    assert {f"outcome_{outcome}" for outcome in OUTCOMES} <= set(words)
    assert {f"phase_{phase}" for phase in PHASE_COLOURS} <= set(words)
    assert {f"question_{question}" for question in (*QUESTIONS, OTHER_QUESTION)} <= set(words)
    assert {
        f"component_{component}" for component in (*COMPONENTS, "total", "peak", "left")
    } <= set(words)
    assert {f"models_of_{name}" for name in MODEL_SETS} <= set(words)
    assert {f"part_{name}" for name in PAGE_KINDS} <= set(words)
    assert {f"line_{name}" for name in RESOLUTION_LINES} <= set(words)
    assert {
        f"mechanism_{name}" for name in ("load", "dup", "shared_context", "shared_weights")
    } <= set(words)
    definitions = {key.partition("_")[2] for key in words if key.startswith("define_")}
    assert definitions == {key.partition("_")[2] for key in words if key.startswith("term_")}


def test_chinese_has_chinese_punctuation() -> None:
    """No ASCII comma, colon, semicolon, question mark or bracket is next to a Chinese character."""
    assert with_foreign_punctuation(CHINESE.words.values()) == []


def test_chinese_is_chinese() -> None:
    """A text without any Chinese character has only names and units."""
    assert not_chinese(CHINESE.words.values()) == []


def test_every_text_is_used() -> None:
    """The code or a template has the key itself, or the beginning of a key that it composes."""
    reports = CHECKOUT / "reports"
    files = [*reports.rglob("*.py"), *(reports / "templates").rglob("*.j2")]
    code = "\n".join(
        file.read_text(encoding="utf-8") for file in (*files, PACKAGE / "commands" / "report.py")
    )
    whole = set(re.findall(r"[\"']([a-z0-9_]+)[\"']", code))
    patterns = [
        re.sub(r"\\{.*?\\}", r"\\w+", re.escape(text))
        for text in re.findall(r"f[\"']([\w{}.\[\] ]+)[\"']", code)
    ]
    made = re.compile(
        "|".join(pattern for pattern in patterns if "_" in pattern and r"\w+" in pattern)
    )
    prefixes = tuple(text for text in whole if text.endswith("_"))
    unused = [key for key in ENGLISH.words if key not in whole and not made.fullmatch(key)]
    assert [key for key in unused if not key.startswith(prefixes)] == []


# Stored messages


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Group:
    """Return a run in which two scenarios lack the same, one something else, and one crashed."""
    folder = tmp_path_factory.mktemp("failures")
    lacking, other = (
        replace(NOT_SUPPORTED, message=message) for message in (REASON, in_words("it broke"))
    )
    infos = [
        result(folder, "no_reuse", even(40)),
        result(folder, "shared_context", [], failure=lacking),
        result(folder, "external_memory", [], failure=lacking),
        result(folder, "external_mmz", [], failure=other),
        result(folder, "full_dup", [], failure=FAILED),
    ]
    return group_of(folder, *infos)


def test_unknown_messages_stay() -> None:
    """The words of a library, or of another version, are shown as they are."""
    for sentence in ("RuntimeError: it broke: a {b}", "", "the runtime is asleep"):
        assert CHINESE.message(in_words(sentence)) == sentence
    assert CHINESE.message(Message("of_tomorrow", {"size": 3})) == "of_tomorrow (size 3)"


def test_equal_reasons_are_the_same_in_every_language(group: Group) -> None:
    """Failures are grouped by their stored message, whatever its words."""
    for texts in (ENGLISH, CHINESE):
        counts = [
            reason.scenarios.count(texts("list_separator")) for reason in failures(group, texts)
        ]
        assert counts == [0, 1, 0]


def test_answers_reasons_and_remarks_are_translated(group: Group) -> None:
    """Failures, reasons of mechanisms and remarks on sources are in the language of the texts."""
    crash = CHINESE.message(FAILED.message)
    assert crash != ENGLISH.message(FAILED.message)
    assert any(crash in answer for answer in answers(group.rows, CHINESE))
    crashed, lacking, _ = (reason for *_, reason in mechanism_reasons([group], ["here"], CHINESE))
    assert (crash in crashed, lacking) == (True, CHINESE.message(REASON))
    sources = memory_sources_table(group.newest.machine, CHINESE)
    assert sources is not None
    assert [cells[1] for _, cells in sources.rows] == [CHINESE.message(Message("needs_root"))]
