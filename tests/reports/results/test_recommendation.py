"""The layout that is recommended, and those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from reusebench.reports.results.recommendation import (
    Recommendation,
    main_recommendation,
    recommendations,
)
from reusebench.reports.results.rows import Group
from reusebench.reports.results.speed_change import AS_FAST, DISTURBED, FASTER, ONE_REPEAT, SLOWER
from reusebench.storage.result import Result
from reusebench.storage.savings import APPLICATION, NPU
from reusebench.targets.outcome import Failure
from tests.reports.stored import (
    FAILED,
    MODELS,
    NOT_SUPPORTED,
    dup,
    even,
    group_of,
    npu_account,
    result,
    with_speed,
)


def recommended(storage: Path, *infos: Result) -> Recommendation:
    recommendation = main_recommendation(group_of(storage, *infos).rows)
    assert recommendation is not None
    return recommendation


def layouts(storage: Path, **mib: float) -> list[Result]:
    """Return no reuse with 40 MiB for each context, and layouts with the given MiB for each."""
    infos = [result(storage, "no_reuse_one_model", even(40, spread=0.1))]
    return infos + [result(storage, name, even(size, spread=0.1)) for name, size in mib.items()]


def test_the_layout_with_the_least_memory_is_recommended(tmp_path: Path) -> None:
    """All questions with the same contexts count; the saving is in memory of the whole process."""
    infos = [
        *layouts(tmp_path, full_dup=20, shared_context=12),
        result(tmp_path, "plain", even(40)),
    ]
    recommendation = recommended(tmp_path, *infos, result(tmp_path, "lean", even(9, spread=0.1)))
    assert (
        recommendation.least.scenario,
        recommendation.without_reuse.scenario,
        recommendation.memory,
    ) == (
        "lean",
        "plain",
        APPLICATION,
    )
    assert recommendation.saving is not None
    assert (
        recommendation.saving.whole.median - recommendation.saving.saved.median
        == (30 + 12 * 9) * 2**20
    )
    assert recommendation.least.info.plan.contexts[1].mechanism == "dup"
    assert [row.scenario for row in recommendation.layouts] == [
        "no_reuse_one_model",
        "full_dup",
        "shared_context",
        "lean",
    ]
    assert recommendation.outputs_compared


def test_a_difference_within_noise_is_no_saving(tmp_path: Path) -> None:
    """If no layout takes measurably less, the recommendation is the one without reuse."""
    recommendation = recommended(
        tmp_path, *layouts(tmp_path), result(tmp_path, "full_dup", even(39, spread=2))
    )
    assert recommendation.least is recommendation.without_reuse
    assert (recommendation.saving, recommendation.speed, recommendation.as_little) == (
        None,
        None,
        (),
    )


def test_layouts_that_take_as_little_are_named(tmp_path: Path) -> None:
    """They differ from the least only by noise; an equal plan under another name is the same
    layout.
    """
    infos = layouts(tmp_path, full_dup=30, shared_context=10.05, full_dup_internal_reuse=10)
    equal = [
        result(tmp_path, "plain", even(40)),
        result(tmp_path, "lean_internal", even(10, spread=0.1)),
    ]
    recommendation = recommended(tmp_path, *infos, *equal)
    assert recommendation.least.scenario == "full_dup_internal_reuse"
    assert [row.scenario for row in recommendation.as_little] == ["shared_context"]


def test_a_layout_whose_outputs_differ_is_not_recommended(tmp_path: Path) -> None:
    """It is named, but not recommended, however little it takes."""
    infos = layouts(tmp_path, full_dup=20)
    infos.append(result(tmp_path, "shared_context", even(1), digest="0000000f"))
    recommendation = recommended(tmp_path, *infos)
    assert recommendation.least.scenario == "full_dup"
    assert [row.scenario for row in recommendation.differing] == ["shared_context"]


def test_npu_memory_decides_if_every_layout_has_it(tmp_path: Path) -> None:
    """A dup takes less NPU memory, whatever the process takes. If nothing computes, outputs are
    unknown.
    """
    for computes in (True, False):
        storage = tmp_path / str(computes)
        recommendation = recommended(
            storage,
            result(storage, "no_reuse_one_model", even(3), npu=npu_account, computes=computes),
            result(storage, "full_dup", even(4), npu=npu_account, computes=computes),
        )
        assert (recommendation.memory, recommendation.least.scenario) == (NPU, "full_dup")
        assert (recommendation.outputs_compared, recommendation.speed is not None) == (
            computes,
            computes,
        )


def test_if_no_reuse_failed_the_least_that_ran_is_recommended(tmp_path: Path) -> None:
    """Neither the saving nor the outputs are known, for example on a board that is too small."""
    full = Failure("out_of_memory", "context", 7, FAILED.message)
    recommendation = recommended(
        tmp_path,
        result(tmp_path, "no_reuse_one_model", [], failure=full),
        result(tmp_path, "full_dup", dup(3, 2)),
        result(tmp_path, "shared_context", even(1)),
    )
    assert (recommendation.least.scenario, recommendation.without_reuse.outcome) == (
        "shared_context",
        "out_of_memory",
    )
    assert (recommendation.saving, recommendation.speed, recommendation.outputs_compared) == (
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("per_s", "idle_cpu_percent", "verdict"),
    [
        ((48, 50, 52), 1.0, SLOWER),
        ((99, 100, 101), 1.0, AS_FAST),
        ((140, 150, 160), 1.0, FASTER),
        ((48, 50, 52), 80.0, DISTURBED),
        ((50,), 1.0, ONE_REPEAT),
    ],
)
def test_the_cost_in_speed(
    tmp_path: Path, per_s: Sequence[float], idle_cpu_percent: float, verdict: str
) -> None:
    """Rates are compared with their spread; a busy machine and a single repeat give no verdict."""
    repeats = len(per_s)
    baseline = result(
        tmp_path, "no_reuse_one_model", even(40, repeats), idle_cpu_percent=idle_cpu_percent
    )
    faster = result(tmp_path, "full_dup", dup(40, 10, repeats), idle_cpu_percent=idle_cpu_percent)
    rates = {baseline.scenario: (99, 100, 101)[:repeats], faster.scenario: per_s}
    infos = [with_speed(info, throughput_per_s=rates[info.scenario]) for info in (baseline, faster)]
    speed = recommended(tmp_path, *infos).speed
    assert speed is not None
    assert speed.verdict == verdict


def test_frames_are_the_speed_of_streams(streams_group: Group) -> None:
    """The rate counts the frames of all streams."""
    recommendation = main_recommendation(streams_group.rows)
    assert recommendation is not None
    assert recommendation.speed is not None
    assert recommendation.least.schedule is not None
    assert 40 < recommendation.speed.rate.median < 120


def test_each_set_of_contexts_has_its_own(tmp_path: Path, streams_group: Group) -> None:
    """Each number of contexts, and streams, are compared with their own baseline; most contexts
    first.
    """
    pair = MODELS[:2]
    infos = [
        result(tmp_path, "in_turn", even(130), models=pair),
        result(tmp_path, "internal_reuse", even(100), models=pair),
        result(tmp_path, "resolutions", even(130), models=pair),
        result(tmp_path, "shared_weights", even(90), models=pair),
        result(tmp_path, "no_reuse", even(40)),
        result(tmp_path, "partial_dup", even(30)),
        *layouts(tmp_path, full_dup=20),
    ]
    by_weight = recommendations(group_of(tmp_path, *infos).rows)
    assert [recommendation.least.scenario for recommendation in by_weight] == [
        "full_dup",
        "partial_dup",
        "internal_reuse",
        "shared_weights",
    ]
    frames, one_model = recommendations(streams_group.rows)
    assert {frames.least.scenario, one_model.least.scenario} == {
        "streams_partial_dup",
        "streams_full_dup_per_core",
    }


def test_scenarios_that_did_not_run_are_no_layouts(tmp_path: Path) -> None:
    """A scenario is no layout if the runtime lacks it, it failed, or its baseline is missing."""
    infos = [
        result(tmp_path, "shared_context", [], failure=NOT_SUPPORTED),
        result(tmp_path, "lean", even(1)),
    ]
    assert recommendations(group_of(tmp_path, *infos).rows) == []
    recommendation = recommended(tmp_path, *layouts(tmp_path), *infos)
    assert [row.scenario for row in recommendation.layouts] == ["no_reuse_one_model"]
    assert recommendation.least is recommendation.without_reuse


def test_without_reuse_is_what_the_least_is_compared_with(tmp_path: Path) -> None:
    """If equal baselines were measured one by one, the layout's own baseline counts."""
    plain = result(tmp_path, "plain", even(50))
    lean = result(tmp_path, "lean", even(9))
    recommendation = recommended(tmp_path, *layouts(tmp_path), plain, lean)
    assert recommendation.without_reuse.scenario == "plain"
    assert recommendation.saving is not None
    assert recommendation.saving.whole == recommendation.without_reuse.memory(APPLICATION)
