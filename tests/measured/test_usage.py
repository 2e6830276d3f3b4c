"""What a process reads of itself after a cycle."""

from __future__ import annotations

import mmap
import os
import threading

from reusebench.measured.usage import usage


def test_what_is_held_is_counted() -> None:
    """Two descriptors, a mapping of one of them and a thread are there, and gone when they are
    given back.
    """
    before = usage(lambda: True)
    fds = [os.memfd_create(f"held-{number}") for number in range(2)]
    os.ftruncate(fds[0], mmap.PAGESIZE)
    mapping = mmap.mmap(fds[0], mmap.PAGESIZE)  # which holds a descriptor of its own
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
    after = usage(lambda: True)
    assert [after[name] - before[name] for name in ("fds", "threads")] == [0, 0]


def test_memory_as_allocated_is_read_before_the_trim() -> None:
    """What the trim gives back is in it."""
    # A mapping, since the heap of a process that has run other tests may have so much to spare, and
    # would keep it.
    held = mmap.mmap(-1, 64 << 20)
    held.write(b"x" * len(held))  # written to: zeros may be pages that are not there yet

    def trim() -> None:
        held.close()

    assert usage(trim)["allocated_bytes"] - usage(trim)["allocated_bytes"] > 32 << 20
