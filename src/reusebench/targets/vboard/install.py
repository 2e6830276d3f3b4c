"""Installation of the virtual board for a library: all its parts, made once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from reusebench.system import processes
from reusebench.system.package import START
from reusebench.targets.errors import TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.programs import PRELOAD
from reusebench.targets.rknn_library import RknnLibrary
from reusebench.targets.sandbox import ensure_sandbox
from reusebench.targets.vboard.bytecode import ensure_bytecode
from reusebench.targets.vboard.emulator import ensure_emulator, is_needed
from reusebench.targets.vboard.folders import check_usable
from reusebench.targets.vboard.guest import guest, machine_of
from reusebench.targets.vboard.root_file_system import ensure_system

__all__ = ["install"]

#: Loads the library and all modules of the driver, so that both are known to work.
_TRIAL = (str(START), "reusebench.measured.versions", "reusebench.measured.runtimes.rknn.adapter")
_TRIAL_TIME_LIMIT_S = 60


def install(library: RknnLibrary, sources: Path | None, show_step: Callable[[str], None]) -> None:
    """Make the missing parts; a TargetError says which part is unavailable and how to get it."""
    check_usable()
    ensure_sandbox(show_step)
    PRELOAD.ensure(library.architecture, show_step)
    if is_needed(library.architecture):
        ensure_system(library.architecture, sources, show_step)
        ensure_emulator(library.architecture, show_step)
        ensure_bytecode(library.architecture, show_step)
    board = guest(library.chips()[0], library)
    command, variables = machine_of(library).confine(
        (*board.command, *_TRIAL), board.environment, Reach()
    )
    try:
        done = processes.run(command, Path("/"), {**os.environ, **variables}, _TRIAL_TIME_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"{library.path} does not load on the virtual board: {error}") from error
    if done.returncode:
        last_words = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
        raise TargetError(f"{library.path} does not load on the virtual board: {last_words}")
