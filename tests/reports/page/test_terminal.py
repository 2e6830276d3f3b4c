from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import read_material
from reusebench.reports.page.terminal import MOST_LINES, print_answer, print_group
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.section import Page
from tests.reports.results.test_runtime_comparison import of_runtime
from tests.reports.sections.test_leaks import cycles_result
from tests.reports.stored import (
    MODELS,
    NOT_SUPPORTED,
    dup,
    even,
    first_look,
    full_run,
    group_of,
    groups_of,
    npu_run,
    result,
    write_run,
)
from tests.reports.stored_streams import published_run


def printed(group: Group, width: int = 80, is_terminal: bool = True) -> str:
    """Return the details on a terminal of 80 characters."""
    console = Console(file=io.StringIO(), width=width, force_terminal=is_terminal, no_color=True)
    print_group(group, "here", texts_of("en"), console)
    return _without_codes(console)


def answered(storage: Path, language: str = "en") -> list[str]:
    """Return the lines of the answer in a terminal of 80 characters."""
    console = Console(file=io.StringIO(), width=80, markup=False, emoji=False)
    print_answer(Page(read_material([storage], None), texts_of(language)), console)
    return _without_codes(console).splitlines()


def _without_codes(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_answer_has_ten_lines(tmp_path: Path, language: str) -> None:
    """Whatever was asked, ten lines of 80 characters say what is enough, and where the rest is."""
    full_run(tmp_path)
    published_run(tmp_path, 2)
    write_run(tmp_path, [cycles_result(tmp_path)], 3)
    npu_run(tmp_path, 4)
    lines = answered(tmp_path, language)
    assert len(lines) <= MOST_LINES
    assert all(cell_len(line.rstrip()) <= 80 for line in lines)
    assert "180.0 " in lines[1]
    if language == "en":
        assert texts_of(language)("terminal_more") == lines[-1]


def test_a_short_answer_is_whole(tmp_path: Path) -> None:
    """What fits needs no hint at the rest: every question has its line."""
    infos = [result(tmp_path, "no_reuse_one_model", even(40)), cycles_result(tmp_path)]
    write_run(tmp_path, infos)
    lines = answered(tmp_path)
    assert any(line.startswith("Leaks: no leak was found") for line in lines)
    assert texts_of("en")("terminal_more") not in lines


def test_of_several_runtimes_the_best_two_have_a_line(tmp_path: Path) -> None:
    """The contexts stand above them, and the layout of the best below."""
    for number, (runtime, further) in enumerate(
        (("onnxruntime", 10), ("ncnn", 5), ("mnn", 20)), start=1
    ):
        of_runtime(tmp_path, runtime, number, further)
    lines = answered(tmp_path)
    assert lines[0].startswith("12 contexts of net-224 need the least")
    named = [line for line in lines if line.startswith("- ")]
    assert named == [
        "- ncnn 1.2.3: 125.0 instead of 510.0 MiB (-75.5 %), as fast",
        "- ONNX Runtime 1.2.3: 180.0 instead of 510.0 MiB (-64.7 %), as fast",
    ]
    assert "How: dup further contexts." in lines


def test_every_model_of_a_run_is_in_the_answer(tmp_path: Path) -> None:
    """If one set of contexts has some of the models alone, another answer has the others."""
    infos = [
        result(tmp_path, "no_reuse", even(40), models=MODELS[:2]),
        result(tmp_path, "partial_dup", even(20), models=MODELS[:2]),
        result(tmp_path, "no_reuse_one_model", even(40), models=MODELS[:2]),
        result(tmp_path, "full_dup", dup(40, 10), models=MODELS[:2]),
    ]
    write_run(tmp_path, infos)
    told = " ".join(answered(tmp_path))
    assert "12 contexts of model-a need 510.0" in told
    assert "12 contexts of model-a, model-b need 510.0" in told


@pytest.mark.parametrize("computes", [False, True])
def test_npu_memory_fits_a_terminal(tmp_path: Path, computes: bool) -> None:
    """Every scenario has NPU memory and its saving in the first line; no figure is cut."""
    npu_run(tmp_path, computes=computes)
    text = printed(groups_of(tmp_path)[0])
    line = next(line for line in text.splitlines() if line.startswith("Lean "))
    assert " 34.00 86.00  71.7 " in line
    assert "…" not in text
    assert ("latency" in text) == computes
    assert ("Virtual board" in text) != computes


def test_a_narrow_terminal_has_fewer_columns(full_group: Group) -> None:
    """Columns are left out from the end, and no figure is cut; a file has all of them."""
    heads = [
        printed(full_group, *options).splitlines()[1].split()
        for options in ((50, True), (80, True), (20, False))
    ]
    every = ["application", "saved", "latency", "rate", "saved", "system"]
    assert heads[0] == every[: len(heads[0])]
    assert 1 <= len(heads[0]) < len(heads[1])
    assert heads[2] == every
    for width in (30, 50, 80):
        assert "…" not in printed(full_group, width)


def test_what_was_not_measured_is_said_below_the_table(tmp_path: Path) -> None:
    """A scenario without figures has a sentence in place of a row."""
    names = ("external_memory", "external_mmz")
    infos = [result(tmp_path, name, [], failure=NOT_SUPPORTED) for name in names]
    infos.append(
        result(tmp_path, "internal_reuse_last_first", even(30, spread=1), models=MODELS[:2])
    )
    infos.append(result(tmp_path, "in_turn", even(130, spread=1), models=MODELS[:2]))
    text = printed(group_of(tmp_path, *infos))
    assert not any(f"[{name}]" in text for name in names)
    assert "Not supported here: All outside (create_mem); All outside (MMZ)." in text
    assert "…" not in text


def test_equal_scenarios_have_one_line(tmp_path: Path) -> None:
    """The table has each measurement once, with the names of all its scenarios."""
    text = printed(group_of(tmp_path, *first_look(tmp_path)), 200, is_terminal=False)
    names = re.findall(r"^(.*) \[(\w+)\]", text, re.MULTILINE)
    assert names == [
        ("No reuse, one model = Plain", "no_reuse_one_model"),
        ("Full dup = Lean, step 1: weights shared", "full_dup"),
        (
            "Full dup, internal reuse = Lean, step 2: and one internal memory per core",
            "full_dup_internal_reuse",
        ),
        ("Lean", "lean"),
    ]
    assert text.count("- Step by step: ") == 1


def test_models_that_serve_several_streams_are_in_the_title(tmp_path: Path) -> None:
    """Fewer files than streams are said above the table."""
    group = group_of(tmp_path, result(tmp_path, "no_reuse", even(40), models=MODELS[:2]))
    assert "2 model files in turn" in printed(group)
