"""Where Rockchip's runtime library is, and what it says of itself: kind, architecture and version, read from the file.

The harness asks this of a library that it never loads, so nothing here loads one. Python 3.8, standard library.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from typing import BinaryIO, Iterator, NamedTuple, Optional, Tuple

from messages import Message
from runtimes.base import AdapterError

__all__ = [
    "LIBRARY_VARIABLE",
    "LibraryFile",
    "architecture_of",
    "find_library",
    "read_library",
    "usual_places",
]

#: Names the library's file, before any usual place.
LIBRARY_VARIABLE = "REUSEBENCH_RKNN_LIBRARY"

#: Full runtime and mini runtime (RV1103, RV1106), as Rockchip's board images and its SDK install them.
_NAMES = ("librknnrt.so", "librknnmrt.so")
_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/arm-linux-gnueabihf",
    "/lib",
    "/oem/usr/lib",
    "/vendor/lib64",
    "/vendor/lib",
)
#: By the ELF header's e_machine: EM_ARM, EM_AARCH64, EM_X86_64 (elf.h).
_MACHINES = {40: "armhf", 183: "aarch64", 62: "x86_64"}
#: As in "librknnrt version: 1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
_VERSION = re.compile(rb"(librknnm?rt) version: (\d+\.\d+\.\d+[^)\x00]{0,60}\)?)")
_PIECE_BYTES = 1 << 16
_OVERLAP_BYTES = 128


class LibraryFile(NamedTuple):
    """What a library's file says of itself."""

    path: str
    #: "librknnrt" or "librknnmrt", the mini runtime.
    kind: str
    #: "armhf", "aarch64" or "x86_64".
    architecture: str
    #: As in "1.6.0".
    version: str
    #: With the build, as in "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
    full_version: str


def usual_places() -> Iterator[str]:
    """Yield where a board has the library."""
    for folder in _FOLDERS:
        for name in _NAMES:
            yield os.path.join(folder, name)


def find_library() -> Optional[str]:
    """Return the file that LIBRARY_VARIABLE names, or that of the usual places which this machine can load."""
    chosen = os.environ.get(LIBRARY_VARIABLE)
    if chosen:
        return chosen
    # Of the interpreter, not of the kernel: 32-bit systems run on 64-bit kernels too.
    own = architecture_of(sys.executable)
    return next((path for path in usual_places() if _is_library_for(own, path)), None)


def read_library(path: str) -> LibraryFile:
    """Return what the file says of itself; raise AdapterError where it is no runtime library of Rockchip's."""
    try:
        found = _find_version(path)
    except OSError as error:
        raise AdapterError("rknn_not_a_library", path=path, reason=error.strerror or str(error)) from None
    architecture = architecture_of(path)
    if architecture is None:
        reason = Message("no_shared_library", {"architectures": ", ".join(_MACHINES.values())})
        raise AdapterError("rknn_not_a_library", path=path, reason=reason)
    if found is None:
        reason = Message("no_rknn_version", {"architecture": architecture})
        raise AdapterError("rknn_not_a_library", path=path, reason=reason)
    kind, version = found
    return LibraryFile(path, kind, architecture, version.split()[0], version)


def architecture_of(path: str) -> Optional[str]:
    """Return the architecture of a program or shared library; None where it is neither or is of another one."""
    try:
        with open(path, "rb") as file:
            header = file.read(20)
    except OSError:  # missing, or not for this user to read
        return None
    if len(header) < 20 or header[:4] != b"\x7fELF":
        return None
    (machine,) = struct.unpack_from("<H", header, 18)
    return _MACHINES.get(machine)


def _is_library_for(architecture: Optional[str], path: str) -> bool:
    return architecture is not None and os.path.isfile(path) and architecture_of(path) == architecture


def _find_version(path: str) -> Optional[Tuple[str, str]]:
    """Search the file piece by piece: it has megabytes, and the measured process would be weighed with them."""
    found = None
    with open(path, "rb") as file:
        for piece in _pieces(file):
            match = _VERSION.search(piece)
            found = match or found
            # One that ends with the piece may go on in the next, which begins with it.
            if match and match.end() < len(piece):
                break
    return (found.group(1).decode(), found.group(2).decode(errors="replace")) if found else None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    last = b""
    while True:
        piece = file.read(_PIECE_BYTES)
        if not piece:
            return
        yield last + piece
        last = piece[-_OVERLAP_BYTES:]
