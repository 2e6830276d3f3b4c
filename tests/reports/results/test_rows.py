from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.plan import Model
from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.grouping import newest_groups
from reusebench.reports.results.rows import Group
from reusebench.storage.savings import NPU
from tests.reports.stored import (
    FAILED,
    MIB,
    MODELS,
    NOT_SUPPORTED,
    as_measured,
    changed,
    dup,
    even,
    first_look,
    group_of,
    groups_of,
    npu_account,
    numbers,
    result,
    row_of,
    write_run,
)


def test_a_saving_is_in_percent_of_the_same_memory_of_the_baseline(full_group: Group) -> None:
    """12 contexts of 40 MiB against 40 + 11 x 10 MiB save 330 MiB: of 510 in all, of 480 over the
    import.
    """
    full = row_of(full_group, "full_dup")
    assert full.saved() == Figure(330 * MIB, 0)
    assert numbers(full.saved_percent()) == pytest.approx((100 * 330 / 510, 0))
    assert numbers(full.saved_over_baseline_percent) == pytest.approx((100 * 330 / 480, 0))


def test_baseline_has_the_same_models(full_group: Group) -> None:
    """Full dup of one model is compared with no reuse of that model, partial dup with no reuse of
    all.
    """
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
    """If a configuration was measured twice, the run of the higher number counts, whatever the
    clock said.
    """
    write_run(
        tmp_path, [result(tmp_path, "no_reuse", even(40))], number=2, at="2026-01-01T00:00:00"
    )
    write_run(
        tmp_path, [result(tmp_path, "no_reuse", even(10))], number=1, at="2026-02-01T00:00:00"
    )
    (group,) = groups_of(tmp_path)
    memory = row_of(group, "no_reuse").memory("application_memory_over_baseline_bytes")
    assert memory is not None
    assert memory.median == 480 * MIB


def test_other_conditions_make_another_group(tmp_path: Path) -> None:
    """Results of another runtime version never stand in one table with these."""
    old = result(tmp_path, "no_reuse_one_model", even(40))
    new = result(tmp_path, "full_dup", dup(40, 10))
    write_run(tmp_path, [old, changed(new, runtime_version="9.9.9")])
    groups = groups_of(tmp_path)
    assert len(groups) == 2
    assert all(row.saved() is None for group in groups for row in group.rows)


def test_failed_row_stands_without_figures(full_group: Group) -> None:
    """A configuration that crashed has a row with its outcome, and no figures."""
    failed = row_of(full_group, "shared_context")
    assert failed.outcome == FAILED.kind
    assert failed.memory("application_memory_bytes") is None
    assert (failed.saved(), failed.latency, failed.throughput) == (None, None, None)


def test_outputs_of_an_older_baseline_are_compared_too(tmp_path: Path) -> None:
    """If outputs differ from a baseline's in another run, the outcome says so and there are no
    figures.
    """
    write_run(tmp_path, [result(tmp_path, "no_reuse_one_model", even(40))], number=1)
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10), digest="0000000f")], number=2)
    (group,) = groups_of(tmp_path)
    differs = row_of(group, "full_dup")
    assert differs.outcome == "outputs_differ"
    assert differs.saved() is None


def test_outputs_that_are_not_compared_lose_no_figures(tmp_path: Path) -> None:
    """If either result says that outputs of a model are not compared, they may differ."""
    baseline = result(tmp_path, "no_reuse_one_model", even(40))
    own = result(tmp_path, "full_dup", dup(40, 10), digest="0000000f")
    own = changed(own, not_compared={own.models[0].digest: Message("outputs_vary")})
    write_run(tmp_path, [baseline, own])
    (group,) = groups_of(tmp_path)
    row = row_of(group, "full_dup")
    assert (row.outcome, row.output_difference) == ("ok", None)
    assert row.saved() is not None


def test_fewer_files_than_streams_are_noted(tmp_path: Path) -> None:
    """Two files for four streams are described as used in turn."""
    group = group_of(tmp_path, result(tmp_path, "no_reuse", even(40), models=MODELS[:2]))
    assert row_of(group, "no_reuse").models == "model-a, model-b (2 for 4 streams, in turn)"


