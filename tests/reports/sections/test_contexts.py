from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from reusebench.reports.base.texts import texts_of
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.sections.contexts import (
    FIT_COLUMNS,
    additional_costs,
    context_costs,
    contexts_figure,
    fit,
    fit_records,
    fit_table,
)
from reusebench.reports.sections.shared_weights import resolutions_figure
from tests.reports.sections.test_limit import limited
from tests.reports.stored import (
    FAILED,
    IMPORTED,
    MIB,
    MakeAccount,
    changed,
    dup,
    even,
    group_of,
    groups_of,
    npu_account,
    result,
    write_run,
)

ENGLISH = texts_of("en")
#: A dashed line, and a text, as SVG has them.
DASHED = re.compile(r"<path [^>]*stroke-dasharray[^>]*>")
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
RESOLUTIONS = ("resolutions_2", "shared_weights_2", "resolutions", "shared_weights")


def test_cost_of_each_context_and_slope(tmp_path: Path) -> None:
    """The first context costs 40 MiB, each dup 10, and the slope of a dup is that 10."""
    row = group_of(tmp_path, result(tmp_path, "full_dup", dup(40, 10))).rows[0]
    costs = context_costs(row)
    assert [cost.added.median / MIB for cost in costs] == [40] + [10] * 11
    (further,) = additional_costs(row)
    assert (further.mechanism, further.count, further.slope.median) == ("dup", 11, 10 * MIB)


def test_totals_meet_the_application_memory(tmp_path: Path) -> None:
    """The costs of all contexts add up to the application memory over the do-nothing baseline."""
    row = group_of(tmp_path, result(tmp_path, "no_reuse", even(7))).rows[0]
    whole = row.memory("application_memory_bytes")
    assert whole is not None
    assert context_costs(row)[-1].total.median == whole.median - IMPORTED


def test_partial_dup_has_a_slope_for_each_mechanism(tmp_path: Path) -> None:
    """Streams after the first load once and dup twice: both costs are told apart."""
    costs = [[40 * MIB, 10 * MIB, 10 * MIB] * 4] * 2
    write_run(tmp_path, [result(tmp_path, "partial_dup", costs)])
    further = {cost.mechanism: cost for cost in additional_costs(groups_of(tmp_path)[0].rows[0])}
    assert {name: (cost.count, cost.slope.median) for name, cost in further.items()} == {
        "dup": (8, 10 * MIB),
        "load": (3, 40 * MIB),
    }


def test_spread_is_over_repeats(tmp_path: Path) -> None:
    """Repeats of 39, 40 and 41 MiB per context give 40 with a spread of 1."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40, spread=1))])
    (further,) = additional_costs(groups_of(tmp_path)[0].rows[0])
    assert (further.slope.median, further.slope.spread) == (40 * MIB, MIB)


def test_npu_memory_of_a_further_context(tmp_path: Path) -> None:
    """A dup adds all but the weights: 4 of 10 MiB; without an account there is no figure."""
    write_run(tmp_path, [result(tmp_path, "full_dup", even(3), npu=npu_account)])
    write_run(tmp_path, [result(tmp_path, "full_dup", even(3))], number=2)
    with_account, without = (
        group.rows[0]
        for group in sorted(groups_of(tmp_path), key=lambda group: group.info.runtime, reverse=True)
    )
    (further,) = additional_costs(with_account)
    assert further.npu_slope is not None
    assert further.npu_slope.median == 4 * MIB
    assert additional_costs(without)[0].npu_slope is None
    assert contexts_figure([without], True, ENGLISH) is None


def test_line_of_dup_has_the_shared_weights_as_its_intercept(tmp_path: Path) -> None:
    """40 + 11 x 10 MiB have slope 10 and intercept 30; NPU memory has 4, and the weights' 6."""
    row = group_of(tmp_path, result(tmp_path, "full_dup", dup(40, 10), npu=npu_account)).rows[0]
    lines = fit(row, npu=False), fit(row, npu=True)
    assert [(line.slope.median / MIB, line.intercept.median / MIB) for line in lines if line] == [
        (10, 30),
        (4, 6),
    ]
    assert [line.largest_residual_bytes for line in lines if line] == pytest.approx([0, 0], abs=1)


def test_a_staircase_shows_in_the_residual(tmp_path: Path) -> None:
    """If streams load once and dup twice, points are many MiB off the line, less than a step."""
    write_run(tmp_path, [result(tmp_path, "partial_dup", [[40 * MIB, 10 * MIB, 10 * MIB] * 4] * 2)])
    line = fit(groups_of(tmp_path)[0].rows[0], npu=False)
    assert line is not None
    assert 10 * MIB < line.largest_residual_bytes < 30 * MIB


