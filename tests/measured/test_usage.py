"""Resources that a process reads of itself after a cycle."""

from __future__ import annotations

import mmap
import os
import threading
import time

from reusebench.measured.usage import usage
from tests.helpers.support import TIME_LIMIT_S


def test_what_is_held_is_counted() -> None:
    """Two descriptors, a mapping and a thread are counted, and gone when they are released."""
    before = usage(lambda: True)
    fds = [os.memfd_create(f"held-{number}") for number in range(2)]
    os.ftruncate(fds[0], mmap.PAGESIZE)
    mapping = mmap.mmap(fds[0], mmap.PAGESIZE)  # holds a descriptor of its own
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    during = usage(lambda: True)
    assert [during[name] - before[name] for name in ("fds", "threads")] == [3, 1]
    assert during["mappings"] > before["mappings"]
    stop.set()
    thread.join()
    mapping.close()
    for fd in fds:
        os.close(fd)
    deadline = time.monotonic() + TIME_LIMIT_S
    after = usage(lambda: True)
    # A joined thread has ended in Python, and is in the kernel a moment longer.
    while after["threads"] > before["threads"] and time.monotonic() < deadline:
        after = usage(lambda: True)
    assert [after[name] - before[name] for name in ("fds", "threads")] == [0, 0]


def test_memory_as_allocated_is_read_before_the_trim() -> None:
    """It includes the memory that the trim returns."""
    # A mapping, because the heap of a process that ran other tests may have that much to spare, and
    # keep it.
    held = mmap.mmap(-1, 64 << 20)
    held.write(b"x" * len(held))  # written to, because zeros may be pages that do not exist yet

    def trim() -> None:
        held.close()

    assert usage(trim)["allocated_bytes"] - usage(trim)["allocated_bytes"] > 32 << 20
