"""The error of this package."""

from __future__ import annotations

__all__ = ["StorageError"]


class StorageError(Exception):
    """A mistake that the user can correct; the message says how."""
