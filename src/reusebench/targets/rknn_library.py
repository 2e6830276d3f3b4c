"""Rockchip's runtime libraries: kind, version and chips of a file, whatever its name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reusebench.measured.runtimes import elf_files, version_order
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
    """A file of Rockchip's runtime."""

    path: Path
    #: "librknnrt" or "librknnmrt".
    kind: str
    version: str
    architecture: str
    #: Version with the build, such as "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
    full_version: str

    def __str__(self) -> str:
        """Return kind, version and architecture."""
        return f"{self.kind} {self.version} ({self.architecture})"

    def chips(self) -> list[str]:
        """Return the names of the chips that this version is for."""
        version, *_ = version_order(self.version)
        names = []
        for chip in CHIPS.values():
            if chip.runtime == self.kind and chip.since <= version:
                names.append(chip.name)
        return names


def read_library(path: Path) -> RknnLibrary:
    """Return the library; raise TargetError if the file is not Rockchip's runtime for Linux."""
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
    """Return the libraries of these files and folders by kind, the oldest version first.

    Without paths, reusebench/rknn in the user's cache and the usual places on boards are searched.
    If a build is found twice, the first one counts. Other files in a folder are skipped. Raises
    TargetError if a path does not exist or a file is not a library.
    """
    places = list(paths)
    if not places:
        usual = [cache_root() / "rknn", *map(Path, library_file.usual_paths())]
        places = [path for path in usual if path.exists()]

    libraries: dict[tuple[str, str, str], RknnLibrary] = {}
    for path in places:
        in_place = _libraries_in(path) if path.is_dir() else [read_library(path)]
        for library in in_place:
            build = (library.kind, library.full_version, library.architecture)
            libraries.setdefault(build, library)
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
    """Return the architecture of a program or library; None if it is unknown or not such a file."""
    return elf_files.architecture_of(str(path))


def architecture_of_this_python() -> str | None:
    """Return the architecture of this interpreter, which may be 32-bit on a 64-bit kernel."""
    return architecture_of(Path(sys.executable))
