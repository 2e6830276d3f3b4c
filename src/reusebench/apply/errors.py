"""The error of this package."""

from __future__ import annotations

__all__ = ["ApplyError"]


class ApplyError(Exception):
    """A mistake that the user can correct; the sentence explains how."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        """`exit_code` is the command's: a shell's own if the program cannot be started."""
        super().__init__(sentence)
        self.exit_code = exit_code
