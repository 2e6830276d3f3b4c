"""The words that a library has printed, which tell the reason of its failure."""

from __future__ import annotations

import os

__all__ = ["last_words"]

_TAIL_BYTES = 2048


def last_words() -> str:
    """Return the end of standard error; empty if it cannot be read.

    The measured process has standard output there, too. What C's library holds back comes first.
    """
    # Imported only after a failure: it adds nothing to a process that is measured.
    import ctypes

    ctypes.CDLL(None).fflush(None)
    try:
        begin = max(0, os.fstat(2).st_size - _TAIL_BYTES)
        tail = os.pread(2, _TAIL_BYTES, begin)
    except OSError:  # no file, or one that can only be written
        return ""
    return tail.decode(errors="replace")
