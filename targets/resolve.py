"""The Target of a runtime for what the user writes after --target."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from runtimes import RuntimeEntry
from runtimes.rknn.library import LIBRARY_VARIABLE
from targets.base import THIS_INTERPRETER, Target
from targets.chips import CHIPS, chip_of_this_machine, playable_chips
from targets.errors import RuntimeMissing, TargetError
from targets.interpreters import finds_runtime, python_with, refusal
from targets.preload.build import is_built, preload_library
from targets.rknn_library import Library, architecture_of, read_library
from targets.vboard.guest import guest, missing_parts

__all__ = ["check_chip", "parse_target"]

_DRIVER = ("-m", "scenarios.driver")


def parse_target(
    text: str, rknn_library: Path | None, entry: RuntimeEntry, npu_memory_bytes: int | None = None
) -> Target:
    """Return the target as it runs this runtime; raise a TargetError, in words for the user, where it cannot.

    npu_memory_bytes limits what NPU buffers may take, on a virtual board. The error is a RuntimeMissing where the
    target itself can be used, and does not have this runtime.
    """
    library = None if rknn_library is None else read_library(rknn_library)
    kind, _, detail = text.partition(":")
    if npu_memory_bytes is not None and kind != "vboard":
        raise TargetError(
            "--npu-memory is a limit that the virtual board plays, and a real NPU has its own: add --target "
            "vboard:CHIP, or leave --npu-memory out"
        )
    if text == "python":
        return _this_interpreter(library, entry)
    if text == "board":
        return _board(library, entry)
    if kind == "python" and detail:
        return _other_interpreter(detail, library, entry)
    if kind == "vboard" and detail:
        return _virtual_board(detail, library, entry, npu_memory_bytes)
    raise TargetError(f"--target {text}: no such target; valid: python, python:PATH, vboard:CHIP, board")


def check_chip(name: str, library: Library | None) -> Library:
    """Return the library where the virtual board can play the chip and the library is that chip's."""
    valid = ", ".join(playable_chips())
    if name not in CHIPS:
        raise TargetError(f"there is no chip {name!r}; valid for the virtual board: {valid}")
    if name not in playable_chips():
        raise TargetError(
            f"the virtual board cannot play {name}: what its NPU's driver answers is not known; valid: {valid}"
        )
    runtime = CHIPS[name].runtime
    if library is None:
        raise TargetError(
            f"--target vboard:{name} runs Rockchip's own library: name its file with --rknn-library FILE "
            f"({runtime}.so for Linux, from Rockchip's RKNN SDK)"
        )
    if library.kind != runtime:
        raise TargetError(f"--rknn-library {library.path}: this is {library.kind}, and {name} needs {runtime}")
    return library


def _this_interpreter(library: Library | None, entry: RuntimeEntry) -> Target:
    """Return this interpreter, or that of the runtime's own environment."""
    interpreter = sys.executable if _is_given(entry, library) else python_with(entry)
    if interpreter is None:
        raise RuntimeMissing(f"--runtime {entry.name} is not here: {entry.install}")
    return replace(
        THIS_INTERPRETER,
        command=(interpreter, *_DRIVER),
        environment=_environment(library, interpreter),
        chip=chip_of_this_machine(),
    )


def _other_interpreter(path: str, library: Library | None, entry: RuntimeEntry) -> Target:
    interpreter = shutil.which(path)
    if interpreter is None:
        raise _not_usable(path, "there is no such program")
    # Links are not followed: that of a virtual environment is what makes Python take its packages.
    interpreter = os.path.abspath(interpreter)  # noqa: PTH100  Path.absolute() leaves ".." in
    reason = refusal(interpreter)
    if reason is not None:
        raise _not_usable(path, reason)
    environment = _environment(library, interpreter)
    if not _is_given(entry, library) and not finds_runtime(interpreter, entry):
        missing = "finds no library of Rockchip's" if entry.module is None else f"has no module {entry.module}"
        raise RuntimeMissing(
            f"--runtime {entry.name}: the Python of --target python:{path} {missing}. Name another Python, or leave "
            "--target out: `reusebench doctor` shows what is here without it"
        )
    return Target(f"python:{path}", (interpreter, *_DRIVER), environment=environment, chip=chip_of_this_machine())


def _not_usable(path: str, reason: str) -> TargetError:
    return TargetError(f"--target python:{path}: {reason}. Give the path of a Python 3.8 or later")


def _virtual_board(chip: str, library: Library | None, entry: RuntimeEntry, npu_memory_bytes: int | None) -> Target:
    if entry.module is not None:
        raise RuntimeMissing(
            f"--runtime {entry.name}: vboard:{chip} has Rockchip's runtime only. Leave out --runtime or --target"
        )
    library = check_chip(chip, library)
    missing = missing_parts(library)
    if missing:
        raise TargetError(
            f"the virtual board is not ready for this library ({', '.join(missing)} missing). "
            f"Install it: reusebench board install --rknn-library {library.path}"
        )
    board = guest(chip, library, npu_memory_bytes)
    return Target(
        f"vboard:{chip}",
        (*board.command, *_DRIVER),
        environment=board.environment,
        chip=chip,
        keeps_ledger=True,
        computes=False,
        npu_memory_limit_bytes=npu_memory_bytes,
    )


def _board(library: Library | None, entry: RuntimeEntry) -> Target:
    architecture = architecture_of(Path(sys.executable))
    if architecture is None or not is_built(architecture):
        raise TargetError(
            "--target board keeps a ledger of the NPU's buffers, and the library that does is not compiled yet. "
            "Install it: reusebench board install-ledger"
        )
    others = os.environ.get("LD_PRELOAD")
    preload = str(preload_library(architecture))
    here = _this_interpreter(library, entry)
    return replace(
        here,
        name="board",
        environment={**here.environment, "LD_PRELOAD": f"{preload}:{others}" if others else preload},
        keeps_ledger=True,
    )


def _is_given(entry: RuntimeEntry, library: Library | None) -> bool:
    """Whether the runtime is the library that the user named."""
    return entry.module is None and library is not None


def _environment(library: Library | None, interpreter: str) -> dict[str, str]:
    """Return what names the library to the measured process; it must be of the interpreter's architecture."""
    if library is None:
        return {}
    # That of a script which starts a Python is not known.
    architecture = architecture_of(Path(interpreter))
    if architecture is not None and architecture != library.architecture:
        chips = [name for name in playable_chips() if name in library.chips()]
        raise TargetError(
            f"--rknn-library {library.path}: it is for {library.architecture}, and this Python is for {architecture}. "
            f"Run it on the virtual board: --target vboard:CHIP, with CHIP one of {', '.join(chips)}"
        )
    return {LIBRARY_VARIABLE: str(library.path)}
