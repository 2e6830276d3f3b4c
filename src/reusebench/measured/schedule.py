"""Threads of the measured process: one worker per context, and a fair semaphore for the cores."""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from typing import Any, Callable, Deque, List, Optional, Tuple

__all__ = ["FairSemaphore", "Worker", "run_on_all"]


class FairSemaphore:
    """A semaphore that lets the thread enter that has waited longest.

    With threading.Semaphore a thread that leaves may enter again before those that wait. The last
    contexts of a run would then infer alone, and throughput would be understated.
    """

    def __init__(self, capacity: int) -> None:
        self._free = capacity
        self._lock = threading.Lock()
        self._waiting: Deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class Worker:
    """A thread that runs one task at a time."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[Optional[Callable[[], Any]]] = SimpleQueue()
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def start(self, task: Callable[[], Any]) -> None:
        """Give the worker a task."""
        self._tasks.put(task)

    def finish(self) -> Any:
        """Wait for the task and return its result, or raise its exception."""
        result, error = self._results.get()
        if error is not None:
            raise error
        return result

    def stop(self) -> None:
        """End the thread."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            outcome: Tuple[Any, Optional[BaseException]]
            try:
                outcome = (task(), None)
            except BaseException as error:  # raised by finish()
                outcome = (None, error)
            # Drop the task's objects before waiting: one of them may be a context that is to be
            # destroyed.
            task = None
            self._results.put(outcome)
            del outcome


def run_on_all(workers: List[Worker], tasks: List[Callable[[], Any]]) -> List[Any]:
    """Run tasks[i] on workers[i], all at once, and return their results in order."""
    for worker, task in zip(workers, tasks):
        worker.start(task)
    return [worker.finish() for worker in workers]
