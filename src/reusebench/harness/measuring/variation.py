"""Models whose outputs differ from inference to inference, though their inputs are equal.

They have random numbers in them, or state that they keep. Their memory is measured; their outputs
are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.measured.messages import Message
from reusebench.measured.plan import Context, Model, Plan
from reusebench.models.inspection.summary import summary_of
from reusebench.targets.measured_process import try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target

__all__ = ["Variation"]

#: Inferences of a trial after the first two, whose outputs are compared with the last one's.
_ROUNDS = 3


@dataclass
class Variation:
    """Finds out why the outputs of a model differ; it is asked only if they do.

    The file tells, as far as its format shows it. Otherwise a context that shares nothing runs
    several times with the same input, in two processes.
    """

    targets: Mapping[str, Target]
    time_limit_s: float
    #: Key: runtime, the model's digest, its options. None if the outputs should be equal.
    _known: dict[tuple[str, str, tuple[str, ...]], Message | None] = field(default_factory=dict)

    def reason(self, plan: Plan, model: Model) -> Message | None:
        """Return the reason why outputs of a model are not compared; None if they should be equal.

        The model is one of the plan's.
        """
        options = _options_of(plan, model)
        key = (plan.runtime, model.digest, options)
        if key not in self._known:
            self._known[key] = _reason_in_file(model) or self._reason_of_trial(plan, model, options)
        return self._known[key]

    def _reason_of_trial(
        self, plan: Plan, model: Model, options: tuple[str, ...]
    ) -> Message | None:
        alone = Plan(
            "trial",
            None,
            plan.runtime,
            (model,),
            (Context(None, 0, options=options),),
            cores=1,
            rounds=_ROUNDS,
            conversation=plan.conversation,
        )
        digests = []
        for _ in range(2):
            barriers = try_plan(self.targets[plan.runtime], alone, self.time_limit_s)
            if isinstance(barriers, Failure):
                return None
            of_process: list[str] = []
            for barrier in barriers:
                of_process += filter(None, (barrier.data.digest, *barrier.data.digests))
            digests.append(of_process)
        if any(len(set(of_process)) > 1 for of_process in digests):
            return Message("outputs_vary")
        if digests[0] != digests[1]:
            return Message("outputs_vary_by_process")
        return None


def _options_of(plan: Plan, model: Model) -> tuple[str, ...]:
    """Return the options of the plan's first context of the model."""
    for index, context in enumerate(plan.contexts):
        if plan.models[context.model] == model:
            return plan.options_of(index)
    return ()


def _reason_in_file(model: Model) -> Message | None:
    """Return the reason that the file shows, or the one that it was converted from."""
    paths = [model.path]
    if model.conversion:
        paths.append(model.conversion.source)
    for path in paths:
        varying = summary_of(Path(path)).varying
        if varying:
            return Message("outputs_vary_by_operators", {"operators": ", ".join(varying)})
    return None
