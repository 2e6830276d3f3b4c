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
from reusebench.targets.rknn_library import architecture_of
from reusebench.targets.vboard.bytecode import bytecode_folder
from reusebench.targets.vboard.folders import vboard_folder
from reusebench.targets.vboard.virtual_board import VirtualBoard

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

    board: VirtualBoard
    #: Files that a program needs besides its folder and those that its command line names.
    reach: Reach

    def confine(
        self, words: Sequence[str], variables: Mapping[str, str], reach: Reach
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the command and the variables that start a program, in the sandbox if possible.

        Libraries that `variables` preloads come before the board's own.
        """
        root = self._root()
        loader = self.board.loader_variables()
        loader["LD_LIBRARY_PATH"] = _joined(str(root / "usr/lib"), loader.get("LD_LIBRARY_PATH"))
        others = dict(variables)
        for name in loader:
            own = others.pop(name, None) or os.environ.get(name)
            loader[name] = _joined(own, loader[name])
        environment = {**others, **self.board.variables()}
        guest = self.board.started(self._guest_words(words), environment, loader, root)
        packages = others.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        named = _readable(words, packages.split(":"))
        readable = (str(root), *named, *self.reach.readable, *reach.readable)
        writable = (*self.reach.writable, *reach.writable)
        return self.board.machine().confine(
            guest.command, guest.environment, Reach(readable, writable)
        )

    def _guest_words(self, words: Sequence[str]) -> tuple[str, ...]:
        first, *rest = words
        if not _is_python(first):
            return (str(_program(first)), *rest)
        system = self.board.system
        if system is None:
            return tuple(words)
        cache = f"pycache_prefix={bytecode_folder(system)}"
        script = [first] if first.endswith(".py") else []
        return (str(system.python()), *_PYTHON_OPTIONS, "-X", cache, *script, *rest)

    def _root(self) -> Path:
        """Return the board's root: its system's, with the library and the chip's name."""
        board = self.board
        made_at = board.system and board.system.made_at_ns()
        identity = f"{made_at}\0{board.library}\0{board.name}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        folder = vboard_folder() / f"board-{board.architecture}-{digest}"
        if folder.is_dir():
            return folder
        with locked(folder), scratch_folder(vboard_folder()) as space:
            if folder.is_dir():  # by another process, while this one waited
                return folder
            new = space / "new"
            libraries = new / "usr/lib"
            libraries.mkdir(parents=True)
            if board.system is not None:
                system = board.system.folder
                _link_all(system, new, without=("usr", "proc"))
                _link_all(system / "usr", new / "usr", without=("lib",))
                _link_all(system / "usr/lib", libraries, without=(board.library_name,))
                (new / "proc").mkdir()
                _link_all(system / "proc", new / "proc")
            if board.library_name is not None:
                (libraries / board.library_name).symlink_to(board.library)
            compatible = new / _COMPATIBLE
            compatible.parent.mkdir(parents=True, exist_ok=True)
            compatible.write_bytes(f"reusebench,virtual\0rockchip,{board.chip}\0".encode())
            new.rename(folder)
        return folder


def _link_all(source: Path, folder: Path, without: Sequence[str | None] = ()) -> None:
    for path in source.glob("*"):
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
