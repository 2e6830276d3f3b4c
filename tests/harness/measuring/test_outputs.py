"""Outputs that must be equal in a whole session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reusebench.harness.measuring.outputs import Comparison, Outputs
from reusebench.harness.measuring.repeat import Repeat
from reusebench.measured.messages import Message
from reusebench.measured.plan import (
    SHARED_PROMPT,
    Conversation,
    Model,
    Plan,
    Streams,
    Video,
)
from reusebench.storage.result import Result
from reusebench.targets.barriers import StepData
from tests.helpers.support import barrier, known
from tests.reports.stored import changed
from tests.reports.stored_streams import streams_result

_VIDEO = Video("clip", "/clip.mp4", "abc", "h264", 64, 48, 30.0, 15)
_SCHEDULE = Streams(4, 30.0, 0, 0.0, 1.0, _VIDEO)


def _equal(_plan: Plan, _model: Model) -> None:
    """Say that the outputs of every model should be equal."""


def _repeat(checksums: dict[str, int], unequal: int = 0) -> Repeat:
    data = StepData(frame_checksums=(checksums,), unequal_frames=(unequal,))
    return Repeat([barrier("steady", data=data)], None, 1.0, 0, 0.0, "")


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return a result of streams of one model, without digests of single inferences."""
    result = streams_result(
        tmp_path_factory.mktemp("traces"), "streams_full_dup", schedule=_SCHEDULE
    )
    return changed(result, output_digests={})


def test_frames_that_come_again_give_the_same_outputs(info: Result) -> None:
    """Outputs of a frame are compared with another repeat and another configuration, if both had
    the frame.
    """
    outputs = Outputs(_equal)
    assert (
        outputs.compare(info, [_repeat({"0": 5, "1": 6}), _repeat({"1": 6, "2": 7})])
        == Comparison()
    )
    assert outputs.compare(info, [_repeat({"0": 5, "2": 7})]) == Comparison()


@pytest.mark.parametrize("later", [_repeat({"1": 9}), _repeat({}, unequal=1)])
def test_a_frame_with_other_outputs_is_a_failure(info: Result, later: Repeat) -> None:
    """The configuration fails whose outputs differ within the process or from earlier ones."""
    outputs = Outputs(_equal)
    outputs.compare(info, [_repeat({"0": 5, "1": 6})])
    failure = known(outputs.compare(info, [later]).failure)
    assert (failure.kind, failure.phase) == ("outputs_differ", "steady")
    assert failure.message == Message("frames_differ", {"model": info.models[0].name, "unequal": 1})


def test_frames_of_another_video_are_others(info: Result) -> None:
    """Other models, runtimes and videos may have other outputs."""
    outputs = Outputs(_equal)
    other = replace(_SCHEDULE, video=replace(_VIDEO, digest="def"))
    assert outputs.compare(info, [_repeat({"0": 5})]) == Comparison()
    assert (
        outputs.compare(changed(info, plan=replace(info.plan, schedule=other)), [_repeat({"0": 6})])
        == Comparison()
    )


def test_where_nothing_computes_outputs_mean_nothing(info: Result) -> None:
    """Without arithmetic of the NPU the outputs are leftovers of memory."""
    assert (
        Outputs(_equal).compare(changed(info, computes=False), [_repeat({}, unequal=3)])
        == Comparison()
    )


def test_a_run_that_did_not_come_to_its_end_has_no_outputs(info: Result) -> None:
    """A repeat that has failed is not compared."""
    assert Outputs(_equal).compare(info, [Repeat([], None, 1.0, 0, 0.0, "")]) == Comparison()


def _varies(_plan: Plan, _model: Model) -> Message:
    return Message("outputs_vary")


def test_outputs_of_a_model_that_varies_are_not_compared(info: Result) -> None:
    """Neither frames nor inferences of such a model are a failure, and the reason is kept."""
    model = info.models[0].digest
    outputs = Outputs(_varies)
    inferences = changed(info, output_digests={model: ("1", "2")})
    for comparison in (
        outputs.compare(info, [_repeat({}, unequal=1)]),
        outputs.compare(inferences, []),
    ):
        assert comparison == Comparison(None, {model: Message("outputs_vary")})


def test_a_model_whose_outputs_are_equal_is_compared(info: Result) -> None:
    """Nobody is asked why outputs differ if they do not."""
    asked = []

    def ask(_plan: Plan, model: Model) -> Message:
        asked.append(model)
        return Message("outputs_vary")

    model = info.models[0].digest
    equal = changed(info, output_digests={model: ("1",)})
    outputs = Outputs(ask)
    assert outputs.compare(equal, []) == outputs.compare(equal, []) == Comparison()
    assert asked == []


def test_differences_within_a_result_are_told_as_such(info: Result) -> None:
    """The message does not name the result's own digests twice."""
    model = info.models[0]
    differing = changed(info, output_digests={model.digest: ("1", "2")})
    failure = known(Outputs(_equal).compare(differing, []).failure)
    assert failure.message == Message(
        "outputs_differ_within", {"model": model.name, "digests": "1, 2"}
    )


def test_tokens_of_other_batches_may_differ(info: Result) -> None:
    """Conversations that share a context or a prompt may have other tokens: that is told, and they
    are no reference; those in contexts of their own must be equal.
    """
    outputs = Outputs(_equal)
    model = info.models[0].digest
    conversation = Conversation(64, 8, 2, 4)
    plan = replace(info.plan, schedule=None, conversation=conversation)
    alone = changed(info, plan=plan, frames=(), output_digests={model: ("a",)})
    *contexts, last = plan.contexts
    shared = replace(last, mechanism=SHARED_PROMPT)
    together = replace(plan, contexts=(*contexts, shared))
    others = changed(alone, plan=together, output_digests={model: ("a", "b")})
    told = Comparison(None, {model: Message("tokens_vary_by_batches")})
    assert outputs.compare(others, []) == told
    assert outputs.compare(alone, []) == Comparison()
    assert outputs.compare(others, []) == told
    assert outputs.compare(changed(others, output_digests={model: ("a",)}), []) == Comparison()
    wrong = outputs.compare(changed(alone, output_digests={model: ("b",)}), [])
    assert known(wrong.failure).kind == "outputs_differ"
    longer = replace(plan, conversation=replace(conversation, generated=3))
    other_turn = changed(alone, plan=longer, output_digests={model: ("b",)})
    assert outputs.compare(other_turn, []) == Comparison()
