"""The user's choice of place and runtimes, and the Target that it means for one runtime."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from reusebench.measured.runtimes import RuntimeEntry, find_runtime
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE, find_library
from reusebench.samplers.host import LOCAL_HOST
from reusebench.system.cache import cache_root
from reusebench.system.package import START, python_command
from reusebench.targets.boards import Board, boards
from reusebench.targets.chips import CHIPS, chip_of
from reusebench.targets.errors import RuntimeMissing, TargetError
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.far.target import far_target
from reusebench.targets.far.transport import FORMS
from reusebench.targets.interpreters import finds_runtime, interpreter_problem, python_with, remedy
from reusebench.targets.labgrid import is_tag, take_place
from reusebench.targets.machine import Reach
from reusebench.targets.programs import DRIVER, PRELOAD
from reusebench.targets.protocol.base import C
from reusebench.targets.protocol.c_driver import C_PROTOCOL
from reusebench.targets.rknn_library import (
    RknnLibrary,
    architecture_of,
    find_libraries,
    read_library,
)
from reusebench.targets.sandbox import sandbox_problem
from reusebench.targets.target import THIS_INTERPRETER, Target
from reusebench.targets.vboard.bytecode import ensure_bytecode
from reusebench.targets.vboard.catalogue import ROCKET, rknn_board, rocket_board
from reusebench.targets.vboard.emulator import is_needed
from reusebench.targets.vboard.user_program import UserBoard, architecture_for
from reusebench.targets.vboard.virtual_board import VirtualBoard

__all__ = [
    "Selection",
    "check_chip",
    "far_machine",
    "is_far",
    "is_virtual",
    "parse_target",
    "release_boards",
    "user_board",
    "with_library",
]

_LOCAL_KINDS = ("python", "board", "vboard")
_FAR_KINDS = {form.partition(":")[0] for form in FORMS}
#: Value of --rknn-library for the library that the remote board already has.
_BOARDS_OWN = Path("board")
#: Remote boards of this process.
_OPEN = ExitStack()


@dataclass(frozen=True)
class Selection:
    """The place to measure and the runtimes to measure there, as the user's options say."""

    #: Value of --target.
    target: str = "python"
    #: Value of --rknn-library.
    rknn_library: Path | None = None
    #: Virtual board only: limit of all NPU buffers together; None: no limit.
    npu_memory_bytes: int | None = None
    #: PYTHON or C; None: C on a remote board without Python, Python everywhere else.
    driver: str | None = None
    #: Names; empty: all runtimes that the target has.
    runtimes: tuple[str, ...] = ()
    #: The user's model files; without names, only runtimes for models of their kinds are meant.
    models: tuple[Path, ...] = ()


def parse_target(selection: Selection, entry: RuntimeEntry) -> Target:
    """Return the selected target as it runs this runtime; raise TargetError if it cannot.

    The error is a RuntimeMissing if the target itself is usable but lacks this runtime.
    """
    if entry.module is None:
        selection = with_library(selection)
    text = selection.target
    rknn_library = selection.rknn_library
    if selection.driver == C and entry.module is not None:
        raise RuntimeMissing(
            f"--runtime {entry.name}: the C driver (--driver c) is only for Rockchip's runtime"
        )
    if is_far(text):
        if selection.npu_memory_bytes is not None:
            raise _npu_memory_is_virtual()
        file = None if rknn_library == _BOARDS_OWN else rknn_library
        return far_target(far_machine(text), file, entry, selection.driver)
    if rknn_library == _BOARDS_OWN:
        raise TargetError(
            "--rknn-library board is the library of a remote board: give its file, or leave it out"
        )
    library = None if rknn_library is None else read_library(rknn_library)
    if selection.driver == C:
        return _with_native_driver(selection, library, entry)
    return _local(selection, library, entry)


