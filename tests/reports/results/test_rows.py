from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.plan import Model
from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.rows import Group, newest_groups
from reusebench.reports.results.savings import NPU, OVER_BASELINE
from tests.reports.stored import (
    FAILED,
    MIB,
    MODELS,
    changed,
    dup,
    even,
    group_of,
    groups_of,
    npu_account,
    numbers,
    result,
    row_of,
    write_run,
)


def test_saving_is_that_of_the_chosen_figures(full_group: Group) -> None:
    """12 contexts of 40 MiB against 40 + 11 x 10 MiB save 330 MiB: of 510 in all, of 480 over the baseline."""
    full = row_of(full_group, "full_dup")
    assert full.saved() == Figure(330 * MIB, 0)
    assert numbers(full.saved_percent()) == pytest.approx((100 * 330 / 510, 0))
    assert numbers(full.saved_percent(OVER_BASELINE)) == pytest.approx((100 * 330 / 480, 0))


def test_baseline_has_the_same_models(full_group: Group) -> None:
    """Full dup of one model is compared with no reuse of that one model, and partial dup with that of all."""
    for scenario, baseline in (("full_dup", "no_reuse_one_model"), ("partial_dup", "no_reuse")):
        compared = row_of(full_group, scenario)
        assert compared.baseline is not None
        assert compared.baseline.scenario == baseline
        assert compared.baseline.info.models == compared.info.models


def test_no_saving_without_the_same_models(tmp_path: Path) -> None:
    """A baseline that was measured with other models gives no saving, however equal their sizes."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))], number=1)
    others = (*MODELS[:3], MODELS[0])
    write_run(tmp_path, [result(tmp_path, "partial_dup", even(20), models=others)], number=2)
    (group,) = groups_of(tmp_path)
    assert row_of(group, "partial_dup").saved() is None


def test_newest_result_stands(tmp_path: Path) -> None:
    """Where a configuration was measured twice the run of the higher number counts, whatever the clock said."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))], number=2, at="2026-01-01T00:00:00")
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(10))], number=1, at="2026-02-01T00:00:00")
    (group,) = groups_of(tmp_path)
    memory = row_of(group, "no_reuse").memory("application_memory_over_baseline_bytes")
    assert memory is not None
    assert memory.median == 480 * MIB


def test_other_conditions_make_another_group(tmp_path: Path) -> None:
    """Results of another runtime version never stand in one table with these."""
    old, new = result(tmp_path, "no_reuse_one_model", even(40)), result(tmp_path, "full_dup", dup(40, 10))
    write_run(tmp_path, [old, changed(new, runtime_version="9.9.9")])
    groups = groups_of(tmp_path)
    assert len(groups) == 2
    assert all(row.saved() is None for group in groups for row in group.rows)


def test_failed_row_stands_without_figures(full_group: Group) -> None:
    """A configuration that crashed has a row with its outcome, and no figure that could be taken for one."""
    failed = row_of(full_group, "shared_context")
    assert failed.outcome == FAILED.kind
    assert failed.memory("application_memory_bytes") is None
    assert (failed.saved(), failed.latency, failed.throughput) == (None, None, None)


def test_outputs_of_an_older_baseline_are_compared_too(tmp_path: Path) -> None:
    """Outputs that differ from those of a baseline in another run make the outcome, and take the figures away."""
    write_run(tmp_path, [result(tmp_path, "no_reuse_one_model", even(40))], number=1)
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10), digest="0000000f")], number=2)
    (group,) = groups_of(tmp_path)
    differs = row_of(group, "full_dup")
    assert differs.outcome == "outputs_differ"
    assert differs.saved() is None


def test_fewer_files_than_streams_are_said(tmp_path: Path) -> None:
    """Two files for four streams are named as used in turn, in the models' text."""
    group = group_of(tmp_path, result(tmp_path, "no_reuse", even(40), models=MODELS[:2]))
    assert row_of(group, "no_reuse").models == "model-a, model-b (2 for 4 streams, in turn)"


def test_another_chip_or_limit_makes_another_group(tmp_path: Path) -> None:
    """NPU memory of two chips never stands in one table; runs without a stored chip are one group."""
    infos = [result(tmp_path, name, even(3), npu=npu_account) for name in ("no_reuse_one_model", "full_dup")]
    write_run(tmp_path, [infos[0], changed(infos[1], chip="rk3566")])
    assert len(groups_of(tmp_path)) == 2
    write_run(tmp_path, [changed(info, chip=None) for info in infos], number=2)
    assert len(groups_of(tmp_path)) == 3
    write_run(tmp_path, [changed(info, npu_memory_limit_bytes=64 * MIB) for info in infos], number=3)
    assert len(groups_of(tmp_path)) == 4


