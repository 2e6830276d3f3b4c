"""The error of this package."""

from __future__ import annotations

__all__ = ["ModelError"]


class ModelError(Exception):
    """A model file cannot be had; its sentence gives the reason, what would be valid, and what to do next."""
