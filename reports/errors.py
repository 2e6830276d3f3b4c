"""Every mistake of a user that leaves `python -m reports` without a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["NoResults", "NoStorage", "OutputNotWritable", "ReportError", "SeveralBoards"]


class ReportError(Exception):
    """The user can put it right; the message says how."""


class NoStorage(ReportError):
    """The storage is not there."""

    def __init__(self, storage: Path) -> None:
        super().__init__(f"no storage at {storage}. Run `pytest bench/` first, or name another with --storage DIR")


class NoResults(ReportError):
    """The storage has nothing to report."""

    def __init__(self, storage: Path) -> None:
        super().__init__(f"no results in {storage}. Run `pytest bench/` first, or name another with --storage DIR")


class SeveralBoards(ReportError):
    """The folder holds storages of several boards."""

    def __init__(self, folder: Path, boards: Sequence[Path]) -> None:
        names = ", ".join(str(board) for board in boards)
        super().__init__(f"{folder} holds storages of several boards; name one with --storage: {names}")


class OutputNotWritable(ReportError):
    """The report cannot be written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(f"cannot write the report into {folder} ({error.strerror}). Name another with --output DIR")
