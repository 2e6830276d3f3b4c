"""The standard error of a measured process: a file, of which only the end is kept on disk.

It is no pipe: adapters look in it for what their library has written during a call.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from typing import IO

from reusebench.targets.errors import TargetError

__all__ = ["LAST_WORDS_BYTES", "StandardError", "readable_words"]

#: Length of the end that is shown.
LAST_WORDS_BYTES = 4000
#: Length of the end that is kept; a library writes less during one call.
_KEPT_BYTES = 1 << 22
#: The most that the file may take, if its file system cannot give up a part of it.
_MOST_BYTES = 1 << 28
#: Unit of st_blocks.
_BLOCK_BYTES = 512
#: Linux, falloc.h. The size stays, and what is given up reads as zeros.
_PUNCH_HOLE_KEEP_SIZE = 3
#: Escape sequences of coloured messages.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class StandardError:
    """A temporary file without a name, in $TMPDIR."""

    def __init__(self) -> None:
        try:
            self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        except OSError as error:
            raise TargetError(
                "the errors of the measured process need a temporary file, and none can be made"
                f" ({error.strerror}); set TMPDIR to a folder that is writable and has room"
            ) from None
        self._given_up_bytes = 0

    def shorten(self) -> bool:
        """Give up all but the end on disk; return whether the file still takes too much."""
        status = os.fstat(self.file.fileno())
        superfluous = status.st_size - _KEPT_BYTES
        if superfluous - self._given_up_bytes > _KEPT_BYTES:
            _punch_hole(self.file.fileno(), superfluous)
            self._given_up_bytes = superfluous
        return os.fstat(self.file.fileno()).st_blocks * _BLOCK_BYTES > _MOST_BYTES

    def last_words(self) -> str:
        """Return the end of what was written, as text."""
        descriptor = self.file.fileno()
        # Not by seek: the process writes at the same position.
        start = max(0, os.fstat(descriptor).st_size - LAST_WORDS_BYTES)
        return readable_words(os.pread(descriptor, LAST_WORDS_BYTES, start))

    def close(self) -> None:
        """Remove the file."""
        self.file.close()


def readable_words(errors: bytes) -> str:
    """Return the end of standard error as text, without colours."""
    return _COLOURS.sub("", errors[-LAST_WORDS_BYTES:].decode(errors="replace")).strip()


def _punch_hole(descriptor: int, size: int) -> None:
    """Give up the first `size` bytes, if the file system can."""
    library = ctypes.CDLL(None)
    # On 32 bits, the one for large files; not every C library has this name.
    function = getattr(library, "fallocate64", library.fallocate)
    function(descriptor, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size))
