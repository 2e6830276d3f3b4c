"""Prepared models of ONNX Runtime: the optimised graph, with weights that are mapped from a file.

The first start on a machine prepares a model after its first run, and runs what it prepared on the
same inputs. Later starts load it if outputs and all that a session tells were equal to the bit. Its
pages are shared by all processes that load it.

    CACHE/onnxruntime/KEY/model.onnx    the optimised graph
    CACHE/onnxruntime/KEY/weights.bin   its weights
    CACHE/onnxruntime/KEY/state.json    whether it was equal; checksums of the files
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import zlib
from typing import Any, Dict, List, Optional

from reusebench_hooks import hashing, settings

_FORMAT = 2
_GRAPH, _WEIGHTS, _STATE = "model.onnx", "weights.bin", "state.json"
#: Models with fewer bytes are not worth a file; larger ones would push out all others.
_LEAST_BYTES, _LARGEST_BYTES = 1 << 20, 1 << 30
#: When the folder grows beyond this, what was used least recently goes.
_MOST_BYTES = 2 << 30
#: Room that preparing takes, in memory and on the disk: this multiple of the model's file.
_ROOM = 8
#: A folder of a process that was killed while it prepared.
_STALE_S = 24 * 3600

#: Entries of options with which the optimised model is saved.
SAVING = {
    "session.optimized_model_external_initializers_file_name": _WEIGHTS,
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
    # Packed weights of matrix products are saved as they are used; older versions ignore it.
    "session.save_external_prepacked_constant_initializers": "1",
}


def _cpu() -> str:
    """Return the processor's features, on which the optimised graph depends."""
    names = ("flags", "Features", "model name", "CPU part", "CPU implementer")
    found = set()
    # On another system the name of the processor has to do.
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        found = {line.strip() for line in file if line.split("\t")[0].strip() in names}
    return repr((platform.machine(), sorted(found)))


def _free_memory_bytes() -> int:
    """Return the memory that the process may still take; it may be in a control group."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        sizes = dict(line.split()[:2] for line in file)
    free = int(sizes["MemAvailable:"]) << 10
    # In a container the group of the process is at the root.
    with contextlib.suppress(OSError, ValueError):
        free = min(free, _number_in("memory.max") - _number_in("memory.current"))
    return free


def _number_in(name: str) -> int:
    with open(os.path.join("/sys/fs/cgroup", name), encoding="utf-8") as file:
        return int(file.read())


def _checksum_of(path: str) -> int:
    """Return the file's CRC-32: a digest of all weights would slow down each start."""
    checksum = 0
    with open(path, "rb") as file:
        while True:
            block = file.read(1 << 20)
            if not block:
                return checksum
            checksum = zlib.crc32(block, checksum)


def _free_disk_bytes(folder: str) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _remove(folder: str) -> None:
    import shutil  # it is seldom needed, and takes 0.4 MiB

    shutil.rmtree(folder, ignore_errors=True)


def _bytes_in(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


class Cache:
    """The prepared models of one version of the runtime on this CPU."""

    def __init__(self, version: Optional[str]) -> None:
        self._root = os.path.join(settings.cache_folder(), "onnxruntime")
        self._machine = repr((_FORMAT, version, _cpu()))

    def folder_of(self, key: Any) -> str:
        """Return the folder of the model with this key, which has digest, options and providers."""
        name = hashing.new((self._machine + repr(key)).encode()).hexdigest()
        return os.path.join(self._root, name)

    def find(self, folder: str) -> Optional[str]:
        """Return the graph's path; None if there is none, or if it is not equal.

        A folder with a file that changed since is removed, and so will be prepared anew.
        """
        state = self._state(folder)
        if not state.get("is_equal"):
            return None
        for name, checksum in state["files"].items():
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or _checksum_of(path) != checksum:
                _remove(folder)
                return None
        with contextlib.suppress(OSError):  # a folder that may only be read
            os.utime(os.path.join(folder, _STATE))
        return os.path.join(folder, _GRAPH)

    def is_wanted(self, folder: str, model_bytes: int) -> bool:
        """Return whether the model is to be prepared: a model that was not equal stays so."""
        if not _LEAST_BYTES <= model_bytes <= _LARGEST_BYTES or self._state(folder):
            return False
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            room = min(_free_memory_bytes(), _free_disk_bytes(self._root))
        except (OSError, ValueError):
            return False
        return os.access(self._root, os.W_OK) and room > _ROOM * model_bytes

    def _state(self, folder: str) -> Dict[str, Any]:
        path = os.path.join(folder, _STATE)
        try:
            with open(path, encoding="utf-8") as file:
                state = json.load(file)
            return state if isinstance(state["files"], dict) else {}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError):
            _remove(folder)
            return {}

    def begin(self, folder: str) -> str:
        """Return the path of the graph in a new folder of this process."""
        own = f"{folder}.{os.getpid()}.{time.time_ns()}"
        os.mkdir(own, 0o700)
        return os.path.join(own, _GRAPH)

    def end(self, folder: str, graph: str, is_equal: bool) -> None:
        """Put the new folder in its place, unless another process was first."""
        own = os.path.dirname(graph)
        names = os.listdir(own) if is_equal else []
        files = {name: _checksum_of(os.path.join(own, name)) for name in names}
        with open(os.path.join(own, _STATE), "w", encoding="utf-8") as file:
            json.dump({"is_equal": is_equal, "files": files}, file)
        for name in () if is_equal else (_GRAPH, _WEIGHTS):
            if os.path.exists(os.path.join(own, name)):
                os.unlink(os.path.join(own, name))
        try:
            os.rename(own, folder)
        except OSError:
            _remove(own)
        self._prune()

    def drop(self, graph: str) -> None:
        """Remove the new folder: the model could not be prepared."""
        _remove(os.path.dirname(graph))

    def _prune(self) -> None:
        """Remove folders that a killed process left, and the oldest beyond the limit."""
        left = _MOST_BYTES
        for used_at, folder in sorted(self._folders(), reverse=True):
            is_stale = "." in os.path.basename(folder) and used_at < time.time() - _STALE_S
            left -= _bytes_in(folder)
            if is_stale or left < 0:
                _remove(folder)

    def _folders(self) -> List[Any]:
        """Return each folder with the time of its last use."""
        folders = [os.path.join(self._root, name) for name in os.listdir(self._root)]
        found = []
        for folder in folders:
            state = os.path.join(folder, _STATE)
            found.append((os.path.getmtime(state if os.path.exists(state) else folder), folder))
        return found
