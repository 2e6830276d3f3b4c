"""The runs of a program on one side of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field

from reusebench.apply.report import ProcessReport
from reusebench.recorder.recording import Recording

__all__ = ["Run", "Side"]


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
        if self.recording.is_cut:
            return "ended after its duration"
        ending = self.recording.ending
        if ending.signal_number:
            return f"signal {ending.signal_number}"
        return f"exit code {ending.exit_code}"

    @property
    def has_crashed(self) -> bool:
        """Whether a signal or a limit ended it."""
        is_killed = bool(self.recording.ending.signal_number) and not self.recording.is_cut
        return self.is_hung or is_killed


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
