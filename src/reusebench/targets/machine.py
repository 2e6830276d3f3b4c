"""The machine of a target: starts drivers, and has paths for their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reusebench.measured.plan import Model, Plan
from reusebench.samplers.host import LOCAL_HOST, Host
from reusebench.targets.process import DriverProcess, LocalProcess

__all__ = ["LOCAL", "LocalMachine", "Machine", "Reach"]


@dataclass(frozen=True)
class Reach:
    """The user's files that a program needs, by absolute path.

    A program without a sandbox reaches all files.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()

    @classmethod
    def of_models(cls, models: Iterable[Model]) -> Reach:
        """Return the files of models."""
        paths: list[str | None] = []
        for model in models:
            paths += [model.path, model.prepared, model.weightless]
            paths += [tensor.file for tensor in model.inputs]
        return cls(tuple(path for path in paths if path))

    @classmethod
    def of_plan(cls, plan: Plan) -> Reach:
        """Return the files of a plan."""
        reach = cls.of_models(plan.models)
        if plan.schedule is None or plan.schedule.video is None:
            return reach
        return cls((*reach.readable, plan.schedule.video.path))


class Machine(Protocol):
    """A machine that runs drivers.

    Every method may raise ConnectionLost, or TargetError of a remote board.
    """

    #: The source of readings for samplers.
    host: Host

    def start(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        reach: Reach,
    ) -> DriverProcess:
        """Start a program in the folder, with these variables added to the environment.

        `reach` has the files that it needs.
        """

    def plan_there(self, plan: Plan) -> Plan:
        """Make the plan's files available; return the plan with their paths on the machine."""

    def model_there(self, model: Model) -> Model:
        """Make the model's files available; return the model with their paths on the machine."""

    def path_there(self, path: str) -> str:
        """Make a file available; return its path on the machine."""

    def folder_there(self, folder: Path) -> str:
        """Return the machine's counterpart of `folder`, which has files made of user's models."""

    def close(self) -> None:
        """Release the machine until it is used again."""


class LocalMachine:
    """This machine."""

    host: Host = LOCAL_HOST

    def start(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        reach: Reach,
    ) -> DriverProcess:
        """Start a program."""
        confined, variables = self.confine(command, environment, reach)
        return LocalProcess(confined, folder, variables, keeps_ledger)

    def confine(
        self,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        reach: Reach,  # noqa: ARG002  all files are reachable
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the command and variables that start the program: unchanged on this machine."""
        return command, dict(environment)

    def plan_there(self, plan: Plan) -> Plan:
        """Return the plan unchanged."""
        return plan

    def model_there(self, model: Model) -> Model:
        """Return the model unchanged."""
        return model

    def path_there(self, path: str) -> str:
        """Return the path unchanged."""
        return path

    def folder_there(self, folder: Path) -> str:
        """Return the folder unchanged."""
        return str(folder)

    def close(self) -> None:
        """Do nothing."""


LOCAL = LocalMachine()
