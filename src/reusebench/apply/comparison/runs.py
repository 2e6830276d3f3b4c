"""The runs of a program on one side of a comparison."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from reusebench.apply.report import ProcessReport
from reusebench.recorder.recording import Recording

__all__ = ["Run", "Side"]

#: Signals that a program gets after its duration.
_SENT = (signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True)
class Run:
    """One run of the program."""

    recording: Recording
    output: bytes
    #: End of its standard error.
    last_words: str
    reports: tuple[ProcessReport, ...]
    #: Whether it ran into a limit that it should not have reached.
    is_hung: bool

    @property
    def ending(self) -> str:
        """How it ended, in words: "exit code 0"."""
        if self.is_hung:
            return "it did not end in time"
        ending = self.recording.ending
        words = f"exit code {ending.exit_code}"
        if ending.signal_number:
            words = f"signal {ending.signal_number}"
        return f"{words} after its duration" if self.recording.is_cut else words

    @property
    def has_crashed(self) -> bool:
        """Whether a signal that was not sent on purpose, or a limit ended it."""
        sent = _SENT if self.recording.is_cut else ()
        number = self.recording.ending.signal_number
        return self.is_hung or (number is not None and number not in sent)


@dataclass
class Side:
    """The runs of one side."""

    name: str
    #: Those that are measured.
    runs: list[Run] = field(default_factory=list)
    #: Those with digests of outputs, which are not measured.
    checked: list[Run] = field(default_factory=list)

    @property
    def all_runs(self) -> list[Run]:
        """All runs, in any order."""
        return [*self.checked, *self.runs]
