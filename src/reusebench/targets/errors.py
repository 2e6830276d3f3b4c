"""The errors of this package."""

from __future__ import annotations

__all__ = [
    "ConnectionLost",
    "InputNotRead",
    "NotMeasurable",
    "NotStarted",
    "RuntimeMissing",
    "TargetError",
]


class TargetError(Exception):
    """A target cannot be used. The message has the reason, the valid values and what to do."""


class RuntimeMissing(TargetError):
    """The target is usable but lacks the runtime."""


class ConnectionLost(TargetError):
    """The board was reached and is no longer reachable."""


class NotMeasurable(TargetError):
    """The board cannot be reached, or somebody else has it."""


class InputNotRead(TargetError):
    """A process has not read its input within the time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the process has not read its input within {seconds:g} s")


class NotStarted(TargetError):
    """A program cannot be started on the board."""

    def __init__(self, sentence: str, is_missing: bool) -> None:
        """Take the message; `is_missing` is False if the program exists but cannot be executed."""
        super().__init__(sentence)
        self.is_missing = is_missing