def with_library(selection: Selection) -> Selection:
    """Return the selection with the library that a virtual board takes if the user names none.

    That is the one of LIBRARY_VARIABLE, else the newest one here for the chip; one that the virtual
    board is ready for precedes newer ones. It stays None if there is none.
    """
    if selection.rknn_library is not None or not is_virtual(selection.target):
        return selection
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return replace(selection, rknn_library=Path(named))

    chip = selection.target.partition(":")[2]
    fitting = [library for library in find_libraries() if chip in library.chips()]
    if not fitting:
        return selection

    ready = [library for library in fitting if not rknn_board(library).missing_parts()]
    library = (ready or fitting)[-1]
    _show_step(f"--rknn-library {library.path}: {library.kind} {library.version}")
    return replace(selection, rknn_library=library.path)


def is_far(text: str) -> bool:
    """Whether this is the name or the address of a remote board."""
    kind = text.partition(":")[0]
    return kind in _FAR_KINDS or (kind not in _LOCAL_KINDS and text in boards())


def is_virtual(text: str) -> bool:
    """Whether this is a virtual board."""
    return text.partition(":")[0] == "vboard"


def far_machine(text: str) -> FarMachine:
    """Return the remote board, always the same object; raise TargetError if it is unknown."""
    known = boards()
    if not is_far(text):
        names = f", or a board's name ({', '.join(known)})" if known else ""
        raise TargetError(f"{text} is not a remote board; valid: {', '.join(FORMS)}{names}")
    return _machine_of(text, known.get(text) or Board(text))


@functools.cache
def _machine_of(name: str, board: Board) -> FarMachine:
    if is_tag(board.address):
        place = take_place(board.address, _show_step)
        _OPEN.callback(place.release)
        name = f"labgrid:{place.name}"
        board = msgspec.structs.replace(board, address=name)
    machine = FarMachine(name, board, _show_step)
    _OPEN.callback(machine.close)
    return machine


def release_boards() -> None:
    """Close the connections to boards, and give places of labgrid back."""
    _OPEN.close()
    _machine_of.cache_clear()


atexit.register(release_boards)


def _show_step(step: str) -> None:
    print(step, file=sys.stderr)


def _local(selection: Selection, library: RknnLibrary | None, entry: RuntimeEntry) -> Target:
    text = selection.target
    kind, _, detail = text.partition(":")
    if selection.npu_memory_bytes is not None and not is_virtual(text):
        raise _npu_memory_is_virtual()
    if text == "python":
        return _this_interpreter(library, entry)
    if text == "board":
        return _board(library, entry)
    if kind == "python" and detail:
        return _other_interpreter(detail, library, entry)
    if kind == "vboard" and detail:
        return _virtual_board(detail, library, entry, selection.npu_memory_bytes)
    names = ", ".join(boards())
    known = f", or the name of a board ({names})" if names else ""
    raise TargetError(
        f"--target {text}: no such target; valid: python, python:PATH, vboard:CHIP,"
        f" vboard:{ROCKET}, board, {', '.join(FORMS)}{known}"
    )


def _with_native_driver(
    selection: Selection, library: RknnLibrary | None, entry: RuntimeEntry
) -> Target:
    """Return the local target with the C driver instead of the Python driver."""
    local = _local(selection, library, entry)
    library = library or read_library(Path(find_library() or ""))  # otherwise _local has raised
    DRIVER.ensure(library.architecture, _show_step)
    program = DRIVER.path(library.architecture)
    environment = local.environment
    command: tuple[str, ...] = (str(program),)
    if not local.computes:
        board = rknn_board(library, local.chip)
        guest = board.guest_program(program, selection.npu_memory_bytes)
        command = guest.command
        environment = guest.environment
    environment = {**environment, LIBRARY_VARIABLE: str(library.path)}
    return replace(
        local, command=command, environment=environment, protocol=C_PROTOCOL, decodes=False
    )


def _npu_memory_is_virtual() -> TargetError:
    return TargetError(
        "--npu-memory is a limit that the virtual board plays, and a real NPU has its own: add"
        " --target vboard:CHIP, or leave --npu-memory out"
    )


