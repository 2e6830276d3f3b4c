"""The section of code: the program of each group's smallest layout, or why there is none."""

from __future__ import annotations

import dataclasses
from html import unescape
from pathlib import Path

import pytest

from reusebench.measured.plan import MMZ
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.sections.code import code_blocks
from reusebench.snippets import snippet_of
from reusebench.storage.result import Result
from tests.reports.pages import page, section, sections
from tests.reports.stored import changed, dup, even, group_of, groups_of, npu_run, result, write_run

ENGLISH = texts_of("en")


def _infos(storage: Path) -> list[Result]:
    return [
        result(storage, "no_reuse_one_model", even(40)),
        result(storage, "full_dup", dup(40, 10)),
        result(storage, "full_dup_internal_reuse", dup(40, 5)),
    ]


def test_the_program_is_that_of_the_smallest_layout(tmp_path: Path) -> None:
    """The program is made from the stored plan."""
    infos = _infos(tmp_path)
    (block,) = code_blocks([group_of(tmp_path, *infos)], ["the group"], ENGLISH)
    assert block.title == "the group: Full dup, internal reuse, in Python"
    assert block.text == snippet_of(infos[-1].plan).text


def test_a_layout_with_other_outputs_is_not_shown(tmp_path: Path) -> None:
    """A layout with other outputs or one that failed is skipped: the next one is shown."""
    infos = _infos(tmp_path)
    infos[-1] = changed(
        infos[-1], output_digests=dict.fromkeys(infos[-1].output_digests, ("0bad",))
    )
    (block,) = code_blocks([group_of(tmp_path, *infos)], ["the group"], ENGLISH)
    assert block.title == "the group: Full dup, in Python"


def test_without_a_saving_there_is_nothing_to_write(tmp_path: Path) -> None:
    """The page has no such section then."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", even(40)),
    ]
    assert code_blocks([group_of(tmp_path, *infos)], ["the group"], ENGLISH) == []
    write_run(tmp_path, infos)
    assert "code" not in sections(page(tmp_path, tmp_path / "out"))


def test_the_program_in_c_is_for_the_chip(tmp_path: Path) -> None:
    """The program links the library of the result's chip."""
    npu_run(tmp_path)
    (group,) = groups_of(tmp_path)
    block = code_blocks([group], ["RKNN"], ENGLISH)[0]
    assert block.title.endswith(", in C")
    assert "-lrknnrt" in (block.text or "")


@pytest.mark.parametrize("language", LANGUAGES)
def test_why_there_is_no_program(tmp_path: Path, language: str) -> None:
    """The reason is in the language of the page."""
    infos = _infos(tmp_path)
    plan = infos[-1].plan
    contexts = tuple(dataclasses.replace(context, allocator=MMZ) for context in plan.contexts)
    infos[-1] = changed(infos[-1], plan=dataclasses.replace(plan, contexts=contexts))
    texts = texts_of(language)
    (block,) = code_blocks([group_of(tmp_path, *infos)], ["ORT"], texts)
    reason = {"en": "ONNX Runtime takes any memory", "zh-CN": "ONNX Runtime 接受任何内存"}[language]
    assert block.text is None
    assert reason[:12] in block.title
    assert block.title.startswith("ORT")


def test_the_page_has_it_folded_behind_the_answer(tmp_path: Path) -> None:
    """The program stands there as it is, so that it can be copied."""
    infos = _infos(tmp_path)
    write_run(tmp_path, infos)
    html = page(tmp_path, tmp_path / "out")
    shown = section(html, "answer")
    assert "<details>" in shown
    assert snippet_of(infos[-1].plan).text in unescape(shown)
