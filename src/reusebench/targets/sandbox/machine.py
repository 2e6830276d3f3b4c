"""This machine, of which a program reaches what it needs and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.targets.machine import LocalMachine, Reach
from reusebench.targets.sandbox.build import new_root, sandbox_program

__all__ = ["ConfinedMachine"]

#: They are for the program's loader, and not for the sandbox's.
_OF_THE_LOADER = ("LD_PRELOAD", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class ConfinedMachine(LocalMachine):
    """Starts programs in the sandbox. Nothing of that is left in the process, whose memory is
    weighed.
    """

    #: What every program here needs; later ones may be inside earlier ones.
    reach: Reach
    program: Path = field(default_factory=sandbox_program)

    def confine(
        self, command: tuple[str, ...], environment: Mapping[str, str], reach: Reach
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the command and the variables that start the program in the sandbox."""
        words = [str(self.program), str(new_root(self.program))]
        for part in (self.reach, reach):
            words += [word for path in part.readable for word in ("-r", path)]
            words += [word for path in part.writable for word in ("-w", path)]
        variables = dict(environment)
        for name in _OF_THE_LOADER:
            if name in variables:
                words += ["-e", f"{name}={variables.pop(name)}"]
        return (*words, "--", *command), variables
