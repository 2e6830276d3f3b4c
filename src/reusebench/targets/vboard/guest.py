"""How a program, a Python above all, is started on the virtual board."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.system.package import MEASURED
from reusebench.targets.machine import LOCAL, LocalMachine, Reach
from reusebench.targets.programs import PRELOAD, uclibc_stand_in
from reusebench.targets.rknn_library import RknnLibrary
from reusebench.targets.sandbox import SandboxedMachine, sandbox_problem
from reusebench.targets.vboard.emulator import find_emulator, is_needed
from reusebench.targets.vboard.folders import pycache, sysroot, vboard_folder
from reusebench.targets.vboard.root_file_system import is_installed, library_folders, python_of

__all__ = ["Guest", "guest", "guest_program", "machine_of", "missing_parts"]

#: Tell the preload library the chip that it plays, and how many bytes its buffers may take.
_BOARD_VARIABLE = "REUSEBENCH_BOARD"
_MEMORY_VARIABLE = "REUSEBENCH_NPU_MEMORY"

#: No site-packages, and no variables of the host's Python: they are another Python's.
_PYTHON_OPTIONS = ("-S", "-s", "-E")


@dataclass(frozen=True)
class Guest:
    """A program on the virtual board: its command without arguments, and what is added to its
    environment.
    """

    command: tuple[str, ...]
    environment: dict[str, str]


def missing_parts(library: RknnLibrary) -> list[str]:
    """Return what the virtual board still lacks for the library, in words."""
    architecture = library.architecture
    parts = {f"the preload library for {architecture}": PRELOAD.is_built(architecture)}
    if is_needed(architecture):
        parts[f"the {architecture} system"] = is_installed(architecture)
        parts["qemu"] = find_emulator(architecture) is not None
    return [part for part, is_there in parts.items() if not is_there]


def guest(chip: str, library: RknnLibrary, npu_memory_bytes: int | None = None) -> Guest:
    """Return the Python that runs the library on that chip, with so much memory for it; nothing may
    be missing.
    """
    if not is_needed(library.architecture):
        return guest_program(Path(sys.executable), chip, library, npu_memory_bytes)
    program = guest_program(python_of(library.architecture), chip, library, npu_memory_bytes)
    cache = f"pycache_prefix={pycache(library.architecture)}"
    return Guest((*program.command, *_PYTHON_OPTIONS, "-X", cache), program.environment)


def guest_program(
    program: Path, chip: str, library: RknnLibrary, npu_memory_bytes: int | None = None
) -> Guest:
    """Return how a program of the library's architecture is started there in the same way."""
    environment = {LIBRARY_VARIABLE: str(library.path), _BOARD_VARIABLE: chip}
    if npu_memory_bytes is not None:
        environment[_MEMORY_VARIABLE] = str(npu_memory_bytes)
    loader = _loader_variables(library)
    if not is_needed(library.architecture):
        return Guest((str(program),), {**environment, **loader})
    emulator = find_emulator(library.architecture)
    system = sysroot(library.architecture)
    options = [option for name, value in loader.items() for option in ("-E", f"{name}={value}")]
    return Guest((str(emulator), "-L", str(system), *options, str(program)), environment)


def machine_of(library: RknnLibrary) -> LocalMachine:
    """Return this machine, of which the library reaches what it needs alone, where the kernel
    allows that.
    """
    if sandbox_problem() is not None:
        return LOCAL
    readable = [str(MEASURED)]
    if is_needed(library.architecture):
        readable.append(str(find_emulator(library.architecture)))
    else:  # the Python that runs the harness
        readable += dict.fromkeys((sys.base_prefix, sys.prefix))
    readable += [str(vboard_folder()), str(library.path)]
    return SandboxedMachine(
        Reach(tuple(map(os.path.abspath, readable)), (str(pycache(library.architecture)),))
    )


def _loader_variables(library: RknnLibrary) -> dict[str, str]:
    """Return what the guest's loader needs, and only the guest's: qemu's own would take it for
    itself.
    """
    folders: list[Path] = (
        library_folders(library.architecture) if is_needed(library.architecture) else []
    )
    stand_in = uclibc_stand_in(library.architecture)
    if stand_in.is_file():
        folders = [stand_in.parent, *folders]
    variables = {"LD_PRELOAD": str(PRELOAD.path(library.architecture))}
    if folders:
        variables["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
    return variables
