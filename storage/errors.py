"""The error of this package."""

from __future__ import annotations

__all__ = ["StorageError"]


class StorageError(Exception):
    """The user can put it right; the sentence says how."""