def test_line_is_fitted_within_each_repeat(tmp_path: Path) -> None:
    """Slopes of 39, 40 and 41 MiB are 40 ±1, all through zero; the spread is no residual."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40, spread=1))])
    line = fit(groups_of(tmp_path)[0].rows[0], npu=False)
    assert line is not None
    assert (line.slope.median, line.slope.spread) == pytest.approx((40 * MIB, MIB))
    assert (line.intercept.median, line.intercept.spread) == pytest.approx((0, 0), abs=1)
    assert line.largest_residual_bytes == pytest.approx(0, abs=1)


def test_no_line_through_different_models_nor_through_nothing(tmp_path: Path) -> None:
    """Contexts that each have a model of their own, and a configuration that failed, have no
    line.
    """
    infos = [result(tmp_path, "in_turn", even(3)), result(tmp_path, "full_dup", [], failure=FAILED)]
    write_run(tmp_path, infos)
    rows = groups_of(tmp_path)[0].rows
    assert [fit(row, npu=False) for row in rows] == [None, None]
    assert fit_table(rows, ENGLISH) is None
    assert [fit_records(row) for row in rows] == [[], []]


def test_table_of_lines_has_npu_memory_where_there_is_some(tmp_path: Path) -> None:
    """NPU memory stands before application memory, and nowhere in a run without it."""
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10))])
    table = fit_table(groups_of(tmp_path)[0].rows, ENGLISH)
    assert table is not None
    assert [list(cells) for _, cells in table.rows] == [
        ["Full dup", "10.0 \u00b10.0", "30.0 \u00b10.0", "0.0"]
    ]
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10), npu=npu_account)])
    table = fit_table(groups_of(tmp_path)[0].rows, ENGLISH)
    assert table is not None
    (cells,) = (list(cells) for _, cells in table.rows)
    assert cells[1:4] == ["4.00 \u00b10.00", "6.00 \u00b10.00", "0.00"]
    assert len(cells) == len(table.heads)


def test_exported_lines_are_whole_bytes(tmp_path: Path) -> None:
    """A row for each memory in the columns of the export; with a single repeat there is no
    spread.
    """
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10, repeats=1), npu=npu_account)])
    application, npu = fit_records(groups_of(tmp_path)[0].rows[0])
    assert tuple(application) == tuple(npu) == FIT_COLUMNS
    assert tuple(application.values()) == ("application", 10 * MIB, None, 30 * MIB, None, 0)
    assert tuple(npu.values()) == ("npu", 4 * MIB, None, 6 * MIB, None, 0)


def test_line_is_dashed_through_the_points(tmp_path: Path) -> None:
    """Each scenario has points and a dashed line in its colour, and its name in the legend; numbers
    are at the axes.
    """
    names = ("no_reuse", "full_dup")
    costs = dict(zip(names, (even(40), dup(40, 10))))
    rows = group_of(
        tmp_path, *(result(tmp_path, name, costs[name], npu=npu_account) for name in names)
    ).rows
    for npu, axis in ((False, "axis_over_baseline"), (True, "axis_npu_memory")):
        svg = contexts_figure(rows, npu, ENGLISH)
        assert svg is not None
        dashed = DASHED.findall(svg)
        assert [scenario_colour(name) in path for name, path in zip(names, dashed)] == [True, True]
        words = {text for text in TEXT.findall(svg) if not text.isdigit()}
        assert words == {ENGLISH("axis_contexts"), ENGLISH(axis), *map(ENGLISH.scenario, names)}


def test_points_of_different_models_are_joined(tmp_path: Path) -> None:
    """Without a fitted line no line is dashed."""
    svg = contexts_figure(
        group_of(tmp_path, result(tmp_path, "in_turn", even(3))).rows, False, ENGLISH
    )
    assert svg is not None
    assert DASHED.findall(svg) == []


def test_no_figure_without_figures(tmp_path: Path) -> None:
    """Nothing is drawn if all scenarios failed, or if NPU memory is not known."""
    rows = group_of(
        tmp_path,
        result(tmp_path, "no_reuse", [], failure=FAILED),
        result(tmp_path, "full_dup", dup(40, 10)),
    ).rows
    assert contexts_figure(rows[:1], False, ENGLISH) is None
    assert contexts_figure(rows[1:], True, ENGLISH) is None


@pytest.mark.parametrize(
    ("npu", "axis"), [(None, "axis_application_memory"), (npu_account, "axis_npu_memory")]
)
def test_resolutions_are_drawn_over_the_numbers_measured(
    tmp_path: Path, npu: MakeAccount | None, axis: str
) -> None:
    """The axis counts two and four resolutions; NPU memory is drawn if there is any."""
    rows = group_of(
        tmp_path, *(result(tmp_path, name, even(3), npu=npu) for name in RESOLUTIONS)
    ).rows
    svg = resolutions_figure(rows, ENGLISH)
    assert svg is not None
    words = set(TEXT.findall(svg))
    assert {ENGLISH("axis_resolutions"), ENGLISH(axis), "2", "4"} <= words
    assert {ENGLISH("line_resolutions"), ENGLISH("line_shared_weights")} <= words


def test_one_number_of_resolutions_is_no_figure(tmp_path: Path) -> None:
    """Nothing is drawn for one number of resolutions, or if the others failed."""
    infos = [result(tmp_path, name, even(3)) for name in RESOLUTIONS[2:]]
    rows = group_of(tmp_path, *infos, result(tmp_path, RESOLUTIONS[0], [], failure=FAILED)).rows
    assert resolutions_figure(rows, ENGLISH) is None


def test_figures_of_contexts_that_no_plan_has_are_not_shown(tmp_path: Path) -> None:
    """A plan that adds contexts until one fails may be stored with figures of another number."""
    info = limited(tmp_path, "limit_no_reuse", 4)
    memory = msgspec.structs.replace(info.memory, context_memory_bytes=((MIB,),))
    group = group_of(tmp_path, changed(info, memory=memory))
    (row,) = group.rows
    assert fit_records(row) == []
    assert context_costs(row) == []
    assert additional_costs(row) == []
