"""Turns: no more runs at once than there is memory and hardware for."""

from __future__ import annotations

import os
import threading


class _Depth(threading.local):
    """How many runs the thread is in."""

    value = 0


class Turns:
    """At most `limit` runs at once; a run inside another one needs no turn of its own.

    with turns:
        outputs = session.run(...)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._restart()
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        """Forget the runs of a parent process: its threads are not in this one."""
        self._changed = threading.Condition(threading.Lock())
        self._depth = _Depth()
        self._running = 0
        self.most = 0

    def __enter__(self) -> None:
        if not self._depth.value:
            self._start()
        self._depth.value += 1

    def __exit__(self, *_: object) -> None:
        self._depth.value -= 1
        if not self._depth.value:
            self.give_back()

    def take(self) -> bool:
        """Take a turn that another thread may give back; False inside another run."""
        if self._depth.value:
            return False
        self._start()
        return True

    def give_back(self) -> None:
        """Give back a turn that was taken."""
        with self._changed:
            self._running -= 1
            self._changed.notify()

    def _start(self) -> None:
        with self._changed:
            while self._running >= self._limit:
                self._changed.wait()
            self._running += 1
            self.most = max(self.most, self._running)
