"""Rockchip's runtime libraries: what a file is, read from the file itself, whatever its name."""

from __future__ import annotations

import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from targets.chips import CHIPS
from targets.errors import LibraryMissing, LibraryNotRecognised

__all__ = ["Library", "architecture_of", "architecture_of_this_python", "read_library"]

#: (bits, little endian, machine) of an ELF header (elf.h): EM_ARM, EM_AARCH64, EM_X86_64.
_ARCHITECTURES = {(1, 1, 40): "armhf", (2, 1, 183): "aarch64", (2, 1, 62): "x86_64"}
_ELF_HEADER = struct.Struct("<4sBB12xH")
_VERSION = re.compile(rb"(librknnm?rt) version: (\d+\.\d+\.\d+\w*)")


@dataclass(frozen=True)
class Library:
    """One file of Rockchip's runtime."""

    path: Path
    #: "librknnrt" or "librknnmrt".
    kind: str
    version: str
    architecture: str

    def chips(self) -> list[str]:
        """Return the names of the chips that it is for."""
        return [chip.name for chip in CHIPS.values() if chip.runtime == self.kind]


def read_library(path: Path) -> Library:
    """Return what the file is; raise a TargetError where it is not Rockchip's runtime for Linux."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LibraryMissing(path, error.strerror or str(error)) from error
    architecture = _architecture(content)
    if architecture is None:
        raise LibraryNotRecognised(path, "it is no shared library for a processor known here")
    version = _VERSION.search(content)
    if version is None:
        raise LibraryNotRecognised(path, "there is no version of librknnrt or librknnmrt in it")
    return Library(path.absolute(), version[1].decode(), version[2].decode(), architecture)


def architecture_of(path: Path) -> str | None:
    """Return the architecture of a program or shared library; None where it is neither or is of another one."""
    try:
        with path.open("rb") as file:
            return _architecture(file.read(_ELF_HEADER.size))
    except OSError:
        return None


def architecture_of_this_python() -> str | None:
    """Return the architecture of this interpreter, which may be 32-bit on a 64-bit kernel."""
    return architecture_of(Path(sys.executable))


def _architecture(content: bytes) -> str | None:
    if len(content) < _ELF_HEADER.size:
        return None
    magic, bits, order, machine = _ELF_HEADER.unpack_from(content)
    return _ARCHITECTURES.get((bits, order, machine)) if magic == b"\x7fELF" else None
