"""Whether a model's outputs are the same in all contexts, phases, repeats and scenarios of a
session.
"""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.harness.measuring.repeat import Repeat
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.storage.result import Result
from reusebench.targets.outcome import Failure

__all__ = ["Outputs"]


class Outputs:
    """The outputs seen so far in a session, as digests."""

    def __init__(self) -> None:
        #: By runtime, model and options: the outputs' digests, and the scenario that gave them
        #: first.
        self._known: dict[tuple[str, str, frozenset[str]], tuple[tuple[str, ...], str]] = {}
        #: By runtime, model, video and number of the frame: the checksum of the outputs.
        self._of_frames: dict[tuple[str, str, str, str], int] = {}

    def differ(self, result: Result, repeats: Sequence[Repeat]) -> Failure | None:
        """Return a failure where a model's outputs differ within the result, or from those of an
        earlier one.
        """
        if not result.computes:
            return None
        return self._inferences_differ(result) or self._frames_differ(result.plan, repeats)

    def _inferences_differ(self, result: Result) -> Failure | None:
        for model in result.models:
            digests = result.output_digests.get(model.digest)
            if not digests:
                continue
            # Another option may be another algorithm, which rounds in another way.
            options = frozenset(
                option for context in result.plan.contexts for option in context.options
            )
            key = (result.runtime, model.digest, options)
            first, scenario = self._known.setdefault(key, (digests, result.scenario))
            if len(digests) > 1 or digests != first:
                message = Message(
                    "outputs_differ",
                    {
                        "model": model.name,
                        "digests": ", ".join(digests),
                        "scenario": scenario,
                        "others": ", ".join(first),
                    },
                )
                return Failure("outputs_differ", "steady", None, message)
        return None

    def _frames_differ(self, plan: Plan, repeats: Sequence[Repeat]) -> Failure | None:
        for repeat in repeats:
            steady = repeat.last("steady") if plan.schedule else None
            if steady is None:
                continue
            per_model = zip(plan.models, steady.data.frame_checksums, steady.data.unequal_frames)
            for model, checksums, within in per_model:
                unequal = within + self._count_unequal(plan, model.digest, checksums)
                if unequal:
                    message = Message("frames_differ", {"model": model.name, "unequal": unequal})
                    return Failure("outputs_differ", "steady", None, message)
        return None

    def _count_unequal(self, plan: Plan, model: str, checksums: dict[str, int]) -> int:
        assert plan.schedule is not None
        video = plan.schedule.video.digest if plan.schedule.video else ""
        unequal = 0
        for number, value in checksums.items():
            unequal += (
                self._of_frames.setdefault((plan.runtime, model, video, number), value) != value
            )
        return unequal
