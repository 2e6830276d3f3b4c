"""Rockchip's runtime libraries: what a file is, whatever its name, and which chips it is for."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reusebench.measured.runtimes import version_order
from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.rknn import library_file
from reusebench.system.cache import cache_root
from reusebench.system.user_files import UserFileError, check_file, problem_of
from reusebench.targets.chips import CHIPS
from reusebench.targets.errors import TargetError

__all__ = [
    "RknnLibrary",
    "architecture_of",
    "architecture_of_this_python",
    "find_libraries",
    "read_library",
]


@dataclass(frozen=True)
class RknnLibrary:
    """One file of Rockchip's runtime."""

    path: Path
    #: "librknnrt" or "librknnmrt".
    kind: str
    version: str
    architecture: str
    #: The version with its build, as in "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
    full_version: str

    def __str__(self) -> str:
        """Return what it is, without its path."""
        return f"{self.kind} {self.version} ({self.architecture})"

    def chips(self) -> list[str]:
        """Return the names of the chips that it is for, and knows."""
        version, *_ = version_order(self.version)
        return [
            chip.name
            for chip in CHIPS.values()
            if chip.runtime == self.kind and chip.since <= version
        ]


def read_library(path: Path) -> RknnLibrary:
    """Return what the file is; raise a TargetError if it is not Rockchip's runtime for Linux."""
    try:
        check_file(path)
        file = library_file.read_library(str(path))
    except UserFileError as error:
        raise TargetError(
            f"--rknn-library {error}. Give librknnrt.so or librknnmrt.so for Linux"
        ) from None
    except AdapterError as error:
        raise TargetError(f"--rknn-library {error}") from None
    return RknnLibrary(
        path.absolute(), file.kind, file.version, file.architecture, file.full_version
    )


def find_libraries(paths: Iterable[Path] = ()) -> list[RknnLibrary]:
    """Return the libraries of these files and folders, by kind, the oldest version first.

    Without paths those of reusebench/rknn in the user's cache, and of the usual places on boards.
    Of one build that is found twice the first stands. What else is in a folder is passed over; a
    TargetError if a path is not there, or a file is no library.
    """
    usual = [cache_root() / "rknn", *map(Path, library_file.usual_paths())]
    libraries: dict[tuple[str, str, str], RknnLibrary] = {}
    for path in list(paths) or [path for path in usual if path.exists()]:
        for library in _libraries_in(path) if path.is_dir() else [read_library(path)]:
            libraries.setdefault(
                (library.kind, library.full_version, library.architecture), library
            )
    return sorted(
        libraries.values(), key=lambda library: (library.kind, version_order(library.full_version))
    )


def _libraries_in(folder: Path) -> Iterable[RknnLibrary]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise TargetError(f"--rknn-library {UserFileError(folder, problem_of(error))}") from None
    for path in paths:
        try:
            yield read_library(path)
        except TargetError:
            continue


def architecture_of(path: Path) -> str | None:
    """Return the architecture of a program or shared library; None if it is neither or is of
    another one.
    """
    return library_file.architecture_of(str(path))


def architecture_of_this_python() -> str | None:
    """Return the architecture of this interpreter, which may be 32-bit on a 64-bit kernel."""
    return architecture_of(Path(sys.executable))
