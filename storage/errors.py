"""Every mistake of a user that ends `python -m storage`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["NoRuns", "NoStorage", "NotRecoverable", "NotRemovable", "SeveralStorages", "StorageError"]


class StorageError(Exception):
    """The user can put it right; the message says how."""


class NoStorage(StorageError):
    """The storage is not there."""

    def __init__(self, storage: Path) -> None:
        super().__init__(f"no storage at {storage}. Run `pytest bench/` first, or name another with --storage DIR")


class NoRuns(StorageError):
    """The folder is none that this project has written to, as far as can be seen."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"there is no run in {folder}: it is no storage, and nothing in it is removed")


class SeveralStorages(StorageError):
    """One board's runs are to be removed, and the folder has those of several."""

    def __init__(self, folder: Path, storages: Sequence[Path]) -> None:
        names = ", ".join(str(each) for each in storages)
        super().__init__(f"{folder} has the storages of several boards. Name one with --storage DIR: {names}")


class NotRemovable(StorageError):
    """A file cannot be removed."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"{error.filename} cannot be removed ({error.strerror}). It and what comes after it are still there; "
            "the same command goes on"
        )


class NotRecoverable(StorageError):
    """A journal cannot be made a run: the disk is full, or the storage is not the user's."""

    def __init__(self, journal: Path, error: OSError) -> None:
        super().__init__(
            f"{journal} cannot be stored as a run ({error.filename or journal}: {error.strerror}). "
            "Nothing is lost: put that right, and the same command goes on"
        )
