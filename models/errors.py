"""The error of this package, and what several of its modules say."""

from __future__ import annotations

import signal
from pathlib import Path

__all__ = ["ModelError", "cannot_write", "end_of"]


class ModelError(Exception):
    """A model file cannot be had; the sentence says why, what would be valid, and what to do next."""


def cannot_write(path: Path, cause: OSError) -> ModelError:
    """Return the error of a file or folder that the system does not let be written."""
    return ModelError(
        f"cannot write {path}: {cause.strerror or cause}; choose a folder that exists, is writable and has room "
        "(--output FILE, or XDG_CACHE_HOME for the cache)"
    )


def end_of(return_code: int) -> str:
    """Return in words how a process ended; a negative return code is the signal that ended it."""
    return f"exit code {return_code}" if return_code >= 0 else f"killed by {signal.Signals(-return_code).name}"
