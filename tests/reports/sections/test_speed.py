from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.colours import looks_of
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.speed import (
    SPEED_COLUMNS,
    SPEED_VERDICTS,
    speed_comparisons,
    speed_figure,
    speed_records,
    speed_sentences,
    speed_table,
)
from reusebench.scenarios.catalogue import SCENARIOS, suits
from reusebench.storage.result import Result
from tests.reports.stored import (
    dup,
    even,
    group_of,
    groups_of,
    npu_account,
    npu_run,
    result,
    with_speed,
    write_run,
)

ENGLISH = texts_of("en")
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


def timed(
    storage: Path, scenario: str, per_s: Sequence[float], costs: Any = None, **options: Any
) -> Result:
    """Return a result with this throughput in each repeat; by default 40 MiB per context."""
    info = result(
        storage, scenario, even(40, repeats=len(per_s)) if costs is None else costs, **options
    )
    return with_speed(info, throughput_per_s=per_s)


def group_with(storage: Path, per_s: Sequence[float], costs: Any = None) -> Group:
    """Return a group of full dup with this throughput, and its baseline with 99, 100 and 101 per
    second.
    """
    baseline = timed(storage, "no_reuse_one_model", (99, 100, 101)[: len(per_s)])
    return group_of(storage, baseline, timed(storage, "full_dup", per_s, costs))


def test_change_is_in_percent_of_the_baseline(tmp_path: Path) -> None:
    """80 per second of 100 is 20 % less; the relative spreads of 1 % and 2.5 % add, of the quotient
    of 80 %.
    """
    (comparison,) = speed_comparisons(group_with(tmp_path, (78, 80, 82), dup(40, 10)))
    assert comparison.speed.change_percent.median == pytest.approx(-20)
    assert comparison.speed.change_percent.spread == pytest.approx(80 * (0.01 + 0.025))
    assert comparison.saved_percent.median == pytest.approx(100 * 330 / 510)


@pytest.mark.parametrize(
    ("per_s", "costs", "verdict"),
    [
        ((78, 80, 82), dup(40, 10), "saves_slower"),
        ((98, 99, 100), dup(40, 10), "saves_as_fast"),
        ((118, 120, 122), dup(40, 10), "saves_faster"),
        ((78, 80, 82), None, "same_slower"),
        ((98, 99, 100), None, "same_as_fast"),
        ((118, 120, 122), None, "same_faster"),
        ((78, 80, 82), even(50), "takes_more_slower"),
        ((98, 99, 100), even(50), "takes_more_as_fast"),
        ((118, 120, 122), even(50), "takes_more_faster"),
        ((80,), dup(40, 10, repeats=1), "one_repeat"),
    ],
)
def test_verdict(tmp_path: Path, per_s: Sequence[float], costs: Any, verdict: str) -> None:
    """A difference smaller than its spread is none, and a single repeat has no verdict."""
    group = group_with(tmp_path, per_s, costs)
    assert verdict in SPEED_VERDICTS
    assert [one.verdict for one in speed_comparisons(group)] == [verdict]
    table = speed_table(group, ENGLISH)
    assert table is not None
    assert [cells[-1] for _, cells in table.rows] == [ENGLISH(f"speed_verdict_{verdict}")]


@pytest.mark.parametrize("busy", ["no_reuse_one_model", "full_dup"])
def test_other_work_leaves_speed_unjudged(tmp_path: Path, busy: str) -> None:
    """A scenario has no verdict if the machine was busy before it or its baseline."""
    per_s = {"no_reuse_one_model": (99, 100, 101), "full_dup": (49, 50, 51)}
    infos = [
        timed(tmp_path, name, rates, dup(40, 10), idle_cpu_percent=60.0 if name == busy else 1.0)
        for name, rates in per_s.items()
    ]
    write_run(tmp_path, infos)
    group = groups_of(tmp_path)[0]
    (comparison,) = speed_comparisons(group)
    assert (comparison.verdict, comparison.costs_frames, comparison.saves) == (
        "disturbed",
        False,
        False,
    )
    assert speed_sentences(group, ENGLISH) == [ENGLISH("speed_disturbed", scenarios="Full dup")]


def test_saving_within_the_spread_is_none(tmp_path: Path) -> None:
    """12 MiB less are no saving if repeats differ by more."""
    (comparison,) = speed_comparisons(group_with(tmp_path, (98, 99, 100), even(39, spread=2)))
    assert comparison.saving.saved.median > 0
    assert comparison.verdict == "same_as_fast"


def test_npu_memory_is_weighed_where_there_is_some(tmp_path: Path) -> None:
    """On a board NPU memory is compared: 11 of 12 times the weights are saved, of 120 MiB."""
    names = ("no_reuse_one_model", "full_dup")
    write_run(tmp_path, [timed(tmp_path, name, (99, 100, 101), npu=npu_account) for name in names])
    (comparison,) = speed_comparisons(groups_of(tmp_path)[0])
    assert comparison.saved_percent.median == pytest.approx(100 * 66 / 120)
    assert comparison.verdict == "saves_as_fast"


