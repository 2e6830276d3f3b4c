"""The architecture of a program or shared library, by its file's header.

Python 3.8, standard library.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import Optional

__all__ = ["ARCHITECTURES", "architecture_of", "open_regular"]

#: Architectures by e_machine of the ELF header: EM_ARM, EM_AARCH64, EM_X86_64 (elf.h).
ARCHITECTURES = {40: "armhf", 183: "aarch64", 62: "x86_64"}


def architecture_of(path: str) -> Optional[str]:
    """Return the architecture of a program or shared library; None if it is another file."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            header = file.read(20)
    except OSError:  # missing, or this user may not read it
        return None
    if len(header) < 20 or header[:4] != b"\x7fELF":
        return None
    (machine,) = struct.unpack_from("<H", header, 18)
    return ARCHITECTURES.get(machine)


def open_regular(path: str, flags: int) -> int:
    """Open a regular file, without waiting for the writer of a pipe; OSError if it is none."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return descriptor
