"""Turns: no more runs at once than there is memory and hardware for."""

from __future__ import annotations

import os
import threading

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
        self._changed = threading.Condition(threading.Lock())
        self._mine = _Mine()
        self._running = 0
        self._behind = 0
        self._is_paused = False
        self.most = 0

    def __enter__(self) -> None:
        if not self._mine.depth:
            with self._changed:
                self._changed.wait_for(self._is_free)
                self._running += 1
                self._count()
        self._mine.depth += 1

    def __exit__(self, *_: object) -> None:
        self._mine.depth -= 1
        if not self._mine.depth:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def begin_behind(self) -> None:
        """Count a run that nobody waits for, and that may not wait."""
        with self._changed:
            self._behind += 1
            self._count()

    def end_behind(self) -> None:
        """End a run that was begun so; those of a parent process are none of this one."""
        with self._changed:
            self._behind = max(0, self._behind - 1)
            self._changed.notify_all()

    def _is_free(self) -> bool:
        return self._running < self._limit and not self._is_paused

    def _count(self) -> None:
        self.most = max(self.most, self._running + self._behind)

    def _pause(self) -> None:
        if self._mine.depth:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._is_paused)
            self._is_paused = self._mine.is_forking = True
            self._changed.wait_for(self._is_idle, _FORK_WAIT_S)

    def _is_idle(self) -> bool:
        return not self._running and not self._behind

    def _resume(self) -> None:
        if not self._mine.is_forking:
            return
        with self._changed:
            self._is_paused = self._mine.is_forking = False
            self._changed.notify_all()
