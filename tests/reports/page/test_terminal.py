from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from reusebench.reports.base.texts import texts_of
from reusebench.reports.page.terminal import print_group
from reusebench.reports.results.rows import Group
from tests.reports.stored import (
    MODELS,
    NOT_SUPPORTED,
    even,
    first_look,
    group_of,
    groups_of,
    npu_run,
    result,
)


def printed(group: Group) -> str:
    """Return the output on a terminal of 80 characters."""
    console = Console(file=io.StringIO(), width=80)
    print_group(group, texts_of("en"), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("computes", [False, True])
def test_npu_memory_fits_a_terminal(tmp_path: Path, computes: bool) -> None:
    """Every scenario has one line of 80 characters with NPU memory and its saving."""
    npu_run(tmp_path, computes=computes)
    text = printed(groups_of(tmp_path)[0])
    line = next(line for line in text.splitlines() if line.startswith("full_dup_internal_reuse"))
    assert line.split()[1:5] == ["34.00", "86.00", "71.7", "1,110.0"]
    assert "…" not in text
    assert ("latency" in text) == computes
    assert ("Virtual board" in text) != computes


def test_application_memory_and_speed_elsewhere(full_group: Group) -> None:
    """Without an NPU the table has application memory, latency and rate."""
    heads = printed(full_group).splitlines()[1].split()
    assert heads == ["application", "saved", "saved", "system", "latency", "rate"]


def test_what_was_not_measured_is_said_below_the_table(tmp_path: Path) -> None:
    """A scenario without figures has a sentence in place of a row."""
    names = ("external_memory", "external_mmz")
    infos = [result(tmp_path, name, [], failure=NOT_SUPPORTED) for name in names]
    infos.append(
        result(tmp_path, "internal_reuse_last_first", even(30, spread=1), models=MODELS[:2])
    )
    infos.append(result(tmp_path, "in_turn", even(130, spread=1), models=MODELS[:2]))
    text = printed(group_of(tmp_path, *infos))
    assert not any(line.startswith(names) for line in text.splitlines())
    assert "Not supported here: All outside (create_mem); All outside (MMZ)." in text
    assert "…" not in text


def test_equal_scenarios_have_one_line(tmp_path: Path) -> None:
    """The table has each measurement once, and a sentence names its scenarios."""
    text = printed(group_of(tmp_path, *first_look(tmp_path)))
    first_words = [line.split()[0] for line in text.splitlines() if line.strip()]
    names = ["no_reuse_one_model", "full_dup", "full_dup_internal_reuse", "lean"]
    assert [word for word in first_words if "_" in word or word == "lean"] == names
    assert (
        "- Equal plans, measured once: No reuse, one model = Plain; Full dup = Lean, step" in text
    )
    assert text.count("- Step by step: ") == 1


def test_models_that_serve_several_streams_are_in_the_title(tmp_path: Path) -> None:
    """Fewer files than streams are said above the table."""
    group = group_of(tmp_path, result(tmp_path, "no_reuse", even(40), models=MODELS[:2]))
    assert "2 model files in turn" in printed(group)
