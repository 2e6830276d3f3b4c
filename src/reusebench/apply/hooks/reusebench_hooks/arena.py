"""One arena for all sessions of ONNX Runtime in a process."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any, Callable, Dict

#: Weights are kept out of the arena: they go when their session goes.
_ENTRIES = {
    "session.use_env_allocators": "1",
    "session.use_device_allocator_for_initializers": "1",
}
_SHRINKAGE = ("memory.enable_memory_arena_shrinkage", "cpu:0")


class Arena:
    """The arena, which is made for the first session that takes memory from it."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._lock = threading.RLock()
        self._is_made = False
        self._is_parents = False
        #: For sessions that would have no arena: it gives back after a run what nobody uses.
        self.shrinking: Any = native.RunOptions()
        self.shrinking.add_run_config_entry(*_SHRINKAGE)
        self._register = native.create_and_register_allocator
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        """Do without the parent's arena: one of its threads may have held the arena's lock."""
        self._lock = threading.RLock()
        self._is_parents = self._is_made

    def entries(self) -> Dict[str, str]:
        """Return entries of options that let a session use the arena; none if it may not."""
        with self._lock:
            if self._is_parents:
                return {}
            if not self._is_made:
                self._make()
                self._is_made = True
            return _ENTRIES

    def _make(self) -> None:
        native = self._native
        kind = native.OrtAllocatorType.ORT_ARENA_ALLOCATOR
        info = native.OrtMemoryInfo("Cpu", kind, 0, native.OrtMemType.DEFAULT)
        self._register(info, None)

    def registering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the program's own call: older versions refuse a second arena."""

        @functools.wraps(original)
        def register(*arguments: Any) -> Any:
            try:
                return original(*arguments)
            except Exception:
                if not self._is_made:
                    raise
                return None  # sessions that ask for the program's arena have this one

        return register
