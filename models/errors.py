"""The error of this package."""

from __future__ import annotations

__all__ = ["ModelError"]


class ModelError(Exception):
    """A model file cannot be had; the sentence says why, what would be valid, and what to do next."""
