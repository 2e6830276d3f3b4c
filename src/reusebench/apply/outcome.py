"""How an applied program has ended, in the words of waiting.py."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from reusebench.apply.executable import not_started

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """The ending of a program."""

    #: None if a signal has ended it.
    exit_code: int | None
    signal_number: int | None = None

    @classmethod
    def of(cls, word: str, program: str) -> Outcome:
        """Read the last word that waiting.py gives; raise ApplyError if nothing was started."""
        kind, _, number = word.partition(":")
        if kind == "signal":
            return cls(None, int(number))
        if kind == "exit":
            return cls(int(number))
        raise not_started(program, int(number))

    @property
    def shell_code(self) -> int:
        """The exit code that a shell gives."""
        if self.signal_number is not None:
            return 128 + self.signal_number
        return self.exit_code or 0

    @property
    def signal_name(self) -> str | None:
        """The name of the signal, such as SIGTERM; a real-time signal has a number alone."""
        if self.signal_number is None:
            return None
        try:
            return signal.Signals(self.signal_number).name
        except ValueError:
            return f"signal {self.signal_number}"
