"""Programs on the virtual board, first of all Python: their commands and environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.system.package import MEASURED
from reusebench.targets.machine import LOCAL, LocalMachine, Reach
from reusebench.targets.programs import DRIVER, PRELOAD, uclibc_stand_in
from reusebench.targets.rknn_library import RknnLibrary
from reusebench.targets.sandbox import SandboxedMachine, sandbox_problem
from reusebench.targets.vboard.bytecode import bytecode_folder
from reusebench.targets.vboard.emulator import find_emulator, is_needed
from reusebench.targets.vboard.folders import sysroot
from reusebench.targets.vboard.root_file_system import is_installed, library_folders, python_of

__all__ = [
    "Guest",
    "board_variables",
    "guest",
    "guest_program",
    "loader_variables",
    "machine_of",
    "missing_parts",
    "started_by_loader",
]

#: Variables of the preload library: the chip that it simulates, and the limit of its buffers.
_BOARD_VARIABLE = "REUSEBENCH_BOARD"
_MEMORY_VARIABLE = "REUSEBENCH_NPU_MEMORY"

#: No site-packages and no variables, which belong to the host's Python.
_PYTHON_OPTIONS = ("-S", "-s", "-E")


@dataclass(frozen=True)
class Guest:
    """A program on the virtual board."""

    #: Without arguments.
    command: tuple[str, ...]
    #: Variables added to its environment.
    environment: dict[str, str]


def missing_parts(library: RknnLibrary) -> list[str]:
    """Return the names of the parts that the virtual board still lacks for the library."""
    architecture = library.architecture
    parts = {f"the preload library for {architecture}": PRELOAD.is_built(architecture)}
    if is_needed(architecture):
        parts[f"the {architecture} system"] = is_installed(architecture)
        parts["qemu"] = find_emulator(architecture) is not None
    return [part for part, is_there in parts.items() if not is_there]


def guest(chip: str, library: RknnLibrary, npu_memory_bytes: int | None = None) -> Guest:
    """Return the Python that runs the library on the chip. No part may be missing.

    `npu_memory_bytes` limits the NPU buffers.
    """
    architecture = library.architecture
    if not is_needed(architecture):
        return guest_program(Path(sys.executable), chip, library, npu_memory_bytes)
    program = guest_program(python_of(architecture), chip, library, npu_memory_bytes)
    cache = f"pycache_prefix={bytecode_folder(architecture)}"
    return Guest((*program.command, *_PYTHON_OPTIONS, "-X", cache), program.environment)


def guest_program(
    program: Path, chip: str, library: RknnLibrary, npu_memory_bytes: int | None = None
) -> Guest:
    """Return another program of the library's architecture, started like the Python."""
    return started_by_loader(
        (str(program),),
        library.architecture,
        board_variables(chip, library, npu_memory_bytes),
        loader_variables(library),
        sysroot(library.architecture),
    )


def board_variables(
    chip: str, library: RknnLibrary, npu_memory_bytes: int | None = None
) -> dict[str, str]:
    """Return the variables of a program on the board."""
    variables = {LIBRARY_VARIABLE: str(library.path), _BOARD_VARIABLE: chip}
    if npu_memory_bytes is not None:
        variables[_MEMORY_VARIABLE] = str(npu_memory_bytes)
    return variables


def started_by_loader(
    words: tuple[str, ...],
    architecture: str,
    environment: Mapping[str, str],
    loader: Mapping[str, str],
    root: Path,
) -> Guest:
    """Return a program of the architecture whose loader gets the variables of `loader`.

    `root` is the folder in which an emulated program finds the files of its system.
    """
    if not is_needed(architecture):
        return Guest(words, {**environment, **loader})
    command = [str(find_emulator(architecture)), "-L", str(root), "-U", "PYTHONHOME"]
    for name, value in loader.items():
        command += ["-E", f"{name}={value}"]
    return Guest((*command, *words), dict(environment))


def machine_of(library: RknnLibrary) -> LocalMachine:
    """Return this machine, with the library in the sandbox if the kernel permits."""
    if sandbox_problem() is not None:
        return LOCAL
    architecture = library.architecture
    readable = [MEASURED, PRELOAD.folder(architecture), DRIVER.folder(architecture)]
    if is_needed(architecture):
        readable += [
            Path(str(find_emulator(architecture))),
            sysroot(architecture),
            bytecode_folder(architecture),
        ]
    else:  # the Python that runs the harness
        readable += dict.fromkeys((Path(sys.base_prefix), Path(sys.prefix)))
    readable.append(library.path)
    return SandboxedMachine(Reach(tuple(map(os.path.abspath, readable))))


def loader_variables(library: RknnLibrary) -> dict[str, str]:
    """Return the variables for the guest's loader; qemu's own loader must not see them."""
    folders: list[Path] = []
    if is_needed(library.architecture):
        folders = library_folders(library.architecture)
    stand_in = uclibc_stand_in(library.architecture)
    if stand_in.is_file():
        folders = [stand_in.parent, *folders]
    variables = {"LD_PRELOAD": str(PRELOAD.path(library.architecture))}
    if folders:
        variables["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
    return variables
