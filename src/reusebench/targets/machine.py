"""The machine that a target is on: how a driver is started there, and what its files are called
there.
"""

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
    """The user's files that a program needs, by their absolute paths; one that is not confined has
    them all.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()

    @classmethod
    def of_models(cls, models: Iterable[Model]) -> Reach:
        """Return the files of models."""
        paths: list[str | None] = []
        for model in models:
            paths += [
                model.path,
                model.prepared,
                model.weightless,
                *(tensor.file for tensor in model.inputs),
            ]
        return cls(tuple(path for path in paths if path))

    @classmethod
    def of_plan(cls, plan: Plan) -> Reach:
        """Return the files of a plan."""
        video = plan.schedule.video if plan.schedule else None
        return cls((*cls.of_models(plan.models).readable, *([video.path] if video else [])))


class Machine(Protocol):
    """Where drivers run. Every method may raise ConnectionLost, or TargetError, of a far board."""

    #: What samplers read.
    host: Host

    def start(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        reach: Reach,
    ) -> DriverProcess:
        """Start a program in the folder, with these variables added to the environment; it needs
        these files.
        """

    def plan_there(self, plan: Plan) -> Plan:
        """Return the plan with the paths that its files have there, where they are from now on."""

    def model_there(self, model: Model) -> Model:
        """Return the model with the paths that its files have there."""

    def path_there(self, path: str) -> str:
        """Return the path that a file has there."""

    def folder_there(self, folder: Path) -> str:
        """Return a folder there for what is made of the user's models, which `folder` is for
        here.
        """

    def close(self) -> None:
        """Leave it to others, until it is used again."""


class LocalMachine:
    """This one."""

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
        reach: Reach,  # noqa: ARG002  it has them all
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the command and the variables that start the program: here as they are."""
        return command, dict(environment)

    def plan_there(self, plan: Plan) -> Plan:
        """Return the plan itself."""
        return plan

    def model_there(self, model: Model) -> Model:
        """Return the model itself."""
        return model

    def path_there(self, path: str) -> str:
        """Return the path itself."""
        return path

    def folder_there(self, folder: Path) -> str:
        """Return the folder itself."""
        return str(folder)

    def close(self) -> None:
        """Do nothing."""


LOCAL = LocalMachine()
