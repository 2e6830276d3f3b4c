"""Interpreters that have a runtime: this Python, the runtime's own environment, or the user's."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from reusebench.measured.runtimes import RuntimeEntry, available
from reusebench.measured.versions import MARK
from reusebench.models import converter_of
from reusebench.models.conversion.environments import ConverterEnvironment
from reusebench.system import processes

__all__ = ["finds_runtime", "interpreter_problem", "printed_versions", "python_with", "remedy"]

#: Programs that print nothing and exit with 0 for yes.
_RUNS_THE_DRIVER = "import sys; sys.exit(sys.version_info < (3, 8))"
_FINDS_MODULE = (
    "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
)
_TIME_LIMIT_S = 30


def python_with(entry: RuntimeEntry) -> str | None:
    """Return this interpreter or the one of the runtime's environment; None if none has it.

    Nothing of the runtime is imported.
    """
    if available(entry):
        return sys.executable
    environment = _own_environment(entry)
    if environment and environment.installed():
        return str(environment.python())
    return None


def remedy(entry: RuntimeEntry) -> str:
    """Return advice for a runtime that python_with() does not find, or the machines it needs."""
    environment = _own_environment(entry)
    if environment and platform.machine() not in environment.machines:
        return f"it is made for {environment.machines_in_words} alone"
    return entry.install


def _own_environment(entry: RuntimeEntry) -> ConverterEnvironment | None:
    """Return the environment of the runtime's converter if the runtime is installed in it."""
    if not entry.has_own_python:
        return None
    converter = converter_of(entry.kind)
    environment = converter.environment if converter else None
    return environment if isinstance(environment, ConverterEnvironment) else None


def finds_runtime(interpreter: str, entry: RuntimeEntry) -> bool:
    """Whether the interpreter has the runtime. Nothing of the runtime is imported."""
    if entry.module is None:
        return available(entry)
    return _exit_code(interpreter, _FINDS_MODULE, entry.module) == 0


def interpreter_problem(interpreter: str) -> str | None:
    """Return the reason why the driver cannot run on the interpreter, or None."""
    try:
        if _exit_code(interpreter, _RUNS_THE_DRIVER) == 0:
            return None
        return "it is not Python 3.8 or later"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run ({error})"


def printed_versions(output: str) -> tuple[str, str]:
    """Return the versions of Python and of a runtime from the output of measured.versions."""
    (line,) = (line for line in output.splitlines() if line.startswith(MARK))
    _, python_version, version = line.split(" ", 2)
    return python_version, version


def _exit_code(interpreter: str, code: str, *arguments: str) -> int:
    """Run the code in the folder that the driver runs in, and return its exit code."""
    command = [interpreter, "-c", code, *arguments]
    return processes.run(command, Path("/"), time_limit_s=_TIME_LIMIT_S).returncode
