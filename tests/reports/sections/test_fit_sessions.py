"""Answers of `reusebench fit --sessions` on the page: sentences, figures and all layouts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reusebench.measured.messages import Message
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import read_material
from reusebench.reports.sections.fit_sessions import (
    conversation_layouts_table,
    conversations_figures_table,
    conversations_sentences,
    conversations_summary,
    conversations_title,
)
from reusebench.storage.fit_answer import FitShortage
from reusebench.storage.fit_sessions import SessionsAnswer, write_session_answer
from tests.reports.pages import page, section
from tests.reports.stored import MIB, write_run
from tests.reports.stored_fit_sessions import made_point, sessions_answer
from tests.reports.stored_sessions import sessions_result

_ENGLISH = texts_of("en")
_TIMES = "\N{MULTIPLICATION SIGN}"


def told(answer: SessionsAnswer) -> str:
    return " ".join(conversations_sentences(answer, _ENGLISH))


def test_the_answer_in_sentences() -> None:
    """They have what was wanted, the defaults, the recommended layout, the limit and the speed."""
    assert conversations_title(sessions_answer(), _ENGLISH) == (
        f"llama.cpp, python: chat, 4 {_TIMES} 2,048 tokens"
    )
    assert conversations_sentences(sessions_answer(), _ENGLISH) == [
        f"Wanted: 4 {_TIMES} 2,048 tokens (conversations {_TIMES} room of each), with a prompt of"
        " 512 (384 of them in common) and an answer of 64.",
        "With the runtime's defaults the peak is 500.0 ±10.0 MiB: 4 contexts over one model.",
        "Recommended: one context of 4 sequences, each with its part of the cache. It takes"
        " 340.0 MiB of application memory, 350.0 ±7.0 MiB at its peak; the KV cache (default type)"
        " has 180.00 MiB of it, and a further conversation adds 46.0 MiB.",
        "It fits into 400.0 MiB; 43.0 MiB are left.",
        "Each conversation generates 20.0 tokens per second while all generate, 40.0 while the"
        " others wait, with full contexts.",
    ]


def test_what_does_not_fit_says_by_how_much() -> None:
    """The smallest layout is told; a measured peak above the limit counts, too."""
    small = sessions_answer().candidates[0]
    answer = sessions_answer(best=small, limit_bytes=100 * MIB, fits=False)
    assert "The smallest that meets the wish: one context of 4 sequences over one" in told(answer)
    assert "KV cache (q4_0) has 48.00 MiB" in told(answer)
    assert "It does not fit into 100.0 MiB: 104.0 MiB too much." in told(answer)
    assert _ENGLISH("fit_conversations_other_tokens") in told(answer)
    outcomes = {cells[2] for _, cells in conversation_layouts_table(answer, _ENGLISH).rows}
    assert outcomes == {"does not fit"}

    measured = sessions_answer(fits=False, measured_peak_bytes=410 * MIB)
    assert "Recommended: " in told(measured)
    assert "not fit into 400.0 MiB: its peak was 410.0 MiB when it was measured" in told(measured)
    rows = conversation_layouts_table(measured, _ENGLISH).rows
    assert [cells[2] for _, cells in rows] == ["fits", "does not fit", "does not fit"]


def test_without_a_limit_nothing_fits_or_not() -> None:
    """Only the recommended layout has a word."""
    answer = sessions_answer(limit_bytes=None)
    assert "fit into" not in told(answer)
    rows = conversation_layouts_table(answer, _ENGLISH).rows
    assert [cells[2] for _, cells in rows] == ["-", "recommended", "-"]


def test_if_no_layout_is_fast_enough_the_fastest_is_told() -> None:
    """There are no figures of a layout, and nothing to compare others with."""
    predicted = [name for name in SessionsAnswer.__struct_fields__ if name.startswith("predicted_")]
    answer = sessions_answer(best=None, tokens_per_s=90.0, fits=False, **dict.fromkeys(predicted))
    assert "Each is to generate 90 tokens per second" in told(answer)
    assert (
        "No layout generates 90 tokens per second in each conversation; the most is 20.0: one"
        " context of 4 sequences, each with its part of the cache." in told(answer)
    )
    assert conversations_summary(answer, _ENGLISH) == ""
    assert conversations_figures_table(answer, _ENGLISH) is None
    rows = conversation_layouts_table(answer, _ENGLISH).rows
    assert {(cells[5], cells[9]) for _, cells in rows} == {("-", "-")}


def test_doubts_are_told() -> None:
    """Other work, short memory and an unknown speed each have a sentence."""
    signs = (Message("shortage_evicted", {"mib": "30.0"}),)
    best = made_point("sequences", 350, tokens_per_s=None, alone_tokens_per_s=None, prompts_s=None)
    answer = sessions_answer(
        best=best, candidates=(best,), busy_percent=80.0, short=(FitShortage("fit", signs),)
    )
    assert "busy with other work while this was measured, up to 80 %" in told(answer)
    assert "Memory was short while these plans were measured" in told(answer)
    assert _ENGLISH("fit_conversations_speed_unknown") in told(answer)
    ((_, cells),) = conversation_layouts_table(answer, _ENGLISH).rows
    assert cells[8:12] == ["-"] * 4


def test_each_layout_has_its_cost_against_the_recommended_one() -> None:
    """Less memory is negative, as is less speed; the recommended one is compared with nothing."""
    small, best, today = conversation_layouts_table(sessions_answer(), _ENGLISH).rows
    assert small[1] == [
        "one context of 4 sequences over one cache",
        "cache_type=q4_0",
        "fits",
        "190.0",
        "200.0 ±4.0",
        "-150.0",
        "48.00",
        "46.0",
        "15.0",
        "-25.0",
        "40.0",
        "2.50",
        "others",
    ]
    assert best[1][5] == best[1][9] == "-"
    assert (best[1][2], best[1][-1]) == ("recommended", "equal")
    assert (today[1][2], today[1][5], today[1][9]) == ("does not fit", "150.0", "-50.0")


def test_measured_figures_stand_beside_the_predicted_ones() -> None:
    """The difference is a share of the measurement; without one its columns are empty."""
    verified = sessions_answer(
        measured_kv_bytes=180 * MIB,
        measured_application_memory_bytes=400 * MIB,
        measured_peak_bytes=400 * MIB,
        measured_tokens_per_s=25.0,
    )
    table = conversations_figures_table(verified, _ENGLISH)
    assert table is not None
    assert [cells for _, cells in table.rows] == [
        ["Application memory, MiB", "340.0", "400.0", "-15.0"],
        ["Peak, MiB", "350.0 ±7.0", "400.0", "-12.5"],
        ["KV cache, MiB", "180.00", "180.00", "0.0"],
        ["Each conversation while all generate, tokens/s", "20.0", "25.0", "-20.0"],
    ]
    predicted = conversations_figures_table(sessions_answer(), _ENGLISH)
    assert predicted is not None
    assert predicted.without_empty_columns.heads == ["Figure", "Predicted"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_the_stored_answer(tmp_path: Path, language: str) -> None:
    """A storage with runs shows it, with the reasons for missing layouts and the program."""
    info = sessions_result(tmp_path, "sessions_contexts")
    write_run(tmp_path, [info])
    refused = Message("fit_sessions_refused", {"layout": "unified", "reason": "none"})
    answer = sessions_answer(recommended=info.plan, refused=(refused,))
    write_session_answer(tmp_path, answer)
    assert read_material([tmp_path], None).session_fits == [answer]
    texts = texts_of(language)
    shown = section(page(tmp_path, tmp_path / "page", language), "what_fits")
    for words in (
        conversations_summary(answer, texts),
        conversations_title(answer, texts),
        *conversations_sentences(answer, texts),
        texts("fit_conversations_about"),
        texts("fit_conversations_note"),
        texts.message(refused),
    ):
        assert words in shown
    assert texts("fit_about") not in shown
    assert 'lang="en"' in shown


def test_a_damaged_answer_is_a_bad_file(tmp_path: Path) -> None:
    """It is listed, and the rest of the report is made; another version is left out."""
    write_run(tmp_path, [sessions_result(tmp_path, "sessions_contexts")])
    path = write_session_answer(tmp_path, sessions_answer())
    path.write_bytes(path.read_bytes()[:-2])
    material = read_material([tmp_path], None)
    assert [file.path for file in material.bad_files] == [path]
    assert not material.session_fits
    path.write_bytes(msgspec.json.encode(sessions_answer(schema="reusebench-fit-sessions-0")))
    material = read_material([tmp_path], None)
    assert not material.bad_files
    assert not material.session_fits
