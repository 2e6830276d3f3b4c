"""The models that a program loads: their digests, and what they have."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Tuple

from reusebench_hooks import hashing, settings
from reusebench_hooks.models import Contents

#: A file changed later than this before it is read may change again with the same time.
_SETTLED_NS = 2_000_000_000

_Identity = Tuple[str, int, int, int, int, int]


class LeftAlone(Exception):
    """A context that is left alone; the reason is a code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _planned_digest(data: bytes) -> str:
    import hashlib  # it takes 0.9 MiB

    return hashlib.sha256(data).hexdigest()[:32]


class Model:
    """The content of a model's file, and of the files with its weights."""

    def __init__(self, data: bytes, folder: str, name: str) -> None:
        digest = hashing.new(data)
        #: By which a plan knows the model; empty without a plan.
        self.file_digest = _planned_digest(data) if settings.has_plan() else ""
        self.size_bytes = len(data)
        self.contents = Contents(memoryview(data))
        for location in sorted(self.contents.external_files):
            digest.update(repr(_identity(os.path.join(folder, location))).encode())
        self.digest = digest.hexdigest()
        self.file_name = name or f"{len(data)} bytes"
        self.name = f"{name} {self.digest[:8]}" if name else self.digest


#: Models that were read before, by what the file system says of their files.
_KNOWN: Dict[_Identity, Model] = {}


def _identity(path: str) -> _Identity:
    path = os.path.abspath(path)
    status = os.stat(path)
    return (
        path,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def read_model(path_or_bytes: Any) -> Model:
    """Return the model in a file or in bytes."""
    if isinstance(path_or_bytes, bytes):
        return Model(path_or_bytes, "", "")
    identity = _identity(os.fspath(path_or_bytes))
    known = _KNOWN.get(identity)
    if known is not None and not known.contents.external_files:
        return known
    with open(identity[0], "rb") as file:
        data = file.read()
    folder, name = os.path.split(identity[0])
    model = Model(data, folder, name)
    if identity[-1] < time.time_ns() - _SETTLED_NS and _identity(identity[0]) == identity:
        _KNOWN[identity] = model
    return model