def check_chip(name: str, library: RknnLibrary | None) -> RknnLibrary:
    """Return the library if it is for the chip; raise TargetError if it is not, or is missing."""
    if name not in CHIPS:
        raise TargetError(
            f"there is no chip {name!r} whose board runs Rockchip's library; valid for the virtual"
            f" board: {', '.join(CHIPS)} (and vboard:{ROCKET}, which runs Mesa's)"
        )
    runtime = CHIPS[name].runtime
    if library is None:
        raise TargetError(
            f"--target vboard:{name} runs Rockchip's own library: name its file with --rknn-library"
            f" FILE ({runtime}.so for Linux, from Rockchip's RKNN SDK), or copy it to"
            f" {cache_root() / 'rknn'}"
        )
    if library.kind != runtime:
        raise TargetError(
            f"--rknn-library {library.path}: this is {library.kind}, and {name} needs {runtime}"
        )
    if name not in library.chips():
        since = ".".join(map(str, CHIPS[name].since))
        raise TargetError(
            f"--rknn-library {library.path}: {runtime} {library.version} does not know {name}: take"
            f" {since} or later"
        )
    return library


def _this_interpreter(library: RknnLibrary | None, entry: RuntimeEntry) -> Target:
    """Return this interpreter, or the one of the runtime's own environment."""
    interpreter = sys.executable if _is_given(entry, library) else python_with(entry)
    if interpreter is None:
        raise RuntimeMissing(f"--runtime {entry.name} is not here: {remedy(entry)}")
    return replace(
        THIS_INTERPRETER,
        command=tuple(python_command(python=interpreter)),
        environment=_environment(library, interpreter),
        chip=chip_of(LOCAL_HOST),
        architecture=architecture_of(Path(interpreter)),
    )


def _other_interpreter(path: str, library: RknnLibrary | None, entry: RuntimeEntry) -> Target:
    interpreter = shutil.which(path)
    if interpreter is None:
        raise _not_usable(path, "there is no such program")
    # Links are not followed: Python finds the packages of a virtual environment by its link.
    interpreter = os.path.abspath(interpreter)  # noqa: PTH100  Path.absolute() leaves ".." in
    reason = interpreter_problem(interpreter)
    if reason is not None:
        raise _not_usable(path, reason)
    environment = _environment(library, interpreter)
    if not _is_given(entry, library) and not finds_runtime(interpreter, entry):
        missing = f"has no module {entry.module}"
        if entry.module is None:
            missing = "finds no Rockchip library"
        raise RuntimeMissing(
            f"--runtime {entry.name}: the Python of --target python:{path} {missing}. Name another"
            " Python, or leave --target out: `reusebench doctor` shows what is here without it"
        )
    return Target(
        f"python:{path}",
        tuple(python_command(python=interpreter)),
        environment=environment,
        chip=chip_of(LOCAL_HOST),
        architecture=architecture_of(Path(interpreter)),
    )


def _not_usable(path: str, reason: str) -> TargetError:
    return TargetError(f"--target python:{path}: {reason}. Give the path of a Python 3.8 or later")


def _virtual_board(
    name: str, library: RknnLibrary | None, entry: RuntimeEntry, npu_memory_bytes: int | None
) -> Target:
    runtime = find_runtime("teflon" if name == ROCKET else "rknn")
    if entry.name != runtime.name:
        raise RuntimeMissing(
            f"--runtime {entry.name}: vboard:{name} has {runtime.title} only. Leave out --runtime"
            " or --target"
        )
    board = _named_board(name, library)
    _check_parts(board)
    guest = board.guest(npu_memory_bytes)
    return Target(
        board.target,
        (*guest.command, str(START)),
        environment=guest.environment,
        chip=board.chip,
        architecture=board.architecture,
        keeps_ledger=True,
        computes=False,
        decodes=False,
        emulated=is_needed(board.architecture),
        npu_memory_limit_bytes=npu_memory_bytes,
        exposure=sandbox_problem(),
        machine=board.machine(),
    )


