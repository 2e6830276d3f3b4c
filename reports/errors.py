"""Every mistake of a user that leaves `python -m reports` without a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["NoResults", "NoRun", "NoStorage", "OutputNotWritable", "ReportError"]


class ReportError(Exception):
    """The user can put it right; the message says how."""


class NoStorage(ReportError):
    """The storage is not there."""

    def __init__(self, storage: Path) -> None:
        super().__init__(f"no storage at {storage}. Run `pytest bench/` first, or name another with --storage DIR")


class NoResults(ReportError):
    """The storages have nothing to report."""

    def __init__(self, storages: Sequence[Path], bad_files: Sequence[object]) -> None:
        names = ", ".join(str(storage) for storage in storages)
        unread = "".join(f"\n{file}" for file in bad_files)
        super().__init__(
            f"no results in {names}. Run `pytest bench/` first, or name another with --storage DIR{unread}"
        )


class NoRun(ReportError):
    """No stored run has that number."""

    def __init__(self, run: str, stored: Sequence[str]) -> None:
        names = ", ".join(sorted(set(stored)))
        super().__init__(f"there is no run {run!r}. Name one with --run N: {names}, or `latest`")


class OutputNotWritable(ReportError):
    """The report cannot be written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(f"cannot write the report into {folder} ({error.strerror}). Name another with --output DIR")
