"""The files that plans are measured with, which must not change during a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE, find_library
from reusebench.system.user_files import ChangedFile, Pins
from reusebench.targets.machine import LocalMachine
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target

__all__ = ["InputFiles"]


class InputFiles:
    """The models, data, video and Rockchip library of a session's plans."""

    def __init__(self, targets: Mapping[str, Target], pins: Pins) -> None:
        """Pin the library of each target's runtime."""
        self._targets = targets
        self._pins = pins
        for runtime in targets:
            self.pin_library(runtime)

    def pin_library(self, runtime: str) -> None:
        """Pin Rockchip's library, if the runtime is measured with one on this machine."""
        library = self._library(runtime)
        if library:
            self._pins.check(library)

    def failure_if_changed(self, plan: Plan, phase: str) -> Failure | None:
        """Return a failure in `phase` if a file of the plan has changed."""
        for path in self._paths(plan):
            try:
                self._pins.check(path)
            except ChangedFile:
                message = Message("input_changed", {"file": str(path)})
                return Failure("input_changed", phase, None, message)
        return None

    def _paths(self, plan: Plan) -> Iterator[Path]:
        for model in plan.models:
            arrays = [tensor.file for tensor in model.inputs]
            for path in (model.path, model.weightless, *arrays):
                if path:
                    yield Path(path)
        if plan.schedule and plan.schedule.video:
            yield Path(plan.schedule.video.path)
        library = self._library(plan.runtime)
        if library:
            yield library

    def _library(self, runtime: str) -> Path | None:
        """Return Rockchip's library that is measured; None if there is none, or it is on a remote
        board.
        """
        target = self._targets[runtime]
        if not isinstance(target.machine, LocalMachine):
            # The library was pushed when the session began, and stays as it is.
            return None
        path = target.environment.get(LIBRARY_VARIABLE)
        if not path and runtime == "rknn":
            path = find_library()
        return Path(path) if path else None
