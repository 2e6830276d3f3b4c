"""Where this package is, and how programs of it are started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Optional

__all__ = ["MEASURED", "NATIVE", "PACKAGE", "QUESTIONS", "START", "python_command"]

#: The folder of `reusebench`: in a checkout or among installed packages.
PACKAGE = Path(__file__).resolve().parents[1]
#: All that the measured process runs.
MEASURED = PACKAGE / "measured"
#: The sources in C.
NATIVE = PACKAGE / "native"
#: The files that `reusebench bench` runs.
QUESTIONS = PACKAGE / "bench"
#: The script that starts every program of this package.
START = MEASURED / "start.py"


def python_command(*program: str, python: Optional[str] = None) -> list[str]:
    """Return the command that runs a module, ours or another's, with its arguments; without one,
    the driver.

    `python` is the interpreter, by default this one. The program may run in the user's working
    folder: nothing there is imported, as it would be with `python -m`.

        >>> python_command("reusebench", "doctor")[2:]
        ['reusebench', 'doctor']
    """
    return [python or sys.executable, str(START), *program]
