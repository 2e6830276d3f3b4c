"""What the measured process holds, read by itself: heap in use, file descriptors, mappings, threads.

Under an emulator /proc/PID/maps of the host has the emulator's own mappings, and there are hundreds; what the process
itself reads is its own. Standard library only, Python 3.8.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from scenarios.heap import Heap

__all__ = ["usage"]

_heap = Heap()


def usage() -> Dict[str, Any]:
    """Return what is held now: bytes of the heap, None where the C library does not say, and counts of the others."""
    _heap.read()
    with open("/proc/self/maps", "rb") as maps:
        mappings = sum(1 for _ in maps)
    return {
        "heap_bytes": _heap.take_lowest(),
        # Without the descriptor that lists them.
        "fds": len(os.listdir("/proc/self/fd")) - 1,
        "mappings": mappings,
        "threads": len(os.listdir("/proc/self/task")),
    }
