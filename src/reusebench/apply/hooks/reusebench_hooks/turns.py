"""Turns: no more runs at once than there is memory and hardware for."""

from __future__ import annotations

import os
import threading
from typing import Callable, Optional

#: Longest wait of a fork for the runs of other threads.
_FORK_WAIT_S = 5.0


class _Mine(threading.local):
    """What this thread is in."""

    depth = 0
    is_forking = False


class Turns:
    """At most `limit` runs at once; a run inside another one needs no turn of its own.

        with turns:
            outputs = session.run(...)

    A fork waits until no thread runs: a child has no thread that would give back what they hold.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._restart()
        os.register_at_fork(
            before=self._pause,
            after_in_parent=self._resume,
            after_in_child=self._restart,
        )

    def _restart(self) -> None:
        """Forget the runs of a parent process: its threads are not in this one."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        #: Threads that wait; without any, a run ends without a notice.
        self._waiting = 0
        self._mine = _Mine()
        self._running = 0
        self._behind = 0
        self._is_paused = False
        self.most = 0

    def __enter__(self) -> None:
        mine = self._mine
        mine.depth += 1  # at first: a signal's handler that runs a model needs no turn of its own
        if mine.depth > 1:
            return
        try:
            with self._lock:
                if self._running >= self._limit or self._is_paused:
                    self._wait_for(self._is_free)
                self._running += 1
                self._count()
        except BaseException:
            mine.depth -= 1
            raise

    def __exit__(self, *_: object) -> None:
        mine = self._mine
        if mine.depth == 1:
            with self._lock:
                self._running -= 1
                self._tell()
        mine.depth = max(0, mine.depth - 1)

    def begin_behind(self) -> None:
        """Count a run that nobody waits for, and that may not wait."""
        with self._lock:
            self._behind += 1
            self._count()

    def end_behind(self) -> None:
        """End a run that was begun so; those of a parent process are none of this one."""
        with self._lock:
            self._behind = max(0, self._behind - 1)
            self._tell()

    def _wait_for(self, is_so: Callable[[], bool], limit_s: Optional[float] = None) -> None:
        """Wait, with the lock held, up to limit_s."""
        self._waiting += 1
        try:
            self._changed.wait_for(is_so, limit_s)
        finally:
            self._waiting -= 1

    def _tell(self) -> None:
        """Wake those that wait, with the lock held."""
        if self._waiting:
            self._changed.notify_all()

    def _is_free(self) -> bool:
        return self._running < self._limit and not self._is_paused

    def _count(self) -> None:
        running = self._running + self._behind
        if running > self.most:
            self.most = running

    def _pause(self) -> None:
        if self._mine.depth:
            return
        with self._lock:
            self._wait_for(lambda: not self._is_paused)
            self._is_paused = self._mine.is_forking = True
            self._wait_for(self._is_idle, _FORK_WAIT_S)

    def _is_idle(self) -> bool:
        return not self._running and not self._behind

    def _resume(self) -> None:
        if not self._mine.is_forking:
            return
        with self._lock:
            self._is_paused = self._mine.is_forking = False
            self._tell()
