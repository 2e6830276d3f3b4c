"""Rockchip's runtime libraries: what a file is, whatever its name, and which chips it is for."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from runtimes.base import AdapterError
from runtimes.rknn import library as library_file
from targets.chips import CHIPS
from targets.errors import TargetError

__all__ = ["Library", "architecture_of", "architecture_of_this_python", "read_library"]


@dataclass(frozen=True)
class Library:
    """One file of Rockchip's runtime."""

    path: Path
    #: "librknnrt" or "librknnmrt".
    kind: str
    version: str
    architecture: str

    def chips(self) -> list[str]:
        """Return the names of the chips that it is for, and knows."""
        version = tuple(map(int, re.findall(r"\d+", self.version)[:3]))
        return [chip.name for chip in CHIPS.values() if chip.runtime == self.kind and chip.since <= version]


def read_library(path: Path) -> Library:
    """Return what the file is; raise a TargetError where it is not Rockchip's runtime for Linux."""
    try:
        file = library_file.read_library(str(path))
    except AdapterError as error:
        raise TargetError(f"--rknn-library {error}") from None
    return Library(path.absolute(), file.kind, file.version, file.architecture)


def architecture_of(path: Path) -> str | None:
    """Return the architecture of a program or shared library; None where it is neither or is of another one."""
    return library_file.architecture_of(str(path))


def architecture_of_this_python() -> str | None:
    """Return the architecture of this interpreter, which may be 32-bit on a 64-bit kernel."""
    return architecture_of(Path(sys.executable))
