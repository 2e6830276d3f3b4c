"""Trials of model files in processes of their own: whether a runtime reads and runs them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from reusebench.harness.errors import UnusableModel
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.measured.messages import Message
from reusebench.measured.plan import Context, Conversation, Model, Plan
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.measured.runtimes.base import Interface
from reusebench.models import ModelError
from reusebench.models.inspection import rknn_file
from reusebench.models.inspection.summary import FileSummary, summary_of
from reusebench.targets.barriers import Barrier
from reusebench.targets.chips import runs_models_for
from reusebench.targets.measured_process import interface_of, try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER, Target

__all__ = ["DoesNotRun", "ModelTrials", "Ran"]


#: The conversation of a trial with a language model.
_SHORT = Conversation(tokens=64, prompt=8, generated=2)
#: Code of a message with an option of the runtime that the model needs.
_NEEDS_OPTION = "needs_option"
#: Ends of the codes of messages about a file or a runtime: no other shape would help.
_NOT_OF_SHAPES = (
    "_operator_missing",
    "_operators_missing",
    "_layer_missing",
    "_weights_missing",
    "_conversion_failed",
    "_unreadable",
    "_damaged",
    "_too_new",
    "_too_old",
    "_input_type",
    "_tensor_type",
    "_wrong_platform",
    "_model_of_other_chip",
    "_model_version",
    "_mini_model",
)


class Ran(NamedTuple):
    """A model that has run."""

    #: With the options that it needs.
    model: Model
    latency_ns: int


class DoesNotRun(Exception):
    """A model with certain inputs fails its first inference."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.message))
        self._failure = failure

    @property
    def is_slow(self) -> bool:
        """Whether it only took longer than the time limit."""
        return self._failure.kind == "hung"

    @property
    def is_reported(self) -> bool:
        """Whether the runtime reported an error or refused; it did not end, hang or lack memory."""
        return self._failure.kind in ("failed", "not_supported")

    @property
    def is_final(self) -> bool:
        """Whether no other shape would help: the file, the runtime or the target is to blame."""
        if self._failure.kind in ("connection_lost", "not_measured"):
            return True
        message = self._failure.message
        cause = message.values.get("cause")
        codes = [message.code]
        if isinstance(cause, Message):
            codes.append(cause.code)
        return any(code.endswith(_NOT_OF_SHAPES) for code in codes)


@dataclass
class ModelTrials:
    """Reads each file once for each runtime."""

    targets: Mapping[str, Target]
    time_limit_s: float
    #: Key: path of a file that runs only with an option; value: the reason.
    needed: dict[str, Message] = field(default_factory=dict)
    #: Key: runtime and path.
    _interfaces: dict[tuple[str, Path], Interface] = field(default_factory=dict)

    def interface(self, runtime: RuntimeEntry, file: ModelFile) -> Interface:
        """Return the inputs and outputs of a file; raise UnusableModel if it cannot be loaded."""
        path = file.path.resolve()
        key = (runtime.name, path)
        if key not in self._interfaces:
            target = self._target(runtime)
            origin = _checked_origin(file, target) if runtime.suffix == ".rknn" else ""
            interface = interface_of(target, runtime.name, str(path), self.time_limit_s)
            if isinstance(interface, Failure):
                # What the reader says of a language model tells more than the runtime's words.
                problem = summary_of(path).problem if runtime.has_conversations else ""
                raise UnusableModel(
                    f"{file.option} {file.path.name}{origin} cannot be loaded:"
                    f" {problem or interface.message}"
                )
            self._interfaces[key] = _with_free_sizes(interface, summary_of(path))
        return self._interfaces[key]

    def run(self, runtime: RuntimeEntry, model: Model, limit_s: float = math.inf) -> Ran:
        """Run the model alone.

        A step takes at most `limit_s` or the session's time limit. Raises DoesNotRun if an
        inference fails.
        """
        outcome = self._outcome(runtime, model, limit_s)
        if isinstance(outcome, Failure) and outcome.message.code == _NEEDS_OPTION:
            self.needed[model.path] = outcome.message
            model = replace(model, options=(str(outcome.message.values["option"]),))
            outcome = self._outcome(runtime, model, limit_s)
        if isinstance(outcome, Failure):
            raise DoesNotRun(outcome)
        return Ran(model, _latency_ns(outcome))

    def _outcome(
        self, runtime: RuntimeEntry, model: Model, limit_s: float
    ) -> list[Barrier] | Failure:
        plan = Plan(
            "trial",
            None,
            runtime.name,
            (model,),
            (Context(None, 0),),
            cores=1,
            rounds=1,
            conversation=_SHORT if runtime.has_conversations else None,
        )
        return try_plan(self._target(runtime), plan, min(limit_s, self.time_limit_s))

    def _target(self, runtime: RuntimeEntry) -> Target:
        """Return the target of the runtime; one that is not measured reads files here."""
        return self.targets.get(runtime.name, THIS_INTERPRETER)


def _latency_ns(barriers: Sequence[Barrier]) -> int:
    """Return the latency of the last inference of the only context; 0 if none was timed."""
    latency_ns = 0
    for barrier in barriers:
        latency_ns = barrier.data.latency_ns or latency_ns
        for latencies_ns in barrier.data.latencies_ns:
            latency_ns = latencies_ns[-1] if latencies_ns else latency_ns
    return latency_ns


def _with_free_sizes(interface: Interface, summary: FileSummary) -> Interface:
    """Return the interface with the sizes free that the file leaves free.

    LiteRT gives 1 for such a size if an older converter wrote the file.
    """
    inputs = []
    for tensor in interface.inputs:
        declared = summary.inputs.get(tensor.name, ())
        if len(declared) == len(tensor.dimensions):
            pairs = zip(tensor.dimensions, declared)
            sizes = tuple(size if isinstance(of_file, int) else of_file for size, of_file in pairs)
            tensor = tensor._replace(dimensions=sizes)
        inputs.append(tensor)
    return interface._replace(inputs=tuple(inputs))


def _checked_origin(file: ModelFile, target: Target) -> str:
    """Return the maker of a .rknn file, as an insertion.

    Raises UnusableModel if the file cannot run on the target's chip.
    """
    text = ""
    for path in filter(None, (file.weightless, file.path)):
        try:
            origin = rknn_file.origin(path)
        except ModelError as error:
            raise UnusableModel(f"{file.option} {error}. Copy or convert it again") from None
        if origin is None:
            continue
        chips = " and ".join(origin.platforms)
        text = f" (by rknn-toolkit2 {origin.toolkit_version} for {chips})"
        chip = target.chip
        if chip and not any(runs_models_for(chip, platform) for platform in origin.platforms):
            raise UnusableModel(
                f"{file.option} {path.name} is for {chips}, and {target.name} has the NPU of"
                f" {chip}, which is another one. Convert the ONNX file for that chip"
                " (target_platform of rknn-toolkit2), or give the .onnx file itself"
            )
    return text
