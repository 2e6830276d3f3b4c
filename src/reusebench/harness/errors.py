"""Mistakes of a user that stop `pytest bench/`, or a part of it, before it measures."""

from __future__ import annotations

from reusebench.system.files import printable

__all__ = ["NoModels", "UnusableModel", "UserError"]


class UserError(Exception):
    """The user can put it right: the message states what is wrong, what is valid, and what to do.

    The plug-in shows it as pytest's usage error, without a traceback; words of runtimes in it are
    made printable.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, keep="\n"))


class NoModels(UserError):
    """A scenario has no models, or nothing to decode: it is skipped with this reason, and the
    others go on.
    """


class UnusableModel(NoModels):
    """A runtime cannot read or run the user's file: what else there is is measured, and the session
    has failed.
    """