def test_another_chip_or_limit_makes_another_group(tmp_path: Path) -> None:
    """Two chips never stand in one table; runs without a stored chip are one group."""
    infos = [
        result(tmp_path, name, even(3), npu=npu_account)
        for name in ("no_reuse_one_model", "full_dup")
    ]
    write_run(tmp_path, [infos[0], changed(infos[1], chip="rk3566")])
    assert len(groups_of(tmp_path)) == 2
    write_run(tmp_path, [changed(info, chip=None) for info in infos], number=2)
    assert len(groups_of(tmp_path)) == 3
    write_run(
        tmp_path, [changed(info, npu_memory_limit_bytes=64 * MIB) for info in infos], number=3
    )
    assert len(groups_of(tmp_path)) == 4


def test_npu_memory_is_saved_of_the_baselines(npu_group: Group) -> None:
    """12 contexts of 10 MiB, with 6 MiB of weights, against one with weights and 11 without."""
    full = row_of(npu_group, "full_dup")
    assert full.saved(NPU) == Figure(66 * MIB, 0)
    assert numbers(full.saved_percent(NPU)) == pytest.approx((55, 0))


def test_outputs_that_were_not_computed_are_not_compared(tmp_path: Path) -> None:
    """On the virtual board outputs are whatever memory held, so a difference is no outcome."""
    infos = [
        result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account, computes=False),
        result(tmp_path, "full_dup", even(3), npu=npu_account, computes=False, digest="0000000f"),
    ]
    write_run(tmp_path, infos)
    assert row_of(groups_of(tmp_path)[0], "full_dup").outcome == "ok"


def test_rows_stand_by_question(npu_group: Group) -> None:
    """The scenarios are split into the questions, each of which begins with a baseline."""
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
    group = group_of(
        tmp_path, result(tmp_path, "in_turn", even(3), models=MODELS[:2], npu=npu_account)
    )
    assert row_of(group, "in_turn").models == "model-a, model-b"


OTHERS = tuple(Model(f"other-{name}", f"/models/{name}.onnx", name * 64) for name in "efgh")


def test_a_run_is_one_group_whatever_its_models(tmp_path: Path) -> None:
    """Frames, resolutions and streams of one session are other models and stand in one group."""
    infos = [
        result(tmp_path, "no_reuse", even(3)),
        result(tmp_path, "resolutions", even(3), models=OTHERS[1:]),
        result(tmp_path, "copied_io_4k", even(3), models=OTHERS[:1]),
    ]
    assert [row.scenario for row in group_of(tmp_path, *infos).rows] == [
        "no_reuse",
        "resolutions",
        "copied_io_4k",
    ]


def test_sessions_with_other_models_are_not_mixed(tmp_path: Path) -> None:
    """Two sessions with other models for the streams are two groups; each keeps its own
    resolutions.
    """
    for number, models in ((1, MODELS), (2, OTHERS)):
        infos = [
            result(tmp_path, name, even(3), models=models) for name in ("no_reuse", "resolutions")
        ]
        write_run(tmp_path, infos, number, at=f"2026-01-0{number}T00:00:00")
    groups = groups_of(tmp_path)
    assert [{row.info.models[0].name for row in group.rows} for group in groups] == [
        {"other-e"},
        {"model-a"},
    ]
    assert all(len(group.rows) == 2 for group in groups)


def test_a_run_of_one_question_joins_the_newest_session(tmp_path: Path) -> None:
    """A run of one question stands with the newest run that has no other models for it."""
    write_run(
        tmp_path,
        [result(tmp_path, "resolutions", even(3), models=OTHERS)],
        1,
        at="2026-01-01T00:00:00",
    )
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))], 2, at="2026-01-02T00:00:00")
    write_run(
        tmp_path,
        [result(tmp_path, "shared_weights", even(2), models=OTHERS)],
        3,
        at="2026-01-03T00:00:00",
    )
    (group,) = groups_of(tmp_path)
    assert [row.scenario for row in group.rows] == ["no_reuse", "resolutions", "shared_weights"]
    assert row_of(group, "shared_weights").saved() is not None


def test_the_newest_group_of_a_runtime_stands_for_it(tmp_path: Path) -> None:
    """If there are two versions of one runtime on one target, the newer group is chosen."""
    old = changed(result(tmp_path, "no_reuse", even(40)), runtime_version="0.0.1")
    write_run(tmp_path, [old], 1, at="2026-01-01")
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))], 2, at="2026-01-02")
    (group,) = newest_groups(groups_of(tmp_path))
    assert group.info.runtime_version == "1.2.3"


def _named(group: Group) -> dict[str, tuple[str, ...]]:
    return {row.scenario: row.equal for row in group.rows}


