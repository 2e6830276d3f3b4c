from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reports.base.messages import said
from reports.base.texts import LANGUAGES, texts_of
from reports.sections.answers import answers
from reports.sections.failures import failures
from reports.sections.mechanisms import reasons
from reports.sections.tables import memory_sources
from storage.mechanisms import Trial
from targets.outcome import OUTCOMES, Failure
from tests.reports.base.test_texts import fields
from tests.reports.page.test_page import in_language, page
from tests.reports.results.test_rows import groups_of
from tests.reports.stored import FAILED, NOT_SUPPORTED, even, result, tried, write_run
from tests.reports.stored_messages import STAND_IN, stored_messages
from tests.support import CHECKOUT, make_plan

ENGLISH, CHINESE = texts_of("en"), texts_of("zh-CN")
OTHERS = LANGUAGES[1:]
MESSAGES = sorted(stored_messages())
REASON = "Rockchip's runtime runs a context from one thread at a time; a further thread needs a dup"
#: More words in a row than a command has; an option is no word.
ENGLISH_WORDS = re.compile(r"(?<![-\w])[a-z]+(?: [a-z]+){3,}")


def translations(language: str) -> dict[str, str]:
    file = CHECKOUT / "reports" / "data" / f"messages.{language}.json"
    return dict(json.loads(file.read_text(encoding="utf-8")))


def words_of_failures() -> list[str]:
    """Return a failure of every kind in every phase as the reason of a trial has it."""
    walk = [*make_plan("internal_reuse", "a", "b", streams=2).steps()]
    steps = {(step.phase, step.context) for step in walk} | {("prepare", None)}
    return [
        str(Failure(kind, *step, message=STAND_IN))
        for kind in OUTCOMES
        if kind != "ok"
        for step in sorted(steps, key=str)
    ]


def test_the_source_tells_its_messages() -> None:
    """Messages of every room are found, with what their values may be."""
    assert len(MESSAGES) > 80
    assert REASON in MESSAGES
    assert f"this library has no {STAND_IN}" in MESSAGES
    assert f"its register commands name freed memory of the application, {STAND_IN} addresses" in MESSAGES
    assert "PSS, USS, swap at barriers: psutil reads smaps, slower" in MESSAGES
    assert f"the process ended with exit code {STAND_IN} before the plan was done" in MESSAGES


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("message", [*MESSAGES, *words_of_failures()])
def test_every_message_has_a_translation(message: str, language: str) -> None:
    """What the code can store is said in every language, with the same values and no sentence left in English."""
    shown = said(message, texts_of(language))
    assert shown != message
    assert shown.count(STAND_IN) == message.count(STAND_IN)
    assert not ENGLISH_WORDS.search(shown)


@pytest.mark.parametrize("language", OTHERS)
def test_translations_fill_in_the_same_fields(language: str) -> None:
    """Each translation has the fields of its message."""
    assert {key: fields(key) for key in translations(language)} == {
        key: fields(text) for key, text in translations(language).items()
    }


@pytest.mark.parametrize("language", OTHERS)
def test_no_translation_is_of_no_message(language: str) -> None:
    """What the code no longer says is not kept."""
    stored = [*MESSAGES, *words_of_failures()]
    parts = {key: [part for part in re.split(r"\{\w+\}", key) if part] for key in translations(language)}
    assert [key for key, each in parts.items() if not any(all(part in one for part in each) for one in stored)] == []


def test_chinese_messages_have_chinese_punctuation() -> None:
    """No comma, colon, semicolon, question mark or bracket of ASCII stands beside a Chinese character."""
    beside = re.compile(r"[\u3400-\u9fff][,:;?()]|[,:;?()][\u3400-\u9fff]")
    assert {key: text for key, text in translations("zh-CN").items() if beside.search(text)} == {}


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("kind", [kind for kind in OUTCOMES if kind != "ok"])
def test_kinds_have_the_words_of_the_report(kind: str, language: str) -> None:
    """A kind of failure inside a reason is called what the tables call it."""
    assert said(kind.replace("_", " "), texts_of(language)) == texts_of(language)(f"outcome_{kind}")


def test_the_first_language_has_the_message_itself() -> None:
    """Messages are stored in it."""
    assert said(REASON, ENGLISH) == REASON


def test_unknown_messages_stay() -> None:
    """What a library or an older version said is shown as it was said."""
    for message in ("RuntimeError: it broke: a {b}", "", "the runtime is asleep"):
        assert said(message, CHINESE) == message


def test_values_stay_and_known_ones_are_said() -> None:
    """Names, numbers and words of a library are kept; a message inside a message is translated too."""
    call = "rknn_run returned -7 (RKNN_ERR_CTX_INVALID): E RKNN: it broke (twice) {0}"
    shown = said(call, CHINESE)
    assert re.findall("[ -~]+", shown) == ["rknn_run ", " -7", "RKNN_ERR_CTX_INVALID", call.partition(": ")[2]]
    inner = str(Failure("crashed", "context", 2, "the process was ended by SIGSEGV"))
    shown = said(f"its baseline no_reuse: {inner}", CHINESE)
    assert CHINESE("outcome_crashed") in shown
    assert shown.endswith(said("the process was ended by SIGSEGV", CHINESE))
    assert re.findall("[A-Za-z_]+", shown) == ["no_reuse", "SIGSEGV"]


def run_with_failures(storage: Path) -> None:
    lacking, other = ({**NOT_SUPPORTED, "message": message} for message in (REASON, f"{REASON}!"))
    write_run(
        storage,
        [
            result(storage, "no_reuse", even(40)),
            result(storage, "shared_context", [], failure=lacking),
            result(storage, "external_memory", [], failure=lacking),
            result(storage, "external_mmz", [], failure=other),
            result(storage, "full_dup", [], failure=FAILED),
        ],
    )


def test_a_chinese_page_has_no_english_reason(tmp_path: Path) -> None:
    """A stored reason stands in the page in both languages, each in its own elements."""
    run_with_failures(tmp_path)
    html = page(tmp_path, tmp_path / "out")
    escaped = REASON.replace("'", "&#39;")
    translated = said(REASON, CHINESE)
    assert escaped in in_language(html, "en")
    assert translated not in in_language(html, "en")
    assert translated in in_language(html, "zh-CN")
    assert f"{escaped}<" not in in_language(html, "zh-CN")
    assert said(str(FAILED["message"]), CHINESE) in in_language(html, "zh-CN")


def test_equal_reasons_are_the_same_in_every_language(tmp_path: Path) -> None:
    """Failures are put together by what is stored, whatever its words."""
    run_with_failures(tmp_path)
    (group,) = groups_of(tmp_path)
    counts = [
        [each["scenarios"].count(texts("list_separator")) for each in failures(group, texts)]
        for texts in (ENGLISH, CHINESE)
    ]
    assert counts[0] == counts[1] == [0, 1, 0]


def test_answers_reasons_and_remarks_are_said(tmp_path: Path) -> None:
    """What failed, why a mechanism does not work, and what a source is for stand in the language of the texts."""
    run_with_failures(tmp_path)
    (group,) = groups_of(tmp_path)
    assert any(said(str(FAILED["message"]), CHINESE) in answer for answer in answers(group.rows, CHINESE))
    trials = (Trial("shared_context", "not_supported", REASON), Trial("full_dup", "works", ""))
    assert [reason for *_, reason in reasons([tried(trials=trials)], CHINESE)] == [said(REASON, CHINESE)]
    sources = memory_sources(group.newest.machine, CHINESE)
    assert sources is not None
    assert [cells[2].text for _, cells in sources.rows] == ["memory of the process", said("needs root", CHINESE)]
