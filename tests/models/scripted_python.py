"""Replaces Python, venv and pip during installations by an interpreter that logs its arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

__all__ = ["BUILDS_OF_TORCH", "ScriptedPython"]

_REAL_PYTHON = sys.executable

# Logs its arguments, makes an environment with itself as Python, and fails as the test says.
_PYTHON = r"""#!{python} -IS
import json, os, sys

arguments = sys.argv[2:]
behaviour = json.load(open("{behaviour}"))
if "ensurepip" in arguments[-1]:
    sys.exit(not behaviour["fits"])
with open("{log}", "a") as log:
    log.write(json.dumps(arguments) + "\n")
if arguments[:2] == ["-m", "venv"]:
    os.makedirs(arguments[2] + "/bin")
    os.link(sys.argv[0], arguments[2] + "/bin/python")
if behaviour["fails"] and behaviour["fails"] in " ".join(arguments):
    sys.exit(
        "Looking in indexes: somewhere\nERROR: No matching distribution found\n\n"
        "[notice] pip is old"
    )
if behaviour["interrupts"] and behaviour["interrupts"] in " ".join(arguments):
    import signal, time
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
if "versions" in arguments:
    print(behaviour["torch"])
"""

#: pip's list of PyTorch's versions.
BUILDS_OF_TORCH = "torch (2.9.0)\nAvailable versions: 2.9.0, 2.8.1+cpu, 2.8.1, 2.7.0+cpu, 2.7.0"


class ScriptedPython:
    """The scripted interpreter."""

    def __init__(self, folder: Path, name: str) -> None:
        """Put it into folder under that name."""
        self.path = folder / name
        self._behaviour = folder / "behaviour"
        self._log = folder / "log"
        self.behave()
        self._log.touch()
        self.path.write_text(
            _PYTHON.format(python=_REAL_PYTHON, behaviour=self._behaviour, log=self._log)
        )
        self.path.chmod(0o755)

    def behave(
        self,
        *,
        fits: bool = True,
        fails: str = "",
        interrupts: str = "",
        torch: str = BUILDS_OF_TORCH,
    ) -> None:
        """Set whether it fits, and the words in its arguments at which it fails or sends Ctrl-C."""
        behaviour = {"fits": fits, "fails": fails, "interrupts": interrupts, "torch": torch}
        self._behaviour.write_text(json.dumps(behaviour))

    def calls(self) -> list[list[str]]:
        """Return the arguments of all calls but the first look at its version."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def installs(self) -> list[list[str]]:
        """Return pip's install arguments, call by call, without options."""
        installs = [call[3:] for call in self.calls() if call[:3] == ["-m", "pip", "install"]]
        return [call[call.index(":all:") + 1 :] for call in installs]
