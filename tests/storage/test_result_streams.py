"""Results of streams in the schema: what is optional, what is refused, and what of them is compared from run to run."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from storage.files import InvalidResult, check_result

from reports.base.formatting import metric_amount
from reports.compare.noise import noise_of
from storage.limits import parse_limit
from storage.metrics import METRICS, find_metric
from storage.runs import Run, read_run
from tests.reports.stored import even, result, write_run
from tests.reports.stored_streams import SCHEDULE, VIDEO, Frames, streams_result

OF_STREAMS = {"decoder_memory", "latency_p99", "frames_lost"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return streams_result(tmp_path_factory.mktemp("stored"), "streams_full_dup")


def changed(info: dict[str, Any], value: Any, *place: Any) -> dict[str, Any]:
    """Return the result with another value at a place."""
    other = copy.deepcopy(info)
    inner = other
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return other


def run_of(path: Path) -> Run:
    run = read_run(path)
    assert isinstance(run, Run)
    return run


@pytest.mark.parametrize(
    "place",
    [
        ("frames", 1),
        ("frames", 0, "all"),
        ("frames", 0, "streams"),
        ("frames", 0, "all", "latency_ns"),
        ("frames", 0, "stages_ns"),
        ("frames", 0, "stages_ns", "resize"),
        ("frames", 0, "cpu"),
        ("frames", 0, "machine", "npu_load_percent"),
        ("frames", 0, "machine", "throttled"),
        ("frames", 0, "memory"),
        ("frames", 0, "series", "done_per_s"),
        ("plan", "schedule", "video"),
        ("plan", "schedule"),
    ],
)
def test_what_may_not_be_known(stored: dict[str, Any], place: tuple[Any, ...]) -> None:
    """A repeat that did not come so far, a machine that does not say, a virtual board: null."""
    check_result(changed(stored, None, *place))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("many", ("frames", 0, "all", "done")),
        (None, ("frames", 0, "all", "done")),
        (1, ("frames", 0, "all", "skipped")),
        ({"p50": 1}, ("frames", 0, "all", "latency_ns")),
        ("rising", ("frames", 0, "memory", "verdict")),
        (None, ("frames", 0, "series", "rss_bytes")),
        ([0.5], ("frames", 0, "series", "rss_bytes")),
        ("yes", ("frames", 0, "interrupted")),
        ([{"name": "cpu"}], ("frames", 0, "machine", "throttled")),
        (4, ("plan", "schedule")),
        ({"count": 4}, ("plan", "schedule")),
        ({**VIDEO, "colour": "grey"}, ("plan", "schedule", "video")),
    ],
)
def test_another_form_is_refused(stored: dict[str, Any], value: Any, place: tuple[Any, ...]) -> None:
    """What is in no definition is not stored."""
    with pytest.raises(InvalidResult, match=str(place[0])):
        check_result(changed(stored, value, *place))


def test_streams_have_figures_of_their_own_to_compare(tmp_path: Path) -> None:
    """Runs are compared by decoders, the 99th percentile and frames lost too; other scenarios have none of these."""
    infos = [streams_result(tmp_path, "streams_full_dup", [Frames(per_s=60)]), result(tmp_path, "full_dup", even(10))]
    streams, other = run_of(write_run(tmp_path, infos)).measured
    assert set(streams.values) >= OF_STREAMS
    assert streams.values["frames_lost"] == (50.0,)
    assert not set(other.values) & OF_STREAMS


def test_frames_lost_are_points() -> None:
    """They are shown in percent, a limit of them is an amount of percent, and half a percent is no change."""
    lost = find_metric("frames_lost")
    assert lost in METRICS
    assert metric_amount(1.25, lost) == "1.25 %"
    assert parse_limit("frames_lost:2").allowed(10.0) == 2.0
    assert lost.resolution == 0.5
    assert noise_of(lost, ([[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]), ()).repeat == 0


def test_where_the_video_is_makes_no_other_plan(tmp_path: Path) -> None:
    """Runs of the same video in other places are compared; at another pace they are told apart."""
    schedules = [SCHEDULE, {**SCHEDULE, "video": {**VIDEO, "path": "/b.mp4"}}, {**SCHEDULE, "fps": 15.0}]
    runs = [
        run_of(write_run(tmp_path, [streams_result(tmp_path, "streams_full_dup", schedule=each)], number))
        for number, each in enumerate(schedules, start=1)
    ]
    here, moved, slower = (run.measured[0].conditions["plan"] for run in runs)
    assert here == moved != slower


def test_plans_of_before_are_the_same_plans(tmp_path: Path) -> None:
    """A plan that was stored before there were schedules is compared with the same plan of today."""
    info = result(tmp_path, "full_dup", even(10))
    before, today = copy.deepcopy(info), changed(info, None, "plan", "schedule")
    before["plan"].pop("schedule", None)
    old, new = (run_of(write_run(tmp_path, [each], number)) for number, each in enumerate((before, today), start=1))
    assert old.measured[0].conditions == new.measured[0].conditions
