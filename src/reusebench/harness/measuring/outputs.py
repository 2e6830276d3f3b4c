"""The check that a model's outputs are the same in all contexts, phases, repeats and scenarios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Optional

from reusebench.harness.measuring.repeat import Repeat
from reusebench.measured.messages import Message
from reusebench.measured.plan import RESTORED_PROMPT, SEQUENCE, SHARED_PROMPT, Model, Plan
from reusebench.storage.result import Result
from reusebench.targets.outcome import Failure

__all__ = ["Comparison", "Outputs"]

_OF_OTHER_BATCHES = (SEQUENCE, SHARED_PROMPT, RESTORED_PROMPT)
#: Returns the reason why outputs of a plan's model are not compared; None if they should be equal.
VariationOf = Callable[[Plan, Model], Optional[Message]]


@dataclass
class Comparison:
    """The outputs of a result, compared within it and with earlier ones."""

    #: None if all outputs that are compared are equal.
    failure: Failure | None = None
    #: Key: digest of a model whose outputs differ and are not compared; value: the reason.
    not_compared: dict[str, Message] = field(default_factory=dict)


class Outputs:
    """Digests and checksums of all outputs of a session until now."""

    def __init__(self, variation_of: VariationOf) -> None:
        """`variation_of` is called only for models whose outputs differ."""
        self._variation_of = variation_of
        #: Key: runtime, model, options and turn. Digests of the outputs, and the scenario that had
        #: them first.
        self._digests: dict[
            tuple[str, str, frozenset[str], tuple[int, ...]], tuple[tuple[str, ...], str]
        ] = {}
        #: Checksum of a frame's outputs, by runtime, model, video and number of the frame.
        self._frame_checksums: dict[tuple[str, str, str, str], int] = {}

    def compare(self, result: Result, repeats: Sequence[Repeat]) -> Comparison:
        """Return whether a model's outputs differ within the result, or from earlier ones."""
        comparison = Comparison()
        if not result.computes:
            return comparison
        self._compare_inferences(result, comparison)
        if comparison.failure is None:
            self._compare_frames(result.plan, repeats, comparison)
        return comparison

    def _compare_inferences(self, result: Result, comparison: Comparison) -> None:
        # Another option may mean another algorithm, which rounds in another way.
        options: set[str] = set()
        for context in result.plan.contexts:
            options.update(context.options)
        for model in result.plan.models:
            digests = result.output_digests.get(model.digest)
            if not digests:
                continue
            key = (result.runtime, model.digest, frozenset(options), _turn(result.plan))
            reason = _reason_of_batches(result.plan)
            if reason and key not in self._digests:
                first, scenario = digests, result.scenario
            else:
                first, scenario = self._digests.setdefault(key, (digests, result.scenario))
            if len(digests) == 1 and digests == first:
                continue
            if reason:
                comparison.not_compared[model.digest] = reason
                continue
            if self._may_differ(result.plan, model, comparison):
                continue
            message = Message(
                "outputs_differ",
                {
                    "model": model.name,
                    "digests": ", ".join(digests),
                    "scenario": scenario,
                    "others": ", ".join(first),
                },
            )
            if digests == first:
                message = Message(
                    "outputs_differ_within",
                    {"model": model.name, "digests": ", ".join(digests)},
                )
            comparison.failure = Failure("outputs_differ", "steady", None, message)
            return

    def _compare_frames(
        self, plan: Plan, repeats: Sequence[Repeat], comparison: Comparison
    ) -> None:
        if plan.schedule is None:
            return
        for repeat in repeats:
            steady = repeat.last("steady")
            if steady is None:
                continue
            per_model = zip(plan.models, steady.data.frame_checksums, steady.data.unequal_frames)
            for model, checksums, unequal_within in per_model:
                unequal = unequal_within + self._count_unequal(plan, model.digest, checksums)
                if not unequal or self._may_differ(plan, model, comparison):
                    continue
                message = Message("frames_differ", {"model": model.name, "unequal": unequal})
                comparison.failure = Failure("outputs_differ", "steady", None, message)
                return

    def _may_differ(self, plan: Plan, model: Model, comparison: Comparison) -> bool:
        """Note the reason why a model's outputs are not compared; return whether there is one."""
        reason = self._variation_of(plan, model)
        if reason is not None:
            comparison.not_compared[model.digest] = reason
        return reason is not None

    def _count_unequal(self, plan: Plan, model: str, checksums: dict[str, int]) -> int:
        """Return the number of frames whose outputs another process had otherwise."""
        assert plan.schedule is not None
        video = plan.schedule.video.digest if plan.schedule.video else ""
        unequal = 0
        for frame, checksum in checksums.items():
            key = (plan.runtime, model, video, frame)
            if self._frame_checksums.setdefault(key, checksum) != checksum:
                unequal += 1
        return unequal


def _reason_of_batches(plan: Plan) -> Message | None:
    """Return the reason why equal conversations may have other tokens; None if they must not.

    Conversations in one context, and prompts that are computed in two pieces, are other batches and
    have other places in a cache. Sums in another order differ in their last digits; with llama.cpp
    0.3.36 and a Gemma 3 of 270 million weights (Q4_K_M) the likeliest token changed.
    """
    for context in plan.contexts:
        if context.unified_cache or context.mechanism in _OF_OTHER_BATCHES:
            return Message("tokens_vary_by_batches")
    return None


def _turn(plan: Plan) -> tuple[int, ...]:
    """Return the numbers of tokens that the outputs of a language model depend on."""
    conversation = plan.conversation
    return (conversation.prompt, conversation.generated) if conversation else ()
