"""Installation of a virtual board: all its parts, made once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from reusebench.system import processes
from reusebench.system.package import START
from reusebench.targets.errors import TargetError
from reusebench.targets.interpreters import printed_versions
from reusebench.targets.machine import Reach
from reusebench.targets.programs import PRELOAD
from reusebench.targets.sandbox import ensure_sandbox
from reusebench.targets.vboard.bytecode import ensure_bytecode
from reusebench.targets.vboard.emulator import ensure_emulator
from reusebench.targets.vboard.folders import check_usable
from reusebench.targets.vboard.virtual_board import VirtualBoard

__all__ = ["install"]

#: Loads the library and all modules of the driver, so that both are known to work.
_VERSIONS = (str(START), "reusebench.measured.versions")
_TRIAL_TIME_LIMIT_S = 180


def install(board: VirtualBoard, sources: Path | None, show_step: Callable[[str], None]) -> str:
    """Make the missing parts, and return the version of the runtime.

    A TargetError says which part is unavailable and how to get it.
    """
    check_usable()
    ensure_sandbox(show_step)
    PRELOAD.ensure(board.architecture, show_step)
    ensure_emulator(board.architecture, show_step)
    if board.system is not None:
        board.system.ensure(sources, show_step)
        ensure_bytecode(board.system, show_step)
    output = _tried(board, (*_VERSIONS, board.adapter))
    if board.trial is not None:
        _tried(board, ("-c", board.trial))
    _, version = printed_versions(output)
    return version


def _tried(board: VirtualBoard, words: tuple[str, ...]) -> str:
    """Run Python on the board, and return its output; raise TargetError if it fails."""
    python = board.guest()
    command, variables = board.machine().confine(
        (*python.command, *words), python.environment, Reach()
    )
    try:
        done = processes.run(command, Path("/"), {**os.environ, **variables}, _TRIAL_TIME_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _does_not_load(board, str(error)) from error
    if done.returncode:
        last_words = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
        raise _does_not_load(board, last_words)
    return done.stdout


def _does_not_load(board: VirtualBoard, reason: str) -> TargetError:
    return TargetError(f"{board.library} does not load on the virtual board: {reason}")
