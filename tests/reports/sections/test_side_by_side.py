"""The section of two software stacks on one chip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.side_by_side.figure import side_by_side_figure
from reusebench.reports.side_by_side.sentences import not_comparable, pair_sentences
from reusebench.reports.side_by_side.stacks import SideBySide, side_by_side
from tests.reports.pages import page, readable, section, sections
from tests.reports.stored import groups_of, write_run
from tests.reports.stored_stacks import (
    LAYOUTS,
    RKNN_MODEL,
    TEFLON_MODEL,
    both_stacks,
    rknn_results,
    teflon_results,
)

ENGLISH = texts_of("en")


def pair_of(storage: Path) -> SideBySide:
    (pair,) = side_by_side(groups_of(storage))
    return pair


def test_what_each_stack_takes_and_why(tmp_path: Path) -> None:
    """One context, a further one, lean against lean by component, and what a patch would save."""
    both_stacks(tmp_path)
    contexts, layouts, difference, *rest = pair_sentences(pair_of(tmp_path), ENGLISH)
    assert contexts == (
        "net-224, NPU memory: with RKNN one context takes 10.00 MiB, each further one without"
        " reuse 10.00 MiB; with Teflon one context takes 14.00 MiB, each further one without reuse"
        " 14.00 MiB."
    )
    assert "RKNN 54.00 MiB for 12 contexts (Full dup); Teflon 14.00 MiB for 12" in layouts
    assert difference.startswith(
        "There Teflon takes 40.00 MiB less than RKNN, by component: internal tensors -22.00 MiB;"
        " register commands -11.00 MiB; input and output -9.25 MiB; weights +2.00 MiB"
    )
    assert rest == [
        "RKNN's leanest layout shares between contexts: weights.",
        ENGLISH(
            "side_waits",
            runtime="Teflon",
            contexts=12,
            size="168.00",
            scenario=ENGLISH.scenario("no_reuse_one_model"),
        ),
        ENGLISH(
            "side_patch",
            runtime="Teflon",
            contexts=12,
            before="168.00",
            after="69.00",
            saved="99.00",
            percent="58.9",
        ),
    ]


def test_a_stack_without_a_leaner_layout_shares_nothing(tmp_path: Path) -> None:
    """Its leanest layout is the one without reuse, and the figure has it once."""
    write_run(tmp_path, rknn_results(tmp_path), 1)
    write_run(tmp_path, teflon_results(tmp_path, layouts=LAYOUTS[:2]), 2)
    pair = pair_of(tmp_path)
    assert ENGLISH("side_shares_nothing", runtime="Teflon") in pair_sentences(pair, ENGLISH)
    assert side_by_side_figure(pair, ENGLISH).count(f">{ENGLISH('side_lane_least')}<") == 1


def test_what_is_not_comparable_is_said(tmp_path: Path) -> None:
    """Quantised apart, nothing computes, an emulator, and operators on the CPU."""
    both_stacks(tmp_path)
    sentences = not_comparable(pair_of(tmp_path), ENGLISH)
    assert [sentence.partition(" (")[0] for sentence in sentences] == [
        "The two files were quantised in different ways",
        "No speed: nothing computes on a virtual board",
        "Application memory contains the emulator and its translation of the code",
        "Without any context a process takes: RKNN 30.0 MiB; Teflon 30.0 MiB",
        ENGLISH("side_memories_rknn", runtime="RKNN"),
        ENGLISH("side_memories_teflon", runtime="Teflon"),
        "With Teflon 1 of 13 operators run on the CPU: their weights and tensors are application"
        " memory, not NPU memory.",
    ]


def test_other_counts_of_contexts_are_not_compared(tmp_path: Path) -> None:
    """The leanest layouts have no difference then; names alone make one network of two files."""
    other = replace(TEFLON_MODEL, name="net", origin=None)
    given = replace(RKNN_MODEL, name="net", origin=None)
    write_run(tmp_path, rknn_results(tmp_path, given, contexts=1), 1)
    write_run(tmp_path, teflon_results(tmp_path, other, placement=None), 2)
    pair = pair_of(tmp_path)
    assert not any(words.startswith("There Teflon") for words in pair_sentences(pair, ENGLISH))
    sentences = not_comparable(pair, ENGLISH)
    assert ENGLISH("side_other_contexts", first=4, second=12) in sentences
    assert ENGLISH("side_by_name", network="net") in sentences


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_both_tables(tmp_path: Path, language: str) -> None:
    """The section follows the answer; its tables have a row for each component and the total."""
    both_stacks(tmp_path)
    texts = texts_of(language)
    html = page(tmp_path, tmp_path / "out", language)
    assert sections(html)[:2] == ["answer", "side_by_side"]
    words = readable(section(html, "side_by_side"))
    weights = [line for line in words.splitlines() if line.startswith(texts("component_weights"))]
    assert [line.count("|") for line in weights] == [7, 6]
    assert words.count(texts("side_with_weights")) == 4
    assert words.count(f"\n{texts('component_total')} |") == 2


def test_one_stack_has_no_section(tmp_path: Path) -> None:
    """Runs of one runtime are compared with nothing."""
    write_run(tmp_path, teflon_results(tmp_path), 1)
    assert "side_by_side" not in sections(page(tmp_path, tmp_path / "out"))
