"""Trials of model files in processes of their own: whether a runtime reads and runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.harness.errors import UnusableModel
from reusebench.harness.measuring.models.model_files import ModelFile
from reusebench.measured.plan import Context, Model, Plan
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.measured.runtimes.base import Interface
from reusebench.models import ModelError
from reusebench.models.inspection import rknn_file
from reusebench.targets.chips import runs_models_for
from reusebench.targets.measured_process import interface_of, try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER, Target

__all__ = ["DoesNotRun", "ModelTrials"]


class DoesNotRun(Exception):
    """A model with certain inputs fails its first inference."""


@dataclass
class ModelTrials:
    """Reads each file once for each runtime."""

    targets: Mapping[str, Target]
    time_limit_s: float
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
                raise UnusableModel(
                    f"{file.option} {file.path.name}{origin} cannot be loaded: {interface.message}"
                )
            self._interfaces[key] = interface
        return self._interfaces[key]

    def check_runs(self, runtime: RuntimeEntry, model: Model) -> None:
        """Raise DoesNotRun unless one inference runs."""
        plan = Plan("trial", None, runtime.name, (model,), (Context(None, 0),), cores=1, rounds=1)
        outcome = try_plan(self._target(runtime), plan, self.time_limit_s)
        if isinstance(outcome, Failure):
            raise DoesNotRun(outcome.message)

    def _target(self, runtime: RuntimeEntry) -> Target:
        """Return the target of the runtime; one that is not measured reads files here."""
        return self.targets.get(runtime.name, THIS_INTERPRETER)


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
