"""Where Rockchip's runtime library is, and its kind, architecture and version, read from the file.

The harness reads them of a library that it never loads, so nothing here loads one. Python 3.8,
standard library.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
import sys
from typing import Iterator, NamedTuple, Optional, Tuple

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import AdapterError

__all__ = [
    "LIBRARY_VARIABLE",
    "LibraryFile",
    "architecture_of",
    "find_library",
    "read_library",
    "usual_paths",
]

#: Names the library's file, before any usual path.
LIBRARY_VARIABLE = "REUSEBENCH_RKNN_LIBRARY"

#: Full runtime and mini runtime (RV1103, RV1106), as Rockchip's board images and its SDK install
#: them.
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
    """What is known of a library from its file."""

    path: str
    #: "librknnrt" or "librknnmrt", the mini runtime.
    kind: str
    #: "armhf", "aarch64" or "x86_64".
    architecture: str
    #: As in "1.6.0".
    version: str
    #: With the build, as in "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
    full_version: str


def usual_paths() -> Iterator[str]:
    """Yield the paths that the library has on boards."""
    for folder in _FOLDERS:
        for name in _NAMES:
            yield os.path.join(folder, name)


def find_library() -> Optional[str]:
    """Return the file that LIBRARY_VARIABLE names, or the first of the usual paths which this
    machine can load.
    """
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return named
    # Of the interpreter, not of the kernel: 32-bit systems run on 64-bit kernels too.
    architecture = architecture_of(sys.executable)
    for path in usual_paths():
        if (
            architecture is not None
            and os.path.isfile(path)
            and architecture_of(path) == architecture
        ):
            return path
    return None


def read_library(path: str) -> LibraryFile:
    """Return what is known of the library; raise AdapterError if the file is no runtime library of
    Rockchip's.
    """
    try:
        kind_and_version = _find_version(path)
    except OSError as error:
        raise AdapterError(
            "rknn_not_a_library", path=path, reason=error.strerror or str(error)
        ) from None
    architecture = architecture_of(path)
    if architecture is None:
        reason = Message("no_shared_library", {"architectures": ", ".join(_MACHINES.values())})
        raise AdapterError("rknn_not_a_library", path=path, reason=reason)
    if kind_and_version is None:
        reason = Message("no_rknn_version", {"architecture": architecture})
        raise AdapterError("rknn_not_a_library", path=path, reason=reason)
    kind, version = kind_and_version
    return LibraryFile(path, kind, architecture, version.split()[0], version)


def architecture_of(path: str) -> Optional[str]:
    """Return the architecture of a program or shared library; None if it is neither or is of
    another one.
    """
    try:
        with open(path, "rb", opener=_open_regular) as file:
            header = file.read(20)
    except OSError:  # missing, or not for this user to read
        return None
    if len(header) < 20 or header[:4] != b"\x7fELF":
        return None
    (machine,) = struct.unpack_from("<H", header, 18)
    return _MACHINES.get(machine)


def _open_regular(path: str, flags: int) -> int:
    """Open it as open() does, without waiting for the writer of a pipe; OSError if it is no
    regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return descriptor


def _find_version(path: str) -> Optional[Tuple[str, str]]:
    """Search the file piece by piece: it has megabytes, and the measured process would be weighed
    with them.
    """
    match = None
    text = b""
    with open(path, "rb", opener=_open_regular) as file:
        for piece in iter(lambda: file.read(_PIECE_BYTES), b""):
            text = text[-_OVERLAP_BYTES:] + piece
            match = _VERSION.search(text) or match
            # One that ends with the piece may go on in the next.
            if match and match.end() < len(text):
                break
    return (match.group(1).decode(), match.group(2).decode(errors="replace")) if match else None
