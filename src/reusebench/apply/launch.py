"""The start of an applied program, by its environment alone."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from reusebench.apply.errors import ApplyError
from reusebench.apply.executable import (
    Executable,
    check_machine,
    find_executable,
    not_started,
)
from reusebench.apply.rknn import form_for
from reusebench.apply.settings import (
    HOOKS,
    PLAN_NAME,
    PROBLEMS_NAME,
    REPORT_NAME,
    ApplySettings,
    with_hooks,
    with_library,
)
from reusebench.apply.waiting import started_environment
from reusebench.system.files import started_umask

__all__ = ["applied_variables", "new_report_folder", "run"]

_WAITING = Path(__file__).with_name("waiting.py")
_OUTPUT, _ERRORS = 1, 2
#: Everybody may append a line, as a program that root has started may become another user's.
_APPENDED_BY_ALL, _ENTERED_BY_ALL, _READ_BY_ALL = 0o622, 0o711, 0o644


def applied_variables(
    settings: ApplySettings,
    executable: Executable,
    environment: Mapping[str, str],
    show_step: Callable[[str], None],
    warn: Callable[[str], None],
) -> dict[str, str]:
    """Return the variables to add to a program's environment.

    The library is compiled if need be; `warn` gets what prevents that.
    """
    variables = settings.variables()
    if os.pathsep not in str(HOOKS):
        variables.update(with_hooks(environment))
    library = _library(executable, environment, show_step, warn)
    if library:
        variables.update(with_library(library, environment))
    return variables


def _library(
    executable: Executable,
    environment: Mapping[str, str],
    show_step: Callable[[str], None],
    warn: Callable[[str], None],
) -> str | None:
    """Return the library's path; None if there is none, for the program runs without it then."""
    form = form_for(executable, environment)
    if form is None:
        return None
    # Not at the top: its imports would delay the start of programs without RKNN.
    from reusebench.apply.library import library_path

    try:
        return library_path(form, show_step)
    except ApplyError as error:
        warn(f"RKNN is left alone: {error}")
        return None


def run(
    command: Sequence[str],
    settings: ApplySettings,
    after: Sequence[str],
    is_output_json: bool,
    show_step: Callable[[str], None],
    plan: str | None = None,
) -> NoReturn:
    """Replace this process by a small one that runs the command, and executes `after` at its end.

    `after` gets the folder of the report as a further word, and what waiting.py adds.
    Raises ApplyError if the command cannot be started. If standard output is JSON's alone, the
    program writes to standard error. `plan` is the text for REUSEBENCH_APPLY_PLAN; it is in the
    report's folder.
    """
    environment = started_environment()
    executable = find_executable(command, environment)
    check_machine(executable)
    folder = new_report_folder(plan)
    settings = settings.in_folder(folder)
    problems: list[str] = []
    variables = applied_variables(settings, executable, environment, show_step, problems.append)
    (folder / PROBLEMS_NAME).write_text("\n".join(problems), encoding="utf-8")
    assignments = [f"{name}={value}" for name, value in variables.items()]
    after = [*after, str(folder)]

    words = [sys.executable, "-I", "-S", str(_WAITING)]
    words += [str(_ERRORS if is_output_json else _OUTPUT), str(len(after)), *after]
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed
        stream.flush()
    try:
        with started_umask():
            os.execve(words[0], [*words, *assignments, "--", *command], environment)
    except OSError as error:  # as when the command line is too long
        shutil.rmtree(folder, ignore_errors=True)
        raise not_started(command[0], error.errno or 0) from None


def new_report_folder(plan: str | None) -> Path:
    """Return a new folder with the file that processes append to, and the plan if there is one.

    Raises ApplyError if that cannot be written.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="reusebench-apply-"))
        (folder / REPORT_NAME).touch()
        if plan:
            (folder / PLAN_NAME).write_text(plan, encoding="utf-8")
    except OSError as error:
        raise ApplyError(
            f"no report can be written to a temporary folder ({error.strerror}). Set TMPDIR to a"
            " folder that is writable and has room"
        ) from None
    if os.geteuid() == 0:
        folder.chmod(_ENTERED_BY_ALL)
        (folder / REPORT_NAME).chmod(_APPENDED_BY_ALL)
        if plan:
            (folder / PLAN_NAME).chmod(_READ_BY_ALL)
    return folder
