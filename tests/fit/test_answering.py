"""The stored form of an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from reusebench.commands.fit_text import answer_lines, mib_text
from reusebench.fit.answering import stored_answer, with_measured
from reusebench.fit.layouts import ContextGroup, Layout, spread
from reusebench.fit.prediction import Prediction
from reusebench.fit.search import Answer, Candidate, Wish
from reusebench.fit.study import Study, forms
from reusebench.measured.messages import LANGUAGES, words
from reusebench.reports.base.texts import texts_of
from reusebench.reports.sections.fit import fit_sentences
from reusebench.storage.fit_answer import FitAnswer, FitPatch, read_answers, write_answer
from reusebench.storage.measured_figure import Figure
from tests.fit.made_up import demand_of
from tests.reports import stored


@pytest.fixture
def answer(tmp_path: Path) -> FitAnswer:
    """Return an answer whose frontier has every form, with one context and with four."""
    demand = demand_of((2, 2), contexts=2, are_resolutions=True)
    points = []
    for form in forms(demand, 1):
        for count in (1, 4):
            layout = Layout((ContextGroup(1, form, spread(count, range(3), 3)),))
            steady = Prediction({"weights": 7}, 9, Figure(5.0, 0.0), None, Figure(3.0, 0.0), None)
            points.append(Candidate(layout, steady))
    study = Study(demand, computes=False)
    study.add(
        [stored.result(tmp_path, "no_reuse", stored.even(1), npu=stored.npu_account)], tmp_path
    )
    first = points[0]
    return stored_answer(
        study, Wish(limit_bytes=9), Answer(first, first, first, tuple(points), tuple(points), None)
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_form_has_words_of_its_own(answer: FitAnswer, language: str) -> None:
    """Descriptions of four contexts all differ; a single one has nothing to share."""
    told = []
    for point in answer.frontier:
        (group,) = point.layout
        if point.contexts == 4:
            told.append(" ".join(words(message, language) for message in group.words))
    assert len(set(told)) == len(told)


def test_the_limit_is_of_the_peak(answer: FitAnswer) -> None:
    """The limit applies to the peak while contexts are made; the answer has both figures."""
    assert (answer.predicted_npu_memory_bytes, answer.predicted_npu_peak_bytes) == (7, 9)
    assert answer.fits


def test_a_measurement_beyond_the_limit_does_not_fit(answer: FitAnswer, tmp_path: Path) -> None:
    """A layout that is predicted to fit, and took more when it was measured."""
    measured = stored.result(tmp_path, "no_reuse", stored.even(1), npu=stored.npu_account)
    verified = with_measured(answer, measured)
    took_bytes = verified.measured_npu_peak_bytes
    assert took_bytes is not None
    assert (took_bytes > 9, answer.fits, verified.fits) == (True, True, False)
    text = "\n".join(answer_lines(verified, "board"))
    assert f"does not fit, it took {mib_text(took_bytes)} when it was measured" in text
    within = with_measured(structs.replace(answer, limit_bytes=took_bytes), measured)
    assert within.fits
    assert ": fits, " in "\n".join(answer_lines(within, "board"))


def test_frames_beside_other_work_are_marked(answer: FitAnswer) -> None:
    """The answer says that they are not to be relied on, and that --fps was not considered."""
    assert answer.best is not None
    point = structs.replace(answer.best, frames_per_s=30.0)
    quiet = structs.replace(answer, today=point, best=point, frontier=(point,), fps=9.0)
    busy = structs.replace(quiet, busy_percent=35.0)
    mark = "other work took 35 % of this machine: do not rely on the frames"
    assert mark not in "\n".join(answer_lines(quiet, "board"))
    text = "\n".join(answer_lines(busy, "board"))
    assert f"{mark}; no layout was refused for them, and --fps was not considered" in text
    for language in LANGUAGES:
        texts = texts_of(language)
        said = [*fit_sentences(quiet, texts), texts("fit_busy", percent="35")]
        assert sorted(fit_sentences(busy, texts)) == sorted(said)


def test_an_answer_is_read_as_it_was_stored(answer: FitAnswer, tmp_path: Path) -> None:
    """The newest answer of a runtime and target replaces the former one."""
    for _ in range(2):
        write_answer(tmp_path, answer)
    assert list(read_answers(tmp_path)) == [answer]


def test_plans_that_were_measured_while_memory_was_short(answer: FitAnswer, tmp_path: Path) -> None:
    """Plans with a shortage are named, also that of --verify; NPU memory is exact all the same."""
    short = stored.with_short_memory(stored.result(tmp_path, "no_reuse", stored.even(1)))
    exact = stored.with_short_memory(
        stored.result(tmp_path, "full_dup", stored.even(1), npu=stored.npu_account)
    )
    study = Study(demand_of((2, 2)), computes=False)
    study.add([short, exact], tmp_path)
    assert [one.plan for one in study.short] == ["no_reuse"]
    assert answer.short == ()
    verified = with_measured(answer, short)
    assert [(one.plan, [sign.code for sign in one.signs]) for one in verified.short] == [
        ("no_reuse", ["shortage_evicted"])
    ]
    write_answer(tmp_path, verified)
    assert list(read_answers(tmp_path)) == [verified]
    for language in LANGUAGES:
        assert "no_reuse" in fit_sentences(verified, texts_of(language))[-1]


def test_what_a_patch_would_save_is_no_layout(answer: FitAnswer) -> None:
    """The lines say that it does not exist, and what one open file costs."""
    assert "With a patch" not in "\n".join(answer_lines(answer, "board"))
    assert answer.best is not None
    best = structs.replace(answer.best, contexts=12, bytes=12 * 2**20)
    patches = (
        FitPatch("Mesa", 3, 6 * 2**20, {"weights": 6 * 2**20}),
        FitPatch("Mesa", 1, 5 * 2**20, {"weights": 5 * 2**20}),
    )
    text = "\n".join(answer_lines(structs.replace(answer, best=best, patches=patches), "board"))
    assert "no layout that exists: if Mesa shared weights and biases among 12 contexts" in text
    assert "6.00 MiB with 3 open files: up to 3 at once, 6.00 MiB less" in text
    assert "5.00 MiB with one open file: one infers at a time, 7.00 MiB less" in text


def test_what_can_be_applied_is_told_if_there_is_any(answer: FitAnswer) -> None:
    """The layout for a program that nobody changes has a line of its own."""
    assert "in a program that nobody changes" not in "\n".join(answer_lines(answer, "board"))
    applied = structs.replace(answer, applied=answer.frontier[3])
    assert "in a program that nobody changes" in "\n".join(answer_lines(applied, "board"))
