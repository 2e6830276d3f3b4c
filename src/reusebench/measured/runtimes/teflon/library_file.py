"""The file of Mesa's libteflon.so: its path, architecture and version.

The harness reads them from a library that it never loads, so nothing here loads one. Python 3.8,
standard library.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Optional

from reusebench.measured.runtimes.elf_files import architecture_of, open_regular

__all__ = ["LIBRARY_VARIABLE", "USUAL_PATHS", "find_library", "version_of"]

#: Variable with the path of the library, which precedes the usual paths.
LIBRARY_VARIABLE = "REUSEBENCH_TEFLON_LIBRARY"

#: Paths of Debian's package mesa-teflon-delegate, of other distributions, and of Mesa's own
#: `meson install`.
USUAL_PATHS = (
    "/usr/lib/teflon/libteflon.so",
    "/usr/lib/aarch64-linux-gnu/libteflon.so",
    "/usr/lib64/libteflon.so",
    "/usr/lib/libteflon.so",
    "/usr/local/lib/aarch64-linux-gnu/libteflon.so",
    "/usr/local/lib64/libteflon.so",
    "/usr/local/lib/libteflon.so",
)
#: Mesa's version as a text of its own: the year, the release, the patch, and the distribution's
#: part, as 26.1.6-1~bpo13+1.
_VERSION = re.compile(rb"\0(2\d\.\d+\.\d+[\w.~+-]{0,40})\0")
_PIECE_BYTES = 1 << 16
_OVERLAP_BYTES = 64


def find_library() -> Optional[str]:
    """Return the file in LIBRARY_VARIABLE, or the first usual one that can be loaded here."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return named
    architecture = architecture_of(sys.executable)
    for path in USUAL_PATHS:
        if os.path.isfile(path) and architecture_of(path) == architecture:
            return path
    return None


def version_of(path: str) -> Optional[str]:
    """Return the version of Mesa that the file tells; None if it tells none.

    The file is read in pieces: its megabytes would add to memory.
    """
    text = b""
    with open(path, "rb", opener=open_regular) as file:
        for piece in iter(lambda: file.read(_PIECE_BYTES), b""):
            text = text[-_OVERLAP_BYTES:] + piece
            match = _VERSION.search(text)
            if match:
                return match[1].decode()
    return None