def _named_board(name: str, library: RknnLibrary | None) -> VirtualBoard:
    """Return the board; raise TargetError if there is none, or if the library is not for it."""
    if name != ROCKET:
        return rknn_board(check_chip(name, library), name)
    if library is not None:
        raise TargetError(
            f"--rknn-library {library.path}: vboard:{name} runs Mesa's library, not Rockchip's."
            f" Leave it out, or take --target vboard:CHIP, with CHIP one of"
            f" {', '.join(library.chips())}"
        )
    return rocket_board()


def _check_parts(board: VirtualBoard) -> None:
    """Raise TargetError if the virtual board lacks a part."""
    missing = board.missing_parts()
    if missing:
        raise TargetError(
            f"{board.target} is not ready ({', '.join(missing)} missing). Install it:"
            f" reusebench board install {board.install_options}"
        )
    if board.system is not None:  # again after an update of this package
        ensure_bytecode(board.system, _show_step)


def user_board(
    target: str, library: RknnLibrary | None, words: Sequence[str], reach: Reach
) -> UserBoard:
    """Return the virtual board that runs a user's program; raise TargetError if none can.

    Without a library, Rockchip's is the newest one here for the chip and the program's
    architecture.
    """
    name = target.partition(":")[2]
    if name not in (*CHIPS, ROCKET):
        check_chip(name, library)
    architecture = architecture_for(words[0])
    architectures = CHIPS[name].architectures if name in CHIPS else ("aarch64",)
    if architecture and architecture not in architectures:
        raise TargetError(
            f"{words[0]}: this is a program for {architecture}, and {name} runs programs for"
            f" {' and '.join(architectures)} alone. Compile it for these"
        )
    if library is None and name in CHIPS:
        library = _newest_library(name, architecture)
    board = _named_board(name, library)
    if library is not None and architecture not in (None, library.architecture):
        raise TargetError(
            f"--rknn-library {library.path}: it is for {library.architecture}, and {words[0]} is"
            f" for {architecture}. Name the library that belongs to the program"
        )
    _check_parts(board)
    return UserBoard(board, reach)


def _newest_library(chip: str, architecture: str | None) -> RknnLibrary | None:
    """Return the newest library here; if the architecture is open, in the order of the chip's."""
    fitting = [library for library in find_libraries() if chip in library.chips()]
    for wanted in (architecture,) if architecture else CHIPS[chip].architectures:
        of_architecture = [library for library in fitting if library.architecture == wanted]
        ready = [library for library in of_architecture if not rknn_board(library).missing_parts()]
        if of_architecture:
            return (ready or of_architecture)[-1]
    return None


def _board(library: RknnLibrary | None, entry: RuntimeEntry) -> Target:
    """Return this interpreter, with the ledger if the runtime uses the NPU."""
    here = replace(_this_interpreter(library, entry), name="board")
    if entry.device == "cpu":
        return here
    architecture = architecture_of(Path(sys.executable))
    if architecture is None or not PRELOAD.is_built(architecture):
        raise TargetError(
            "--target board keeps a ledger of the NPU's buffers, and the library that does is not"
            " compiled yet. Install it: reusebench board install-ledger"
        )
    preloaded = str(PRELOAD.path(architecture))
    if os.environ.get("LD_PRELOAD"):
        preloaded += f":{os.environ['LD_PRELOAD']}"
    environment = {**here.environment, "LD_PRELOAD": preloaded}
    return replace(here, environment=environment, keeps_ledger=True)


def _is_given(entry: RuntimeEntry, library: RknnLibrary | None) -> bool:
    """Whether the runtime is the library that the user named."""
    return entry.module is None and library is not None


def _environment(library: RknnLibrary | None, interpreter: str) -> dict[str, str]:
    """Return the variable with the library, which must have the interpreter's architecture."""
    if library is None:
        return {}
    # Unknown if the interpreter is a script that starts a Python.
    architecture = architecture_of(Path(interpreter))
    if architecture is not None and architecture != library.architecture:
        raise TargetError(
            f"--rknn-library {library.path}: it is for {library.architecture}, and this Python is"
            f" for {architecture}. Run it on the virtual board: --target vboard:CHIP, with CHIP one"
            f" of {', '.join(library.chips())}"
        )
    return {LIBRARY_VARIABLE: str(library.path)}
