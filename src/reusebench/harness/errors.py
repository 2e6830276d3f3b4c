"""Mistakes of a user that stop `pytest bench/`, or a part of it, before it measures."""

from __future__ import annotations

from reusebench.system.files import printable

__all__ = ["NoModels", "UnusableModel", "UserError"]


class UserError(Exception):
    """A mistake that the user can correct: the message says what is wrong and what to do.

    The plug-in shows it as pytest's usage error, without a traceback. Messages of runtimes in it
    are made printable.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, keep="\n"))


class NoModels(UserError):
    """A scenario without models or video: it is skipped with this reason, and the others go on."""


class UnusableModel(NoModels):
    """A file of the user's that a runtime cannot read or run: the session fails, but the rest is
    measured.
    """
