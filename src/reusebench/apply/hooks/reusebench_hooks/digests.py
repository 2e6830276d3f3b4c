"""Digests of what models give, which do not depend on the order of the runs."""

from __future__ import annotations

import os
import threading
from typing import Any, Dict, Iterable

from reusebench_hooks import hashing

_BITS = 128


def _update(digest: Any, value: Any) -> None:
    """Add a value: an array with its type and shape, or what a list or a dictionary has."""
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        digest.update(f"{value.dtype.str}{tuple(value.shape)}".encode())
        digest.update(repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes())
    elif isinstance(value, dict):
        digest.update(f"dict{len(value)}".encode())
        for key, one in value.items():
            _update(digest, key)
            _update(digest, one)
    elif isinstance(value, (list, tuple)):
        digest.update(f"list{len(value)}".encode())
        for one in value:
            _update(digest, one)
    elif value is None or isinstance(value, (str, bytes, bool, int, float)):
        digest.update(f"{type(value).__name__}{value!r}".encode())
    else:
        raise TypeError(f"{type(value).__name__} has no digest")


def digest_of(outputs: Iterable[Any]) -> int:
    """Return a number of 128 bits for the outputs of one run, in their order."""
    digest = hashing.new()
    for output in outputs:
        _update(digest, output)
    return int.from_bytes(digest.digest(), "little")


class Digests:
    """Per model: the number of runs, and the sum of their digests."""

    def __init__(self) -> None:
        self._restart()
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self._lock = threading.RLock()
        self._runs: Dict[str, int] = {}
        self._sums: Dict[str, int] = {}

    def add(self, model: str, outputs: Iterable[Any]) -> None:
        """Add the outputs of one run."""
        number = digest_of(outputs)
        with self._lock:
            self._runs[model] = self._runs.get(model, 0) + 1
            self._sums[model] = (self._sums.get(model, 0) + number) % (1 << _BITS)

    def by_model(self) -> Dict[str, Dict[str, Any]]:
        """Return the digests as the report has them."""
        with self._lock:
            return {
                model: {"runs": runs, "sum": f"{self._sums[model]:032x}"}
                for model, runs in self._runs.items()
            }