def test_equal_scenarios_are_one_row(tmp_path: Path) -> None:
    """The first in the catalogue is the row and the baseline, and has the names of the others."""
    group = group_of(tmp_path, *first_look(tmp_path))
    assert _named(group) == {
        "no_reuse_one_model": ("plain",),
        "full_dup": ("lean_weights",),
        "full_dup_internal_reuse": ("lean_internal",),
        "lean": (),
    }
    lean = row_of(group, "lean")
    assert lean.baseline is group.rows[0]
    assert (lean.baseline_name, lean.saved()) == ("no_reuse_one_model", Figure(360 * MIB, 0))
    assert group.questions == {"dup": list(group.rows)}
    (plain,) = group.named("plain")
    assert (plain.original, plain.is_left_out, plain.names) == (
        group.rows[0],
        True,
        ("plain", "no_reuse_one_model"),
    )


def test_whichever_was_measured_the_row_is_the_same(tmp_path: Path) -> None:
    """A session that begins with the steps to lean has the same rows."""
    plain = result(tmp_path, "plain", even(40))
    group = group_of(tmp_path, plain, as_measured(plain, "no_reuse_one_model"))
    assert _named(group) == {"no_reuse_one_model": ("plain",)}
    assert group.rows[0].info.measured_as == "plain"


def test_lean_has_its_own_question_if_it_began_anew(tmp_path: Path) -> None:
    """Steps are compared with the first step if a newer session measured it."""
    write_run(tmp_path, first_look(tmp_path), 1, "2026-01-01T00:00:00")
    write_run(tmp_path, [result(tmp_path, "plain", even(20), run="run2")], 2, "2026-01-02T00:00:00")
    (group,) = groups_of(tmp_path)
    dups = ["no_reuse_one_model", "full_dup", "full_dup_internal_reuse"]
    assert [row.scenario for row in group.rows] == [*dups, "plain", "lean"]
    steps = group.questions["lean"]
    assert [row.scenario for row in steps] == ["plain", "lean_weights", "lean_internal", "lean"]
    assert {row.baseline for row in steps[1:]} == {steps[0]} == {row_of(group, "plain")}


def test_a_copy_stands_for_what_was_measured_again(tmp_path: Path) -> None:
    """Old figures are a row under the names that no newer session has measured."""
    first = result(tmp_path, "no_reuse_one_model", even(40))
    equal = [as_measured(first, name) for name in ("runtime_memory", "plain")]
    write_run(tmp_path, [first, *equal], 1, "2026-01-01T00:00:00")
    write_run(
        tmp_path,
        [result(tmp_path, "no_reuse_one_model", even(30), run="run2")],
        2,
        "2026-01-02T00:00:00",
    )
    (group,) = groups_of(tmp_path)
    assert _named(group) == {"no_reuse_one_model": (), "runtime_memory": ("plain",)}


def test_equal_scenarios_of_two_questions_answer_both(tmp_path: Path) -> None:
    """Tensors in place belong to external memory and to copies: a row and a copy."""
    first = result(tmp_path, "runtime_memory", even(40))
    in_place = result(tmp_path, "external_io", even(30))
    copied = as_measured(first, "copied_io")
    zero_copy = as_measured(in_place, "zero_copy_io")
    group = group_of(tmp_path, first, in_place, copied, zero_copy)
    assert _named(group) == {"runtime_memory": ("copied_io",), "external_io": ("zero_copy_io",)}
    by_question = {name: [row.scenario for row in rows] for name, rows in group.questions.items()}
    assert by_question == {
        "external_memory": ["runtime_memory", "external_io"],
        "io_copies": ["copied_io", "zero_copy_io"],
    }
    baseline = group.questions["io_copies"][1].baseline
    assert baseline is not None
    assert (baseline.scenario, group.rows[1].baseline_name) == ("copied_io", "runtime_memory")


def test_a_failure_is_no_copy(tmp_path: Path) -> None:
    """Nothing was measured: each scenario that the runtime lacks is listed by name."""
    failed = result(tmp_path, "full_dup", [], failure=NOT_SUPPORTED)
    group = group_of(tmp_path, failed, as_measured(failed, "lean_weights"))
    assert _named(group) == {"full_dup": (), "lean_weights": ()}


def test_equal_models_are_part_of_equal_plans(tmp_path: Path) -> None:
    """A name under which other models were measured in the same session is another row."""
    first = result(tmp_path, "no_reuse", even(40))
    assert len(group_of(tmp_path, first, as_measured(first, "no_reuse_one_model")).rows) == 1
    other = changed(result(tmp_path, "no_reuse_one_model", even(40)), measured_as="no_reuse")
    assert len(group_of(tmp_path / "other", first, other).rows) == 2
