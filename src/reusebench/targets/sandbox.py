"""The sandbox of the virtual board: programs that reach the files they need and nothing else."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.targets.machine import LocalMachine, Reach
from reusebench.targets.process import DriverProcess, LocalProcess
from reusebench.targets.programs import SANDBOX
from reusebench.targets.rknn_library import architecture_of_this_python
from reusebench.targets.starter_link import StarterLink

__all__ = ["SandboxedMachine", "ensure_sandbox", "new_root", "sandbox_problem", "sandbox_program"]

#: Variables for the loader of the sandboxed program, not for the sandbox's own.
_LOADER_VARIABLES = ("LD_PRELOAD", "LD_LIBRARY_PATH")
_TIME_LIMIT_S = 20


def sandbox_program() -> Path:
    """Return the path of the sandbox's program, which exists once it is compiled."""
    return SANDBOX.path(architecture_of_this_python() or "unknown")


def new_root(program: Path) -> Path:
    """Return the empty folder over which the program makes its root."""
    return program.with_name("root")


def ensure_sandbox(show_step: Callable[[str], None]) -> None:
    """Compile the sandbox unless that is done, if there is a compiler for this processor."""
    architecture = architecture_of_this_python()
    if architecture is None:
        return
    SANDBOX.ensure(architecture, show_step)
    new_root(sandbox_program()).mkdir(exist_ok=True)


def sandbox_problem() -> str | None:
    """Return the reason why programs cannot be sandboxed here, or None; it is tried once."""
    program = sandbox_program()
    if not program.is_file():
        return (
            "the sandbox is not compiled yet: reusebench board install --rknn-library FILE, or"
            " --target vboard:rocket"
        )
    return _refusal_of(program, new_root(program))


@functools.lru_cache(maxsize=1)
def _refusal_of(program: Path, root: Path) -> str | None:
    command = [str(program), str(root), "--"]
    try:
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, check=False, timeout=_TIME_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() or None


@dataclass(frozen=True)
class SandboxedMachine(LocalMachine):
    """This machine, with every program in the sandbox.

    Nothing of the sandbox remains in the measured process or adds to its memory. The sandbox's own
    process stays beside it, and ends as it did.
    """

    #: Files that every program here needs; later paths may be inside earlier ones.
    reach: Reach
    program: Path = field(default_factory=sandbox_program)

    def start(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        reach: Reach,
    ) -> DriverProcess:
        """Start a program in the sandbox."""
        link = StarterLink()
        try:
            confined, variables = self._confined(command, environment, reach, link)
            return LocalProcess(confined, folder, variables, keeps_ledger, link)
        except BaseException:
            link.close()
            raise

    def confine(
        self, command: tuple[str, ...], environment: Mapping[str, str], reach: Reach
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the command and the variables that start the program in the sandbox."""
        return self._confined(command, environment, reach)

    def _confined(
        self,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        reach: Reach,
        link: StarterLink | None = None,
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        words = [str(self.program), str(new_root(self.program))]
        if link:
            words += ["-c", str(link.descriptor)]
        for part in (self.reach, reach):
            for path in part.readable:
                words += ["-r", path]
            for path in part.writable:
                words += ["-w", path]

        variables = dict(environment)
        for name in _LOADER_VARIABLES:
            if name in variables:
                words += ["-e", f"{name}={variables.pop(name)}"]
        return (*words, "--", *command), variables
