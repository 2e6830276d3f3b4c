"""Outputs that must be the same wherever they were taken in a session."""

from __future__ import annotations

from typing import Any

import pytest

from harness.measuring.outputs import Outputs
from messages import Message
from scenarios.plan import Streams, Video
from storage.result import Repeat
from tests.support import make_plan

_VIDEO = Video("clip", "/clip.mp4", "abc", "h264", 64, 48, 30.0, 15)
_PLAN = make_plan("streams_full_dup", "m", schedule=Streams(1, 30.0, 0, 0.0, 1.0, _VIDEO))
_OTHER_VIDEO = make_plan(
    "streams_full_dup", "m", schedule=Streams(1, 30.0, 0, 0.0, 1.0, Video("b", "/b", "def", "h264", 64, 48, 30.0, 9))
)


def _repeat(checksums: dict[str, int], unequal: int = 0) -> Repeat:
    data = {"frame_checksums": [checksums], "unequal_frames": [unequal]}
    return Repeat([{"phase": "steady", "data": data}], None, 1.0, 0, 0.0, "")


def _info(**changes: Any) -> dict[str, Any]:
    model = {"name": _PLAN.models[0].name, "digest": _PLAN.models[0].digest}
    info = {"computes": True, "runtime": "x", "models": [model], "output_digests": {}, "scenario": "s"}
    return {**info, **changes}


def test_frames_that_come_again_give_the_same_outputs() -> None:
    """In another repeat and in another configuration, as far as both had the frame."""
    outputs = Outputs()
    assert outputs.differ(_info(), _PLAN, [_repeat({"0": 5, "1": 6}), _repeat({"1": 6, "2": 7})]) is None
    assert outputs.differ(_info(), _PLAN, [_repeat({"0": 5, "2": 7})]) is None


@pytest.mark.parametrize("later", [_repeat({"1": 9}), _repeat({}, unequal=1)])
def test_a_frame_with_other_outputs_is_a_failure(later: Repeat) -> None:
    """Of this configuration, whether it differs within the process or from an earlier one."""
    outputs = Outputs()
    outputs.differ(_info(), _PLAN, [_repeat({"0": 5, "1": 6})])
    failure = outputs.differ(_info(), _PLAN, [later])
    assert failure is not None
    assert (failure.kind, failure.phase) == ("outputs_differ", "steady")
    assert failure.message == Message("frames_differ", {"model": _PLAN.models[0].name, "unequal": 1})


def test_frames_of_another_video_are_others() -> None:
    """Nobody expects the same of them."""
    outputs = Outputs()
    assert outputs.differ(_info(), _PLAN, [_repeat({"0": 5})]) is None
    assert outputs.differ(_info(), _OTHER_VIDEO, [_repeat({"0": 6})]) is None


def test_where_nothing_computes_outputs_mean_nothing() -> None:
    """They are whatever was in the memory."""
    outputs = Outputs()
    assert outputs.differ(_info(computes=False), _PLAN, [_repeat({}, unequal=3)]) is None


def test_a_run_that_did_not_come_to_its_end_has_no_outputs() -> None:
    """It has failed by itself."""
    assert Outputs().differ(_info(), _PLAN, [Repeat([], None, 1.0, 0, 0.0, "")]) is None
