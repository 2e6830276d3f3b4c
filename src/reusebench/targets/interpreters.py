"""Which Python has which runtime: this one, the runtime's own environment, or another that the user
names.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from reusebench.measured.runtimes import RuntimeEntry, available
from reusebench.models import converter_of
from reusebench.models.conversion.environments import ConverterEnvironment
from reusebench.system import processes

__all__ = ["finds_runtime", "interpreter_problem", "python_with", "remedy"]

#: Print nothing, and end with 0 for yes.
_RUNS_THE_DRIVER = "import sys; sys.exit(sys.version_info < (3, 8))"
_FINDS_MODULE = (
    "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
)
_TIME_LIMIT_S = 30


def python_with(entry: RuntimeEntry) -> str | None:
    """Return the interpreter that has the runtime: this one, or that of the runtime's own
    environment; None: neither.

    Imports nothing of the runtime.
    """
    if available(entry):
        return sys.executable
    own = _own_environment(entry)
    return str(own.python()) if own and own.installed() else None


def remedy(entry: RuntimeEntry) -> str:
    """Return what brings a runtime that python_with() does not find; which machines it is for,
    where this is none.
    """
    own = _own_environment(entry)
    if own and platform.machine() not in own.machines:
        return f"it is made for {own.machines_in_words} alone"
    return entry.install


def _own_environment(entry: RuntimeEntry) -> ConverterEnvironment | None:
    """Return the environment of its converter where it lives there; None if it lives beside this
    project.
    """
    converter = converter_of(entry.suffix) if entry.has_own_python else None
    environment = converter.environment if converter else None
    return environment if isinstance(environment, ConverterEnvironment) else None


def finds_runtime(interpreter: str, entry: RuntimeEntry) -> bool:
    """Whether that interpreter has the runtime; a process of it looks, which imports nothing of the
    runtime.
    """
    return (
        available(entry)
        if entry.module is None
        else _exit_code(interpreter, _FINDS_MODULE, entry.module) == 0
    )


def interpreter_problem(interpreter: str) -> str | None:
    """Return why the driver cannot run on that interpreter; None if it can."""
    try:
        return "it is no Python 3.8 or later" if _exit_code(interpreter, _RUNS_THE_DRIVER) else None
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run ({error})"


def _exit_code(interpreter: str, code: str, *arguments: str) -> int:
    """Run the code where the driver runs, and return its exit code."""
    command = [interpreter, "-c", code, *arguments]
    return processes.run(command, Path("/"), time_limit_s=_TIME_LIMIT_S).returncode
