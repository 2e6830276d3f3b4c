"""Which board this is: every board has a storage of its own, since memory of two boards is never one series."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

__all__ = ["board_name", "board_storage"]

_MACHINE_ID = Path("/etc/machine-id")
#: pytest-benchmark's own default folder; every board has a folder in it.
_STORAGES = Path(".benchmarks")


def board_name() -> str:
    """Return the host name and, where there is one, the start of a digest of the machine id.

    Two boards that were flashed with one image, and still have its host name, differ in the digest.
    """
    host = re.sub(r"[^a-z0-9-]+", "-", platform.node().lower()).strip("-") or "board"
    if not _MACHINE_ID.exists():
        return host
    digest = hashlib.sha256(_MACHINE_ID.read_bytes()).hexdigest()
    return f"{host}-{digest[:6]}"


def board_storage() -> Path:
    """Return this board's default storage, relative to the working folder."""
    return _STORAGES / board_name()
