"""What the measured process holds after a cycle, read by itself: memory, heap in use, descriptors,
mappings, threads.

Under an emulator /proc/PID/maps of the host has the emulator's own mappings, and there are
hundreds; what the process itself reads is its own. Standard library only, Python 3.8.
"""

from __future__ import annotations

import gc
import os
from typing import Any, Callable, Dict

from reusebench.measured.heap import Heap

__all__ = ["usage"]

_heap = Heap()


def usage(trim: Callable[[], object]) -> Dict[str, Any]:
    """Return what is held now: bytes of memory as allocated and of the heap, None if nothing
    says, and counts.

    Python's garbage is collected before, which it would free sooner or later. Then the heap is
    trimmed: what a process holds that waits at a barrier is what nobody has freed, and not what the
    C library keeps.
    """
    gc.collect()
    allocated_bytes = _resident_bytes()
    trim()
    _heap.read()
    with open("/proc/self/maps", "rb") as maps:
        mappings = sum(1 for _ in maps)
    return {
        "allocated_bytes": allocated_bytes,
        "heap_bytes": _heap.take_lowest(),
        # Without the descriptor that lists them.
        "fds": len(os.listdir("/proc/self/fd")) - 1,
        "mappings": mappings,
        "threads": len(os.listdir("/proc/self/task")),
    }


def _resident_bytes() -> int:
    """Return anonymous and shared memory, as the kernel counts it: within some pages per CPU."""
    size_bytes = 0
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                size_bytes += 1024 * int(line.split()[1])
    return size_bytes
