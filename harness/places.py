"""Where results go: the folder of a storage, and whether it can be written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.errors import UserError

__all__ = ["FILE_SCHEME", "storage_folder", "writable"]

FILE_SCHEME = "file://"


def storage_folder(uri: str) -> Path:
    """Return the folder of pytest-benchmark's --benchmark-storage, or raise UserError where it is none."""
    scheme, separator, path = uri.rpartition("://")
    if separator and f"{scheme}{separator}" != FILE_SCHEME:
        raise UserError(f"--benchmark-storage {uri}: results and traces need a folder; valid: file://PATH or a path")
    return Path(path)


def writable(folder: Path) -> Path:
    """Return the folder, made where it is missing; raise UserError where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(
            f"the storage {folder} cannot be written ({error.strerror}). Choose another: "
            "--benchmark-storage=file://PATH"
        ) from None
