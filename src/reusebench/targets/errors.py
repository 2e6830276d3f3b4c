"""The errors of this package."""

from __future__ import annotations

__all__ = ["ConnectionLost", "NotStarted", "RuntimeMissing", "TargetError"]


class TargetError(Exception):
    """A target cannot be used; its sentence gives the reason, what would be valid, and what to
    do.
    """


class RuntimeMissing(TargetError):
    """The target can be used, and does not have the runtime."""


class ConnectionLost(TargetError):
    """The board could be used, and cannot be reached any more."""


class NotStarted(TargetError):
    """A program cannot be started on the board."""

    def __init__(self, sentence: str, is_missing: bool) -> None:
        """Take whether it is not there; else it cannot be executed."""
        super().__init__(sentence)
        self.is_missing = is_missing