def test_table_shows_both_sides(tmp_path: Path) -> None:
    """Memory saved and the changes of speed, each with its spread."""
    table = speed_table(group_with(tmp_path, (78, 80, 82), dup(40, 10)), ENGLISH)
    assert table is not None
    ((_, cells),) = table.rows
    assert list(cells[:4]) == [
        "Full dup",
        "64.7 \u00b10.0",
        "-20.0 \u00b12.8",
        "0.0 \u00b10.0",
    ]
    assert len(cells) == len(table.heads)


def test_sentence_names_what_costs_frames_and_by_how_much(tmp_path: Path) -> None:
    """A saving that is slower is named with the loss; one that is faster in a sentence of its
    own.
    """
    infos = [
        timed(tmp_path, "no_reuse_one_model", (99, 100, 101)),
        timed(tmp_path, "full_dup", (78, 80, 82), dup(40, 10)),
        timed(tmp_path, "shared_context", (118, 120, 122), dup(40, 1)),
        timed(tmp_path, "full_dup_internal_reuse", (99, 100, 101), dup(40, 5)),
    ]
    write_run(tmp_path, infos)
    costs, faster = speed_sentences(groups_of(tmp_path)[0], ENGLISH)
    assert costs == ENGLISH("speed_costs", scenarios="Full dup 20.0 \u00b12.8 %")
    assert faster == ENGLISH("speed_faster", scenarios="Shared context 20.0 \u00b13.2 %")


@pytest.mark.parametrize(
    ("per_s", "costs", "sentence"),
    [
        ((98, 99, 100), dup(40, 10), ENGLISH("speed_costs_nothing", count=1, spread="2.0")),
        ((78, 80, 82), None, ENGLISH("speed_nothing_saved")),
        ((80,), dup(40, 10, repeats=1), ENGLISH("speed_one_repeat")),
    ],
)
def test_sentence_where_no_saving_costs_frames(
    tmp_path: Path, per_s: Sequence[float], costs: Any, sentence: str
) -> None:
    """A sentence tells that none does, that nothing is saved, or that it is not known."""
    assert speed_sentences(group_with(tmp_path, per_s, costs), ENGLISH) == [sentence]


def test_every_point_has_its_own_look(tmp_path: Path) -> None:
    """No two points of all scenarios look the same; variants and baselines have none."""
    networks = [one for one in SCENARIOS if suits(one.name, has_conversations=False)]
    group = group_of(tmp_path, *(result(tmp_path, one.name, even(3)) for one in networks))
    compared = [one.name for one in networks if one.baseline and not one.is_variant]
    looks = looks_of([one.row.scenario for one in speed_comparisons(group)])
    assert len({(look["color"], look["marker"]) for look in looks}) == len(looks) == len(compared)
    assert len({look["marker"] for look in looks[:12]}) == 12
    svg = speed_figure(group, ENGLISH)
    assert svg is not None
    words = TEXT.findall(svg)
    assert [words.count(ENGLISH.scenario(name)) for name in compared] == [1] * len(compared)
    assert {ENGLISH("axis_throughput_percent"), ENGLISH("axis_memory_saved_percent")} <= set(words)
    assert ENGLISH.scenario("no_reuse") not in words


def test_a_disturbed_measurement_leaves_room_for_the_others(tmp_path: Path) -> None:
    """A point at ten times the baseline is drawn at the end of the axis, at half as fast again."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    infos[1] = with_speed(infos[1], throughput_per_s=[240.0] * 3)
    svg = speed_figure(group_of(tmp_path, *infos), ENGLISH)
    assert svg is not None
    assert (
        140
        <= max(float(text) for text in TEXT.findall(svg) if text.replace(".", "").isdigit())
        <= 150
    )


def test_nothing_is_said_where_nothing_computes(tmp_path: Path) -> None:
    """The virtual board has no speed: no table, no sentences, no rows to export."""
    npu_run(tmp_path, computes=False)
    (group,) = groups_of(tmp_path)
    assert (speed_table(group, ENGLISH), speed_figure(group, ENGLISH)) == (None, None)
    assert speed_sentences(group, ENGLISH) == []
    assert [speed_records(row) for row in group.rows if speed_records(row)] == []


def test_a_scenario_without_its_baseline_is_not_weighed(full_group: Group) -> None:
    """Only scenarios with figures of their own and of a baseline are compared."""
    assert [one.row.scenario for one in speed_comparisons(full_group)] == [
        "partial_dup",
        "full_dup",
    ]


def test_exported_row_has_the_columns(tmp_path: Path) -> None:
    """A baseline has no row; the other has its figures as numbers and the verdict as a name."""
    group = group_with(tmp_path, (78, 80, 82), dup(40, 10))
    baseline, (exported,) = map(speed_records, group.rows)
    assert baseline == []
    assert tuple(exported) == SPEED_COLUMNS
    assert tuple(exported.values()) == (64.706, 0, 80, 100, -20, 2.8, 0, 0, "saves_slower")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_verdict_has_words(language: str) -> None:
    """No verdict is without its text, and no text is of a verdict that there is not."""
    assert set(texts_of(language).starting_with("speed_verdict_")) == set(SPEED_VERDICTS)
