"""The errors of this package."""

from __future__ import annotations

__all__ = ["RuntimeMissing", "TargetError"]


class TargetError(Exception):
    """A target cannot be used; its sentence gives the reason, what would be valid, and what to do."""


class RuntimeMissing(TargetError):
    """The target can be used, and does not have the runtime."""
