"""Where results go: the folder of a storage, and whether it can be written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.errors import StorageNotLocal, StorageNotWritable

__all__ = ["FILE_SCHEME", "storage_folder", "writable"]

FILE_SCHEME = "file://"


def storage_folder(uri: str) -> Path:
    """Return the folder of pytest-benchmark's --benchmark-storage, or raise StorageNotLocal where it is none."""
    scheme, separator, path = uri.rpartition("://")
    if separator and f"{scheme}{separator}" != FILE_SCHEME:
        raise StorageNotLocal(uri)
    return Path(path)


def writable(folder: Path) -> Path:
    """Return the folder, made where it is missing; raise StorageNotWritable where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise StorageNotWritable(folder, error) from None
