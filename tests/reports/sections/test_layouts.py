"""The words for layouts, their table and their figure."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.labels import labels_of
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.layouts import (
    layout_in_words,
    layouts_figure,
)
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.storage.result import Result
from tests.reports.stored import (
    NOT_SUPPORTED,
    changed,
    dup,
    even,
    group_of,
    groups_of,
    npu_account,
    npu_run,
    result,
    row_of,
    write_run,
)

ENGLISH = texts_of("en")
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


def words(storage: Path, *infos: Result) -> str:
    return layout_in_words(group_of(storage, *infos).rows[-1], ENGLISH)


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        ("full_dup", "dup further contexts"),
        ("shared_context", "run one context from all threads"),
        ("weight_memory", "give all contexts one memory with the weights"),
        ("external_weights", "allocate the weights in the application"),
        ("zero_copy_output", "use the output in place"),
        ("native_io", "use the input in place; take the output as the NPU writes it"),
        (
            "full_dup_internal_reuse",
            "dup further contexts; one internal memory for contexts that run in turn",
        ),
    ],
)
def test_a_layout_in_words(tmp_path: Path, scenario: str, told: str) -> None:
    """The words list each thing that the plan does."""
    assert words(tmp_path, result(tmp_path, scenario, even(3))) == told


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_layout_that_reuses_has_words(
    npu_group: Group, streams_group: Group, language: str
) -> None:
    """Every language has words for it; a layout without reuse has none."""
    baselines = {scenario.name for scenario in SCENARIOS if not scenario.baseline}
    for group in (npu_group, streams_group):
        for row in group.rows:
            if row.info.plan.cycles is None:
                assert bool(layout_in_words(row, texts_of(language))) == (
                    row.scenario not in baselines
                ), row.scenario


def test_fewer_contexts_are_said(streams_group: Group) -> None:
    """The words tell that a layout has fewer contexts than its baseline."""
    told = layout_in_words(row_of(streams_group, "streams_full_dup_per_core"), ENGLISH)
    assert told.startswith("make 2 contexts instead of 12; dup further contexts")


def test_an_internal_memory_of_one_context_is_not_shared(tmp_path: Path) -> None:
    """Only a memory of several contexts is called shared."""
    info = result(tmp_path, "internal_reuse", even(3))
    memory = msgspec.structs.replace(info.memory, context_memory_bytes=())
    one = changed(
        info, plan=replace(info.plan, contexts=info.plan.contexts[:1]), memory=memory, copies=None
    )
    assert words(tmp_path, one) == ""


def two_runtimes(storage: Path) -> list[Group]:
    infos = [
        result(storage, "no_reuse", even(40, spread=0.5)),
        result(storage, "partial_dup", even(39.9, spread=0.5)),
        result(storage, "no_reuse_one_model", even(40)),
        result(storage, "full_dup", dup(40, 10)),
        result(storage, "zero_copy_input", even(39.5)),
        result(storage, "shared_context", [], failure=NOT_SUPPORTED),
    ]
    write_run(storage, infos, 1)
    names = ("no_reuse_one_model", "full_dup")
    write_run(
        storage,
        [result(storage, name, even(3), npu=npu_account, computes=False) for name in names],
        2,
    )
    return groups_of(storage)


def test_the_figure_has_what_saves(tmp_path: Path) -> None:
    """Each runtime has a panel, from the layout without reuse to the least that saves enough."""
    groups = two_runtimes(tmp_path)
    svg = layouts_figure(groups, labels_of(groups, ENGLISH), ENGLISH)
    assert svg is not None
    shown = TEXT.findall(svg)
    assert [shown.count(text) for text in ("Without reuse", "Full dup", "180.0", "54.00")] == [
        2,
        2,
        1,
        1,
    ]
    assert not {"Shared context", "Zero-copy input"} & set(shown)
    titles = [text for text in shown if " memory, model-" in text]
    assert sorted(titles) == [
        "ONNX Runtime 1.2.3: application memory, model-a",
        "RKNN 1.6.0 on the virtual board rk3588: NPU memory, model-a",
    ]


def test_bars_become_shorter(tmp_path: Path) -> None:
    """The least layout is the last of the panel, and it alone has its colour."""
    npu_run(tmp_path)
    groups = groups_of(tmp_path)
    svg = layouts_figure(groups, ["here"], ENGLISH) or ""
    sizes = [float(text) for text in TEXT.findall(svg) if re.fullmatch(r"\d+\.\d\d", text)]
    # A second panel begins with the same contexts of other models, without reuse.
    sizes = sizes[: sizes.index(sizes[0], 1)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 3
    bars = re.findall(r' d="M[^"]+"[^>]*clip-path[^>]*style="fill: (#\w{6})"', svg)
    assert bars.index(bars[-1]) == len(sizes) - 1


def test_nothing_to_draw_without_a_saving(tmp_path: Path) -> None:
    """Baselines alone give no figure."""
    group = group_of(tmp_path, result(tmp_path, "no_reuse", even(40)))
    assert layouts_figure([group], ["here"], ENGLISH) is None
