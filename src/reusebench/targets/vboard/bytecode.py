"""The bytecode of a virtual board's Python: its modules and the measured process.

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
from reusebench.targets.vboard.folders import vboard_folder
from reusebench.targets.vboard.loading import started_in
from reusebench.targets.vboard.root_file_system import RootFileSystem

__all__ = ["bytecode_folder", "ensure_bytecode"]

#: The sources are not looked at again: the name of the folder tells their content.
_COMPILE = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
#: Minutes on a slow machine, under an emulator, with numpy among the modules.
_TIME_LIMIT_S = 1800


def bytecode_folder(system: RootFileSystem) -> Path:
    """Return the folder for these sources, which exists once they are compiled."""
    digest = hashlib.sha256(f"{MEASURED}\0{system.folder}\0{system.made_at_ns()}\0".encode())
    for file in sorted(MEASURED.rglob("*.py")):
        digest.update(f"{file.relative_to(MEASURED)}\0".encode())
        digest.update(file.read_bytes() + b"\0")
    return vboard_folder() / f"bytecode-{system.name}-{digest.hexdigest()[:16]}"


def ensure_bytecode(system: RootFileSystem, show_step: Callable[[str], None]) -> None:
    """Compile the modules unless that is done; raise TargetError if it fails."""
    folder = bytecode_folder(system)
    if folder.is_dir():
        return
    with locked(folder), scratch_folder(vboard_folder()) as space:
        if folder.is_dir():  # by another process, while this one waited
            return
        modules = _modules_of(system, space, show_step)
        show_step(f"compiling the measured process for Python on {system.name}")
        new = space / "new"
        shutil.copytree(modules, new, copy_function=os.link)
        _compile(system, MEASURED, new)
        new.rename(folder)


def _modules_of(system: RootFileSystem, space: Path, show_step: Callable[[str], None]) -> Path:
    """Return the folder with the bytecode of the system's own modules, which is compiled once."""
    python = system.python().name
    folder = vboard_folder() / f"bytecode-{system.name}-{python}-{system.made_at_ns()}"
    if not folder.is_dir():
        show_step(f"compiling the modules of {python} for {system.name}, which takes minutes")
        new = space / "modules"
        _compile(system, system.folder / "usr/lib" / python, new)
        new.rename(folder)
    return folder


def _compile(system: RootFileSystem, sources: Path, folder: Path) -> None:
    options = ("-S", "-s", "-E", "-X", f"pycache_prefix={folder}", *_COMPILE)
    python = started_in(system, (str(system.python()), *options, str(sources)))
    done = processes.run(python.command, Path("/"), time_limit_s=_TIME_LIMIT_S)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().rpartition("\n")[2] or "it printed nothing"
        raise TargetError(f"the virtual board's Python cannot compile {sources}: {words}")
