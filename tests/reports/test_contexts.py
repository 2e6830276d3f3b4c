from __future__ import annotations

from pathlib import Path

from reports.contexts import context_costs, further_costs, npu_totals
from tests.reports.stored import IMPORTED, MIB, dup, even, npu_account, result, write_run
from tests.reports.test_comparison import groups_of


def test_cost_of_each_context_and_slope(tmp_path: Path) -> None:
    """The first context costs 40 MiB, each dup 10, and the slope of a dup is that 10."""
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10))])
    row = groups_of(tmp_path)[0].rows[0]
    costs = context_costs(row)
    assert [cost.added.median / MIB for cost in costs] == [40] + [10] * 11
    (further,) = further_costs(row)
    assert (further.mechanism, further.count, further.slope.median) == ("dup", 11, 10 * MIB)


def test_totals_meet_the_application_memory(tmp_path: Path) -> None:
    """The costs of all contexts add up to the application memory over the do-nothing baseline."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(7))])
    row = groups_of(tmp_path)[0].rows[0]
    whole = row.memory("application_memory_bytes")
    assert whole is not None
    assert context_costs(row)[-1].total.median == whole.median - IMPORTED


def test_partial_dup_has_a_slope_for_each_mechanism(tmp_path: Path) -> None:
    """Streams after the first load once and dup twice: both costs are told apart."""
    costs = [[40 * MIB, 10 * MIB, 10 * MIB] * 4] * 2
    write_run(tmp_path, [result(tmp_path, "partial_dup", costs)])
    further = {cost.mechanism: cost for cost in further_costs(groups_of(tmp_path)[0].rows[0])}
    assert {name: (cost.count, cost.slope.median) for name, cost in further.items()} == {
        "dup": (8, 10 * MIB),
        "load": (3, 40 * MIB),
    }


def test_spread_is_over_repeats(tmp_path: Path) -> None:
    """Repeats of 39, 40 and 41 MiB per context give 40 with a spread of 1."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40, spread=1))])
    (further,) = further_costs(groups_of(tmp_path)[0].rows[0])
    assert (further.slope.median, further.slope.spread) == (40 * MIB, MIB)


def test_npu_memory_of_a_further_context(tmp_path: Path) -> None:
    """A dup adds all but the weights: 4 of 10 MiB; without an account nothing is said."""
    write_run(tmp_path, [result(tmp_path, "full_dup", even(3), npu=npu_account)])
    write_run(tmp_path, [result(tmp_path, "full_dup", even(3))], number=2)
    with_account, without = (
        group.rows[0] for group in sorted(groups_of(tmp_path), key=lambda group: group.info["runtime"], reverse=True)
    )
    (further,) = further_costs(with_account)
    assert further.npu_slope is not None
    assert further.npu_slope.median == 4 * MIB
    assert [total.median for total in npu_totals(with_account)] == [10 * MIB + 4 * MIB * index for index in range(12)]
    assert further_costs(without)[0].npu_slope is None
    assert npu_totals(without) == []
