"""From what the user writes after --target to a Target."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from runtimes.rknn.library import LIBRARY_VARIABLE
from targets.base import THIS_INTERPRETER, Target
from targets.chips import CHIPS, chip_of_this_machine, playable_chips
from targets.errors import (
    ChipNotPlayed,
    ChipUnknown,
    InterpreterNotUsable,
    LedgerNotInstalled,
    LibraryNotForChip,
    LibraryNotForInterpreter,
    LibraryNotNamed,
    TargetUnknown,
    VirtualBoardNotInstalled,
)
from targets.preload.build import is_built, preload_library
from targets.rknn_library import Library, architecture_of, read_library
from targets.vboard.guest import guest, missing_parts

__all__ = ["check_chip", "parse_target"]

_DRIVER = ("-m", "scenarios.driver")
#: Prints nothing, and ends with 0 on a Python that the driver runs on.
_VERSION_CHECK = "import sys; sys.exit(sys.version_info < (3, 8))"
_VERSION_CHECK_TIME_LIMIT_S = 30


def parse_target(text: str, rknn_library: Path | None) -> Target:
    """Return the target; raise a TargetError, in words for the user, where it cannot be used."""
    library = None if rknn_library is None else read_library(rknn_library)
    if text in _TARGETS:
        return _TARGETS[text](library)
    kind, _, detail = text.partition(":")
    if kind not in _TARGETS_OF or not detail:
        raise TargetUnknown(text)
    return _TARGETS_OF[kind](detail, library)


def check_chip(name: str, library: Library | None) -> Library:
    """Return the library where the virtual board can play the chip and the library is that chip's."""
    if name not in CHIPS:
        raise ChipUnknown(name, playable_chips())
    if name not in playable_chips():
        raise ChipNotPlayed(name, playable_chips())
    if library is None:
        raise LibraryNotNamed(name, CHIPS[name].runtime)
    if library.kind != CHIPS[name].runtime:
        raise LibraryNotForChip(library.path, library.kind, name, CHIPS[name].runtime)
    return library


def _this_interpreter(library: Library | None) -> Target:
    return Target(
        "python",
        THIS_INTERPRETER.command,
        environment=_environment(library, sys.executable),
        chip=chip_of_this_machine(),
    )


def _other_interpreter(path: str, library: Library | None) -> Target:
    interpreter = shutil.which(path)
    if interpreter is None:
        raise InterpreterNotUsable(path, "there is no such program")
    # Links are not followed: that of a virtual environment is what makes Python take its packages.
    interpreter = os.path.abspath(interpreter)  # noqa: PTH100  Path.absolute() leaves ".." in
    _check_version(path, interpreter)
    return Target(
        f"python:{path}",
        (interpreter, *_DRIVER),
        environment=_environment(library, interpreter),
        chip=chip_of_this_machine(),
    )


def _check_version(path: str, interpreter: str) -> None:
    try:
        code = subprocess.run(
            [interpreter, "-c", _VERSION_CHECK],
            capture_output=True,
            check=False,
            timeout=_VERSION_CHECK_TIME_LIMIT_S,
        ).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InterpreterNotUsable(path, f"it does not run ({error})") from error
    if code:
        raise InterpreterNotUsable(path, "it is no Python 3.8 or later")


def _virtual_board(chip: str, library: Library | None) -> Target:
    library = check_chip(chip, library)
    missing = missing_parts(library)
    if missing:
        raise VirtualBoardNotInstalled(library.path, missing)
    board = guest(chip, library)
    return Target(
        f"vboard:{chip}",
        (*board.command, *_DRIVER),
        environment=board.environment,
        chip=chip,
        keeps_ledger=True,
        computes=False,
    )


def _board(library: Library | None) -> Target:
    architecture = architecture_of(Path(sys.executable))
    if architecture is None or not is_built(architecture):
        raise LedgerNotInstalled
    others = os.environ.get("LD_PRELOAD")
    preload = str(preload_library(architecture))
    return Target(
        "board",
        THIS_INTERPRETER.command,
        environment={
            **_environment(library, sys.executable),
            "LD_PRELOAD": f"{preload}:{others}" if others else preload,
        },
        chip=chip_of_this_machine(),
        keeps_ledger=True,
    )


def _environment(library: Library | None, interpreter: str) -> dict[str, str]:
    """Return what names the library to the measured process; it must be of the interpreter's architecture."""
    if library is None:
        return {}
    # A script that starts a Python does not tell.
    architecture = architecture_of(Path(interpreter))
    if architecture is not None and architecture != library.architecture:
        chips = [name for name in playable_chips() if name in library.chips()]
        raise LibraryNotForInterpreter(library.path, library.architecture, architecture, chips)
    return {LIBRARY_VARIABLE: str(library.path)}


#: Every target by its whole name, and those whose names go on after a colon.
_TARGETS: dict[str, Callable[[Library | None], Target]] = {"python": _this_interpreter, "board": _board}
_TARGETS_OF: dict[str, Callable[[str, Library | None], Target]] = {
    "python": _other_interpreter,
    "vboard": _virtual_board,
}
