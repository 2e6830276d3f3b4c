"""Only one process changes the finished runs of a storage at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reusebench.system.interrupts import uninterrupted

__all__ = ["excluding_others"]


@contextmanager
def excluding_others(storage: Path) -> Iterator[bool]:
    """Wait until no other process is within this, and keep others and signals waiting.

    Yields False on a network file system without locks, on which others are not kept waiting. It is
    held for one run or file, so that nobody waits for long.
    """
    # Nothing is written for the lock: the folder itself is locked.
    descriptor = os.open(storage, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_alone = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            is_alone = False
        with uninterrupted():
            yield is_alone
    finally:
        os.close(descriptor)
