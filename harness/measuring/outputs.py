"""Whether a model's outputs are the same everywhere that they were taken in a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from messages import Message
from scenarios.plan import Plan
from storage.result import Repeat
from targets.outcome import Failure

__all__ = ["Outputs"]


class Outputs:
    """The outputs seen so far in a session, as digests."""

    def __init__(self) -> None:
        #: By runtime and model: the outputs' digests, and the scenario that gave them first.
        self._known: dict[tuple[str, str], tuple[list[str], str]] = {}
        #: By runtime, model, video and number of the frame: the checksum of the outputs.
        self._of_frames: dict[tuple[str, str, str, str], int] = {}

    def differ(self, info: dict[str, Any], plan: Plan, repeats: Sequence[Repeat]) -> Failure | None:
        """Return a failure where outputs of a result are not those of another one, or not always the same."""
        if not info["computes"]:
            return None
        return self._inferences_differ(info) or self._frames_differ(plan, repeats)

    def _inferences_differ(self, info: dict[str, Any]) -> Failure | None:
        for model in info["models"]:
            digests = info["output_digests"].get(model["digest"])
            if not digests:
                continue
            first, scenario = self._known.setdefault((info["runtime"], model["digest"]), (digests, info["scenario"]))
            if len(digests) > 1 or digests != first:
                message = Message(
                    "outputs_differ",
                    {
                        "model": model["name"],
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
            data = steady["data"] if steady else {"frame_checksums": (), "unequal_frames": ()}
            for index, (checksums, within) in enumerate(zip(data["frame_checksums"], data["unequal_frames"])):
                unequal = within + self._count_unequal(plan, index, checksums)
                if unequal:
                    name = plan.models[index].name
                    message = Message("frames_differ", {"model": name, "unequal": unequal})
                    return Failure("outputs_differ", "steady", None, message)
        return None

    def _count_unequal(self, plan: Plan, model: int, checksums: dict[str, int]) -> int:
        assert plan.schedule is not None
        video = plan.schedule.video.digest if plan.schedule.video else ""
        found = 0
        for number, value in checksums.items():
            key = (plan.runtime, plan.models[model].digest, video, number)
            found += self._of_frames.setdefault(key, value) != value
        return found
