"""Paths of this package, and the command that starts its programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Optional

__all__ = ["MEASURED", "NATIVE", "PACKAGE", "QUESTIONS", "START", "python_command"]

#: Folder of `reusebench`, in a checkout or among installed packages.
PACKAGE = Path(__file__).resolve().parents[1]
#: Folder with everything that the measured process runs.
MEASURED = PACKAGE / "measured"
#: Folder of the C sources.
NATIVE = PACKAGE / "native"
#: Folder of the files that `reusebench bench` runs.
QUESTIONS = PACKAGE / "bench"
#: Script that starts every program of this package.
START = MEASURED / "start.py"


def python_command(*program: str, python: Optional[str] = None) -> list[str]:
    """Return the command that runs a module with its arguments; without a module, the driver.

    `python` is the interpreter, by default this one. The program may run in the user's working
    folder: nothing there is imported, as it would be with `python -m`.

        >>> python_command("reusebench", "doctor")[2:]
        ['reusebench', 'doctor']
    """
    return [python or sys.executable, str(START), *program]
