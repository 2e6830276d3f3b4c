"""The program's callbacks of requests that share a compiled model, in a thread of each caller.

The runtime calls all of a compiled model's callbacks in one thread. A callback that waits for
another caller's request would wait for itself there.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from typing import Any, Callable, Optional


class _Call:
    """A call of the program's function, which `wait` waits for."""

    def __init__(self, function: Callable[[Any], None], data: Any) -> None:
        self._function = function
        self._data = data
        self._is_done = threading.Event()
        self._error: Optional[Exception] = None

    def run(self) -> None:
        try:
            self._function(self._data)
        except Exception as error:
            self._error = error
        finally:
            self._is_done.set()

    def wait(self, timeout_s: Optional[float] = None) -> bool:
        """Wait for the end; raise what the runtime raises for a callback that failed."""
        if not self._is_done.wait(timeout_s):
            return False
        if self._error is not None:
            text = f"{type(self._error).__name__}: {self._error}"
            raise RuntimeError(text) from self._error
        return True


def _run_all(calls: queue.SimpleQueue[Optional[_Call]]) -> None:
    for call in iter(calls.get, None):
        call.run()


class CallbackThread:
    """A thread that begins with the first callback and ends with this object."""

    def __init__(self) -> None:
        self._calls: Optional[queue.SimpleQueue[Optional[_Call]]] = None
        self._lock = threading.Lock()

    def _add(self, call: _Call) -> None:
        with self._lock:
            if self._calls is None:
                self._calls = queue.SimpleQueue()
                threading.Thread(target=_run_all, args=(self._calls,), daemon=True).start()
                weakref.finalize(self, self._calls.put, None)
        self._calls.put(call)


class Callbacks:
    """The callbacks of one request."""

    def __init__(self, thread: CallbackThread) -> None:
        self._thread = thread
        self._last: Optional[_Call] = None

    def handing_over(self, function: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return the callback for the runtime, which has the function called and ends at once."""

        def call_back(data: Any) -> None:
            self._last = _Call(function, data)
            self._thread._add(self._last)

        return call_back

    def wait(self) -> None:
        """Wait for the callback of the run that has ended."""
        if self._last is not None:
            self._last.wait()

    def wait_until(self, end_s: float) -> bool:
        """Wait for the callback up to a time of time.monotonic(); whether it has ended."""
        return self._last is None or self._last.wait(max(0.0, end_s - time.monotonic()))
