from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from storage.mechanisms import Trial

from messages import Message
from reports.base.messages import message_words
from reports.base.texts import LANGUAGES, texts_of
from reports.sections.answers import answers
from reports.sections.failures import failures
from reports.sections.mechanisms import reasons
from reports.sections.tables import memory_sources
from targets.outcome import OUTCOMES
from tests.reports.page.test_page import in_language, page
from tests.reports.results.test_rows import groups_of
from tests.reports.stored import FAILED, NOT_SUPPORTED, even, result, tried, write_run

ENGLISH, CHINESE = texts_of("en"), texts_of("zh-CN")
LACKING = Message("rknn_one_thread")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", [kind for kind in OUTCOMES if kind != "ok"])
def test_kinds_have_the_words_of_the_report(kind: str, language: str) -> None:
    """A kind of failure inside a sentence is called what the tables call it."""
    texts = texts_of(language)
    assert message_words(asdict(Message(f"kind_{kind}")), texts) == texts(f"outcome_{kind}")


def run_with_failures(storage: Path) -> None:
    """Write a run with a reason as it is stored, the same as version 0.1.0 stored it, another one, and a crash."""
    lacking, before, other = (
        {**NOT_SUPPORTED, "message": message} for message in (asdict(LACKING), str(LACKING), f"{LACKING}!")
    )
    write_run(
        storage,
        [
            result(storage, "no_reuse", even(40)),
            result(storage, "shared_context", [], failure=lacking),
            result(storage, "external_memory", [], failure=before),
            result(storage, "external_mmz", [], failure=other),
            result(storage, "full_dup", [], failure=FAILED),
        ],
    )


def test_a_chinese_page_has_no_english_reason(tmp_path: Path) -> None:
    """A stored reason stands in the page in both languages, each in its own elements."""
    run_with_failures(tmp_path)
    html = page(tmp_path, tmp_path / "out")
    escaped = str(LACKING).replace("'", "&#39;")
    translated = message_words(asdict(LACKING), CHINESE)
    assert escaped in in_language(html, "en")
    assert translated not in in_language(html, "en")
    assert translated in in_language(html, "zh-CN")
    assert f"{escaped}<" not in in_language(html, "zh-CN")
    assert message_words(FAILED["message"], CHINESE) in in_language(html, "zh-CN")


def test_equal_reasons_are_the_same_in_every_language(tmp_path: Path) -> None:
    """Failures are put together by what happened, whatever the language, and whichever version stored them."""
    run_with_failures(tmp_path)
    (group,) = groups_of(tmp_path)
    for texts in (ENGLISH, CHINESE):
        scenarios = [reason["scenarios"].count(texts("list_separator")) for reason in failures(group, texts)]
        assert scenarios == [0, 1, 0]


def test_answers_reasons_and_remarks_are_translated(tmp_path: Path) -> None:
    """What failed, why a mechanism does not work, and what a source is for stand in the language of the texts."""
    run_with_failures(tmp_path)
    (group,) = groups_of(tmp_path)
    assert any(message_words(FAILED["message"], CHINESE) in answer for answer in answers(group.rows, CHINESE))
    translated = message_words(asdict(LACKING), CHINESE)
    trials = (Trial("shared_context", "not_supported", str(LACKING)), Trial("full_dup", "works", ""))
    assert [reason for *_, reason in reasons([tried(trials=trials)], CHINESE)] == [translated]
    sources = memory_sources(group.newest.machine, CHINESE)
    assert sources is not None
    assert [cells[2].text for _, cells in sources.rows] == [
        "memory of the process",
        message_words(asdict(Message("needs_root")), CHINESE),
    ]
