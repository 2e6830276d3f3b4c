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
    def has_failed(self) -> bool:
        """Whether an exit code, a limit, or a signal that was not sent on purpose ended it."""
        if self.is_hung:
            return True
        ending = self.recording.ending
        if self.recording.is_cut:
            return ending.signal_number is not None and ending.signal_number not in _SENT
        return ending.signal_number is not None or ending.exit_code != 0

    @property
    def end_words(self) -> str:
        """How it ended, with the last line of its standard error."""
        last = self.last_words.strip().rpartition("\n")[2]
        return f'{self.ending}. Its last words: "{last}"' if last else self.ending


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
