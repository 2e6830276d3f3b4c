"""Recordings of programs in stored runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reusebench.storage.recorded_program import Program
from reusebench.storage.run_file import StoredRun


@dataclass(frozen=True)
class StoredProgram:
    """A recording of a program, and the run that has it."""

    info: Program
    file: StoredRun

    @property
    def name(self) -> str:
        """The program's name, as the user gave it."""
        return self.info.name

    @property
    def oom_kills(self) -> int | None:
        """Processes that the kernel killed for memory in all repeats; None if it did not count."""
        counts = [repeat.oom_kills for repeat in self.info.repeats]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    @property
    def is_short(self) -> bool:
        """Whether memory was short during the recording, so that its figures are too small."""
        return bool(self.info.shortage_signs)


def programs_in(files: Iterable[StoredRun]) -> list[StoredProgram]:
    """Return every recording, newest first."""
    newest_first = sorted(files, key=lambda file: file.order, reverse=True)
    return [StoredProgram(info, file) for file in newest_first for info in file.programs]
