"""The bytecode of the virtual board's Python: its standard library and the measured process.

No program that loads the vendor's library may write there: what it wrote, later sessions would run.
So all modules are compiled before, by that Python alone, and each process compiles nothing, which
would add to its memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from reusebench.system import processes
from reusebench.system.cache import locked, scratch_folder
from reusebench.system.package import MEASURED
from reusebench.targets.errors import TargetError
from reusebench.targets.vboard.emulator import find_emulator
from reusebench.targets.vboard.folders import sysroot, vboard_folder
from reusebench.targets.vboard.root_file_system import library_folders, python_of

__all__ = ["bytecode_folder", "ensure_bytecode"]

#: The sources are not looked at again: the name of the folder tells their content.
_COMPILE = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
_TIME_LIMIT_S = 600


def bytecode_folder(architecture: str) -> Path:
    """Return the folder for these sources, which exists once they are compiled."""
    digest = hashlib.sha256(f"{MEASURED}\0{sysroot(architecture)}\0".encode())
    for file in sorted(MEASURED.rglob("*.py")):
        digest.update(f"{file.relative_to(MEASURED)}\0".encode())
        digest.update(file.read_bytes() + b"\0")
    return vboard_folder() / f"bytecode-{architecture}-{digest.hexdigest()[:16]}"


def ensure_bytecode(architecture: str, show_step: Callable[[str], None]) -> None:
    """Compile the modules unless that is done; raise TargetError if it fails."""
    folder = bytecode_folder(architecture)
    if folder.is_dir():
        return
    with locked(folder), scratch_folder(vboard_folder()) as space:
        if folder.is_dir():  # by another process, while this one waited
            return
        standard = _standard_library(architecture, space, show_step)
        show_step(f"compiling the measured process for Python on {architecture}")
        new = space / "new"
        shutil.copytree(standard, new, copy_function=os.link)
        _compile(architecture, MEASURED, new)
        new.rename(folder)


def _standard_library(architecture: str, space: Path, show_step: Callable[[str], None]) -> Path:
    """Return the folder with the bytecode of the standard library, which is compiled once."""
    python = python_of(architecture)
    status = python.stat()
    folder = vboard_folder() / f"bytecode-{architecture}-{python.name}-{status.st_mtime_ns}"
    if not folder.is_dir():
        show_step(f"compiling the standard library of {python.name} for {architecture}")
        new = space / "standard"
        _compile(architecture, sysroot(architecture) / "usr/lib" / python.name, new)
        new.rename(folder)
    return folder


def _compile(architecture: str, sources: Path, folder: Path) -> None:
    libraries = ":".join(map(str, library_folders(architecture)))
    command = (
        *(str(find_emulator(architecture)), "-L", str(sysroot(architecture))),
        *("-E", f"LD_LIBRARY_PATH={libraries}", str(python_of(architecture)), "-S", "-s", "-E"),
        *("-X", f"pycache_prefix={folder}", *_COMPILE, str(sources)),
    )
    done = processes.run(command, Path("/"), time_limit_s=_TIME_LIMIT_S)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().rpartition("\n")[2] or "it printed nothing"
        raise TargetError(f"the virtual board's Python cannot compile {sources}: {words}")
