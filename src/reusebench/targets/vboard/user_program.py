"""A user's program on the virtual board: a program made for the board, or a script of Python."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.system.cache import locked, scratch_folder
from reusebench.targets.errors import TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.rknn_library import RknnLibrary, architecture_of
from reusebench.targets.vboard.bytecode import bytecode_folder
from reusebench.targets.vboard.emulator import is_needed
from reusebench.targets.vboard.folders import sysroot, vboard_folder
from reusebench.targets.vboard.guest import (
    board_variables,
    loader_variables,
    machine_of,
    started_by_loader,
)
from reusebench.targets.vboard.root_file_system import python_of

__all__ = ["UserBoard", "architecture_for"]

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
#: No packages of the host's Python, and no bytecode beside the user's sources.
_PYTHON_OPTIONS = ("-s", "-B")
_ARCHITECTURES = ("aarch64", "armhf")
#: The file by which programs tell the board they run on.
_COMPATIBLE = "proc/device-tree/compatible"


def architecture_for(word: str) -> str | None:
    """Return the architecture of a command's program; None for Python, which has every one.

    Raises TargetError if no virtual board runs the program.
    """
    if _is_python(word):
        return None
    path = _program(word)
    architecture = architecture_of(path)
    if architecture in _ARCHITECTURES:
        return architecture
    kind = f"a program for {architecture}" if architecture else "no program for a board"
    raise TargetError(
        f"{path}: this is {kind}. The virtual board runs programs for aarch64 and armhf, and"
        " scripts of Python (python3 FILE). Name the program itself, not a shell script that"
        " starts it"
    )


def _is_python(word: str) -> bool:
    return bool(_PYTHON.fullmatch(Path(word).name)) or word.endswith(".py")


def _program(word: str) -> Path:
    found = word if "/" in word else shutil.which(word)
    if found is None or not Path(found).is_file():
        raise TargetError(
            f"{word}: there is no such command. Give the path of a program that is made for the"
            " board"
        )
    return Path(os.path.abspath(found))  # noqa: PTH100  Path.absolute() leaves ".." in


@dataclass(frozen=True)
class UserBoard:
    """A virtual board for users' programs. No part of it may be missing."""

    chip: str
    library: RknnLibrary
    #: Files that a program needs besides its folder and those that its command line names.
    reach: Reach

    def confine(
        self, words: Sequence[str], variables: Mapping[str, str], reach: Reach
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the command and the variables that start a program, in the sandbox if possible.

        Libraries that `variables` preloads come before the board's own.
        """
        root = self._root()
        loader = loader_variables(self.library)
        loader["LD_LIBRARY_PATH"] = _joined(str(root / "usr/lib"), loader.get("LD_LIBRARY_PATH"))
        others = dict(variables)
        for name in loader:
            own = others.pop(name, None) or os.environ.get(name)
            loader[name] = _joined(own, loader[name])
        environment = {**others, **board_variables(self.chip, self.library)}
        guest = started_by_loader(
            self._guest_words(words), self.library.architecture, environment, loader, root
        )
        packages = others.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        named = _readable(words, packages.split(":"))
        readable = (str(root), *named, *self.reach.readable, *reach.readable)
        writable = (*self.reach.writable, *reach.writable)
        return machine_of(self.library).confine(
            guest.command, guest.environment, Reach(readable, writable)
        )

    def _guest_words(self, words: Sequence[str]) -> tuple[str, ...]:
        first, *rest = words
        if not _is_python(first):
            return (str(_program(first)), *rest)
        architecture = self.library.architecture
        if not is_needed(architecture):
            return tuple(words)
        cache = f"pycache_prefix={bytecode_folder(architecture)}"
        script = [first] if first.endswith(".py") else []
        return (str(python_of(architecture)), *_PYTHON_OPTIONS, "-X", cache, *script, *rest)

    def _root(self) -> Path:
        """Return the board's root: the architecture's, with the library and the chip's name."""
        system = sysroot(self.library.architecture)
        name = f"{self.library.kind}.so"
        identity = f"{system}\0{self.library.path}\0{self.chip}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        folder = vboard_folder() / f"board-{self.library.architecture}-{digest}"
        if folder.is_dir():
            return folder
        with locked(folder), scratch_folder(vboard_folder()) as space:
            if folder.is_dir():  # by another process, while this one waited
                return folder
            new = space / "new"
            libraries = new / "usr/lib"
            libraries.mkdir(parents=True)
            if is_needed(self.library.architecture):
                _link_all(system, new, without=("usr",))
                _link_all(system / "usr", new / "usr", without=("lib",))
                _link_all(system / "usr/lib", libraries, without=(name,))
            (libraries / name).symlink_to(self.library.path)
            compatible = new / _COMPATIBLE
            compatible.parent.mkdir(parents=True)
            compatible.write_bytes(f"reusebench,virtual\0rockchip,{self.chip}\0".encode())
            new.rename(folder)
        return folder


def _link_all(source: Path, folder: Path, without: Sequence[str]) -> None:
    for path in source.iterdir():
        if path.name not in without:
            (folder / path.name).symlink_to(path)


def _joined(*lists: str | None) -> str:
    return ":".join(filter(None, lists))


def _readable(words: Sequence[str], packages: Sequence[str]) -> Iterator[str]:
    """Yield the working folder, folders of packages, and what a command line names.

    A program's whole folder is among them: it has the program's libraries and models.
    """
    first, *rest = words
    places = [Path.cwd()]
    if not _PYTHON.fullmatch(Path(first).name):
        places.append(_program(first).parent)
    for word in rest:
        places += [Path(part) for part in (word, word.partition("=")[2]) if part]
    places += [Path(package) for package in packages if package]
    for place in places:
        path = place.absolute()
        if path.exists() and path != path.parent:  # the root would show all files
            yield os.path.normpath(path)
