"""Files with the weights that XNNPACK packed, which all contexts of a model map.

XNNPACK takes a file for whatever model names it. So a file's name has the digest of the model, the
version of the library and the instructions of the CPU. A file is written under another name first,
and never changed.
"""

from __future__ import annotations

import mmap
import os
import platform
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple

from reusebench_hooks import hashing, settings

#: A file changed later than this before it is read may change again with the same time.
_SETTLED_NS = 2_000_000_000


class ModelDigests:
    """Digests of models in files, which are not read again unless they have changed."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[Any, ...], str] = {}

    def of(self, path: Any, content: Optional[bytes]) -> str:
        """Return the digest of a model in a file or in memory."""
        if content is not None:
            return hashing.new(content).hexdigest()
        path = os.path.abspath(os.fspath(path))
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            changed = status.st_mtime_ns, status.st_ctime_ns
            identity = (path, status.st_dev, status.st_ino, status.st_size, *changed)
            known = self._known.get(identity)
            if known is not None:
                return known
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        made = hashing.new()
        made.update(data)
        data.close()
        digest = made.hexdigest()
        if status.st_ctime_ns < time.time_ns() - _SETTLED_NS:
            self._known[identity] = digest
        return digest


class Cache:
    """The file of one model, of which contexts are made one after another."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.RLock()
        #: Number of contexts that were made without it.
        self.without = 0
        #: Reason to make all contexts without it.
        self.objection: Optional[str] = None

    def is_worthwhile(self) -> bool:
        """Whether to use the file: if it is there, or if this is not the first context."""
        return self.objection is None and (self.without > 0 or os.path.exists(self.path))

    def make(self, write: Callable[[str], None]) -> None:
        """Have the file written under another name; have an objection if there is none then."""
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, exist_ok=True)
            making = tempfile.TemporaryDirectory(prefix=".making-", dir=folder)
        except OSError:
            self.objection = "cache_unwritable"
            return
        with making as own:
            made = os.path.join(own, "weights")
            write(made)
            if not os.path.exists(made):
                self.objection = "nothing_packed"
                return
            with open(made, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(made, self.path)


class Caches:
    """The files of this library's version on this CPU."""

    def __init__(self, version: str) -> None:
        self._suffix = f"{version}-{_cpu_digest()}"
        self._restart()
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self._lock = threading.Lock()
        self._caches: Dict[str, Cache] = {}

    def of(self, digest: str) -> Cache:
        """Return the file of a model, which may not exist yet."""
        with self._lock:
            if digest not in self._caches:
                name = f"{digest}-{self._suffix}.xnnpack"
                path = os.path.join(settings.cache_folder(), "litert", name)
                self._caches[digest] = Cache(path)
            return self._caches[digest]


def _cpu_digest() -> str:
    """Return a digest of the instructions that the CPU has."""
    words = [platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.partition(":")[0].strip() in ("flags", "Features", "model name", "CPU part"):
            words.append(line)
    return hashing.new("\n".join(sorted(set(words))).encode()).hexdigest()[:8]