def test_npu_memory_is_saved_of_the_baselines(npu_group: Group) -> None:
    """12 contexts of 10 MiB, of which 6 are weights, against one with weights and 11 without."""
    full = row_of(npu_group, "full_dup")
    assert full.saved(NPU) == Figure(66 * MIB, 0)
    assert numbers(full.saved_percent(NPU)) == pytest.approx((55, 0))


def test_outputs_that_were_not_computed_are_not_compared(tmp_path: Path) -> None:
    """On the virtual board outputs are whatever memory held: that they differ is no outcome."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account, computes=False),
        result(tmp_path, "full_dup", even(3), npu=npu_account, computes=False, digest="0000000f"),
    ]
    write_run(tmp_path, infos)
    assert row_of(groups_of(tmp_path)[0], "full_dup").outcome == "ok"


def test_rows_stand_by_question(npu_group: Group) -> None:
    """The scenarios come apart into the questions, each of which begins with a baseline."""
    assert {name: rows[0].scenario for name, rows in npu_group.questions.items()} == {
        "dup": "no_reuse",
        "internal_reuse": "in_turn",
        "shared_weights": "resolutions",
        "external_memory": "runtime_memory",
        "io_copies": "copied_io",
        "lean": "plain",
        "options": "default_options",
    }
    assert sum(len(rows) for rows in npu_group.questions.values()) == len(npu_group.rows)


def test_models_that_run_in_turn_are_no_streams(tmp_path: Path) -> None:
    """Two models that run in turn are not said to be used for four streams."""
    group = group_of(tmp_path, result(tmp_path, "in_turn", even(3), models=MODELS[:2], npu=npu_account))
    assert row_of(group, "in_turn").models == "model-a, model-b"


OTHERS = tuple(Model(f"other-{name}", f"/models/{name}.onnx", name * 64) for name in "efgh")


def test_a_run_is_one_group_whatever_its_models(tmp_path: Path) -> None:
    """Frames, resolutions and streams of one session are other models and stand in one group."""
    infos = [
        result(tmp_path, "no_reuse", even(3)),
        result(tmp_path, "resolutions", even(3), models=OTHERS[1:]),
        result(tmp_path, "copied_io_4k", even(3), models=OTHERS[:1]),
    ]
    assert [row.scenario for row in group_of(tmp_path, *infos).rows] == ["no_reuse", "resolutions", "copied_io_4k"]


def test_sessions_with_other_models_are_not_mixed(tmp_path: Path) -> None:
    """Two sessions with other models of the streams are two groups, and each keeps its own resolutions."""
    for number, models in ((1, MODELS), (2, OTHERS)):
        infos = [result(tmp_path, name, even(3), models=models) for name in ("no_reuse", "resolutions")]
        write_run(tmp_path, infos, number, at=f"2026-01-0{number}T00:00:00")
    groups = groups_of(tmp_path)
    assert [{row.info.models[0].name for row in group.rows} for group in groups] == [{"other-e"}, {"model-a"}]
    assert all(len(group.rows) == 2 for group in groups)


def test_a_question_asked_alone_joins_the_newest_session(tmp_path: Path) -> None:
    """A run of one question stands with the newest run that has no other models for it."""
    write_run(tmp_path, [result(tmp_path, "resolutions", even(3), models=OTHERS)], 1, at="2026-01-01T00:00:00")
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))], 2, at="2026-01-02T00:00:00")
    write_run(tmp_path, [result(tmp_path, "shared_weights", even(2), models=OTHERS)], 3, at="2026-01-03T00:00:00")
    (group,) = groups_of(tmp_path)
    assert [row.scenario for row in group.rows] == ["no_reuse", "resolutions", "shared_weights"]
    assert row_of(group, "shared_weights").saved() is not None


def test_the_newest_group_of_a_runtime_stands_for_it(tmp_path: Path) -> None:
    """Of two versions of one runtime on one target the newer group is chosen."""
    old = changed(result(tmp_path, "no_reuse", even(40)), runtime_version="0.0.1")
    write_run(tmp_path, [old], 1, at="2026-01-01")
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))], 2, at="2026-01-02")
    (group,) = newest_groups(groups_of(tmp_path))
    assert group.info.runtime_version == "1.2.3"
