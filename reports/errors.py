"""The error of this package."""

from __future__ import annotations

from pathlib import Path


class ReportError(Exception):
    """The user can put it right; the sentence says how."""


def cannot_write(folder: Path, error: OSError) -> ReportError:
    """Return the error of a report that the system does not let be written."""
    return ReportError(f"cannot write the report into {folder} ({error.strerror}). Name another with --output DIR")
