"""The file of Rockchip's runtime library: its path, kind, architecture and version.

The harness reads them from a library that it never loads, so nothing here loads one. Python 3.8,
standard library.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Iterator, NamedTuple, Optional, Tuple

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.elf_files import ARCHITECTURES, architecture_of, open_regular

__all__ = [
    "LIBRARY_VARIABLE",
    "LibraryFile",
    "find_library",
    "read_library",
    "usual_paths",
]

#: Variable with the path of the library, which precedes the usual paths.
LIBRARY_VARIABLE = "REUSEBENCH_RKNN_LIBRARY"

#: Names of the full runtime and the mini runtime (RV1103, RV1106) on Rockchip's board images and in
#: its SDK.
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
#: Text as "librknnrt version: 1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
_VERSION = re.compile(rb"(librknnm?rt) version: (\d+\.\d+\.\d+[^)\x00]{0,60}\)?)")
_PIECE_BYTES = 1 << 16
_OVERLAP_BYTES = 128


class LibraryFile(NamedTuple):
    """A library, as its file tells it."""

    path: str
    #: "librknnrt", or "librknnmrt" for the mini runtime.
    kind: str
    #: "armhf", "aarch64" or "x86_64".
    architecture: str
    #: Version as "1.6.0".
    version: str
    #: Version with the build, as "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
    full_version: str


def usual_paths() -> Iterator[str]:
    """Yield the paths that the library has on boards."""
    for folder in _FOLDERS:
        for name in _NAMES:
            yield os.path.join(folder, name)


def find_library() -> Optional[str]:
    """Return the file in LIBRARY_VARIABLE, or the first usual one that can be loaded here."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return named
    # The interpreter's architecture, not the kernel's: 32-bit systems also run on 64-bit kernels.
    architecture = architecture_of(sys.executable)
    if architecture is None:
        return None
    for path in usual_paths():
        if os.path.isfile(path) and architecture_of(path) == architecture:
            return path
    return None


def read_library(path: str) -> LibraryFile:
    """Return the library of a file; raise AdapterError if it is no runtime of Rockchip's."""
    try:
        kind_and_version = _find_version(path)
    except OSError as error:
        words = error.strerror or str(error)
        raise AdapterError("rknn_not_a_library", path=path, reason=words) from None
    architecture = architecture_of(path)
    if architecture is None:
        reason = Message("no_shared_library", {"architectures": ", ".join(ARCHITECTURES.values())})
        raise AdapterError("rknn_not_a_library", path=path, reason=reason)
    if kind_and_version is None:
        reason = Message("no_rknn_version", {"architecture": architecture})
        raise AdapterError("rknn_not_a_library", path=path, reason=reason)
    kind, version = kind_and_version
    return LibraryFile(path, kind, architecture, version.split()[0], version)


def _find_version(path: str) -> Optional[Tuple[str, str]]:
    """Return kind and version; the file is read in pieces, since megabytes would add to memory."""
    match = None
    text = b""
    with open(path, "rb", opener=open_regular) as file:
        for piece in iter(lambda: file.read(_PIECE_BYTES), b""):
            text = text[-_OVERLAP_BYTES:] + piece
            match = _VERSION.search(text) or match
            # A text that ends with the piece may continue in the next one.
            if match and match.end() < len(text):
                break
    if match is None:
        return None
    return match.group(1).decode(), match.group(2).decode(errors="replace")
