"""Stored messages in words: codes with values, and the English sentences that version 0.1.0 stored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import escape
from msgspec.structs import replace

from messages import Message
from reports.base.messages import in_words
from reports.base.texts import texts_of
from reports.results.rows import Group
from reports.sections.answers import answers
from reports.sections.failures import failures
from reports.sections.mechanisms import reasons
from reports.sections.tables import memory_sources
from tests.reports.page.test_page import in_language, page
from tests.reports.stored import FAILED, NOT_SUPPORTED, even, groups_of, result, write_run

ENGLISH, CHINESE = texts_of("en"), texts_of("zh-CN")
REASON = "Rockchip's runtime runs a context from one thread at a time; a further thread needs a dup"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run in which two scenarios lack the same, one something else, and one crashed."""
    folder = tmp_path_factory.mktemp("failures")
    lacking, other = (replace(NOT_SUPPORTED, message=message) for message in (REASON, f"{REASON}!"))
    write_run(
        folder,
        [
            result(folder, "no_reuse", even(40)),
            result(folder, "shared_context", [], failure=lacking),
            result(folder, "external_memory", [], failure=lacking),
            result(folder, "external_mmz", [], failure=other),
            result(folder, "full_dup", [], failure=FAILED),
        ],
    )
    return folder


@pytest.fixture(scope="module")
def group(storage: Path) -> Group:
    """Return its group."""
    (group,) = groups_of(storage)
    return group


def test_the_first_language_has_the_sentence_itself() -> None:
    """Sentences were stored in it."""
    assert ENGLISH.message(REASON) == REASON


def test_unknown_messages_stay() -> None:
    """What a library said, or another version, is shown as it is."""
    for sentence in ("RuntimeError: it broke: a {b}", "", "the runtime is asleep"):
        assert CHINESE.message(sentence) == CHINESE.message(Message("text", {"text": sentence})) == sentence
    assert CHINESE.message(Message("of_tomorrow", {"size": 3})) == "of_tomorrow (size 3)"


def test_values_stay_and_known_ones_are_translated() -> None:
    """Names, numbers and words of a library are kept, whatever brackets they have."""
    call = "rknn_run returned -7 (RKNN_ERR_CTX_INVALID): E RKNN: it broke (twice) {0}"
    for message in (call, Message("text", {"text": call})):
        shown = CHINESE.message(message)
        assert re.findall("[ -~]+", shown) == ["rknn_run ", " -7", "RKNN_ERR_CTX_INVALID", call.partition(": ")[2]]


def test_a_chinese_page_has_no_english_reason(storage: Path, tmp_path: Path) -> None:
    """A stored reason stands in the page in both languages, each in its own elements."""
    html = page(storage, tmp_path)
    escaped, translated = str(escape(REASON)), CHINESE.message(REASON)
    assert escaped in in_language(html, "en")
    assert translated not in in_language(html, "en")
    assert translated in in_language(html, "zh-CN")
    assert f"{escaped}<" not in in_language(html, "zh-CN")
    assert CHINESE.message(FAILED.message) in in_language(html, "zh-CN")


def test_equal_reasons_are_the_same_in_every_language(group: Group) -> None:
    """Failures are put together by what is stored, whatever its words."""
    counts = [
        [reason.scenarios.count(texts("list_separator")) for reason in failures(group, texts)]
        for texts in (ENGLISH, CHINESE)
    ]
    assert counts[0] == counts[1] == [0, 1, 0]


def test_answers_reasons_and_remarks_are_translated(group: Group) -> None:
    """What failed, why a mechanism does not work, and what a source is for stand in the language of the texts."""
    crash = CHINESE.message(FAILED.message)
    assert any(crash in answer for answer in answers(group.rows, CHINESE))
    crashed, lacking, _ = (reason for *_, reason in mechanism_reasons([group], ["here"], CHINESE))
    assert (crash in crashed, lacking) == (True, CHINESE.message(REASON))
    sources = memory_sources(group.newest.machine, CHINESE)
    assert sources is not None
    assert [cells[2] for _, cells in sources.rows] == ["memory of the process", in_words("needs root", CHINESE)]
