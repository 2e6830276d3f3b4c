"""The check that a model's outputs are the same in all contexts, phases, repeats and scenarios."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.harness.measuring.repeat import Repeat
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.storage.result import Result
from reusebench.targets.outcome import Failure

__all__ = ["Outputs"]


class Outputs:
    """Digests and checksums of all outputs of a session until now."""

    def __init__(self) -> None:
        #: Key: runtime, model and options. Digests of the outputs, and the scenario that had them
        #: first.
        self._digests: dict[tuple[str, str, frozenset[str]], tuple[tuple[str, ...], str]] = {}
        #: Checksum of a frame's outputs, by runtime, model, video and number of the frame.
        self._frame_checksums: dict[tuple[str, str, str, str], int] = {}

    def differ(self, result: Result, repeats: Sequence[Repeat]) -> Failure | None:
        """Return a failure if a model's outputs differ within the result, or from earlier ones."""
        if not result.computes:
            return None
        return self._inferences_differ(result) or self._frames_differ(result.plan, repeats)

    def _inferences_differ(self, result: Result) -> Failure | None:
        # Another option may mean another algorithm, which rounds in another way.
        options: set[str] = set()
        for context in result.plan.contexts:
            options.update(context.options)
        for model in result.models:
            digests = result.output_digests.get(model.digest)
            if not digests:
                continue
            key = (result.runtime, model.digest, frozenset(options))
            first, scenario = self._digests.setdefault(key, (digests, result.scenario))
            if len(digests) == 1 and digests == first:
                continue
            values = {
                "model": model.name,
                "digests": ", ".join(digests),
                "scenario": scenario,
                "others": ", ".join(first),
            }
            message = Message("outputs_differ", values)
            return Failure("outputs_differ", "steady", None, message)
        return None

    def _frames_differ(self, plan: Plan, repeats: Sequence[Repeat]) -> Failure | None:
        if plan.schedule is None:
            return None
        for repeat in repeats:
            steady = repeat.last("steady")
            if steady is None:
                continue
            per_model = zip(plan.models, steady.data.frame_checksums, steady.data.unequal_frames)
            for model, checksums, unequal_within in per_model:
                unequal = unequal_within + self._count_unequal(plan, model.digest, checksums)
                if unequal:
                    message = Message("frames_differ", {"model": model.name, "unequal": unequal})
                    return Failure("outputs_differ", "steady", None, message)
        return None

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
