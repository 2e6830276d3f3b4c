"""How a program of a root file system is started: by an emulator, or by the system's loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.targets.vboard.emulator import find_emulator, is_needed
from reusebench.targets.vboard.root_file_system import RootFileSystem

__all__ = ["Guest", "started_in"]

#: Options of glibc's loader, for the variables that programs of this machine must not see.
_LOADER_OPTIONS = {"LD_LIBRARY_PATH": "--library-path", "LD_PRELOAD": "--preload"}


@dataclass(frozen=True)
class Guest:
    """A program on a virtual board."""

    #: Without arguments.
    command: tuple[str, ...]
    #: Variables added to its environment.
    environment: dict[str, str] = field(default_factory=dict)


def started_in(
    system: RootFileSystem,
    words: tuple[str, ...],
    environment: Mapping[str, str] | None = None,
    loader: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> Guest:
    """Return a program of the system, whose loader gets the variables of `loader`.

    Without a LD_LIBRARY_PATH among them, that is the system's. `root` is the folder in which an
    emulated program finds the files of its system, if it is another one.
    """
    folders = ":".join(map(str, system.library_folders()))
    loader = {"LD_LIBRARY_PATH": folders, **(loader or {})}
    if is_needed(system.architecture):
        emulator = str(find_emulator(system.architecture))
        command = [emulator, "-L", str(root or system.folder), "-U", "PYTHONHOME"]
        for name, value in loader.items():
            command += ["-E", f"{name}={value}"]
    else:
        # The kernel would start it with this machine's loader, for another version of libc.
        command = [str(system.loader()), "--inhibit-cache"]
        for name, value in loader.items():
            command += [_LOADER_OPTIONS[name], value]
    return Guest((*command, *words), dict(environment or {}))
