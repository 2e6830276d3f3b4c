"""Resources that the measured process holds after a cycle, read by itself.

Under an emulator the host's /proc/PID/maps has hundreds of mappings of the emulator; the process
itself reads only its own. Standard library only, Python 3.8.
"""

from __future__ import annotations

import gc
import os
from typing import Any, Callable, Dict

from reusebench.measured.heap import Heap

__all__ = ["usage"]

_heap = Heap()


def usage(trim: Callable[[], object]) -> Dict[str, Any]:
    """Return memory and heap in bytes, and counts; `heap_bytes` is None if nothing reports it.

    Python's garbage is collected first, since it would be freed sooner or later. Then `trim`
    returns the free heap, so that the counts have what nobody freed and not what the C library
    keeps.
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
        # one less: the descriptor of the listing
        "fds": len(os.listdir("/proc/self/fd")) - 1,
        "mappings": mappings,
        "threads": len(os.listdir("/proc/self/task")),
    }


def _resident_bytes() -> int:
    """Return anonymous and shared memory as the kernel counts it, exact to a few pages per CPU."""
    size_bytes = 0
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                size_bytes += 1024 * int(line.split()[1])
    return size_bytes
