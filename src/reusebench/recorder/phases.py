"""Phases of a recording: their names, and the stretches of time that they cover."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["FURTHER", "MOST_PHASES", "START", "WHOLE", "PhaseLog", "Stretch", "phase_name"]

#: Name of the phase before the first mark.
START = "start"
#: Name of the only phase if nothing is marked.
WHOLE = "run"
#: Limit on distinct names, since comparisons have a series for each. Later names share one phase.
MOST_PHASES = 100
#: Name of the phase that later names share.
FURTHER = "further phases"
#: Characters of a name that are kept.
_LONGEST_NAME = 100
#: Limit on the stretches in a trace.
_MOST_STRETCHES = 10_000


def phase_name(line: bytes) -> str:
    """Return the name in a line: printable, stripped and cut to a limit. It may be empty."""
    text = line.decode(errors="replace")
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:_LONGEST_NAME].rstrip()


@dataclass(frozen=True)
class Stretch:
    """The time from one mark to the next, by the monotonic clock."""

    name: str
    begin_ns: int
    end_ns: int


class PhaseLog:
    """The marks of one recording in order."""

    def __init__(self, begin_ns: int) -> None:
        #: Name of the current phase.
        self.name = START
        #: Whether a mark has come; if none comes, the only phase is WHOLE.
        self.is_marked = False
        self._begin_ns = begin_ns
        self._stretches: list[Stretch] = []
        self._names: set[str] = set()

    def changes(self, names: Iterable[str]) -> bool:
        """Whether one of these marks begins another phase; empty names are no marks."""
        return any(name and self._distinct_name(name) != self.name for name in names)

    def mark(self, name: str, at_ns: int) -> bool:
        """Begin a phase; return whether it is another one than the current phase."""
        if not name:
            return False

        self.is_marked = True
        is_other = self.changes([name])
        name = self._distinct_name(name)
        self._names.add(name)
        if is_other:
            self._end_stretch(at_ns)
            self.name = name
            self._begin_ns = at_ns
        return is_other

    def end(self, at_ns: int) -> list[Stretch]:
        """End the last stretch; return all stretches, up to the limit of a trace."""
        self._end_stretch(at_ns)
        return self._stretches

    def _distinct_name(self, name: str) -> str:
        if name in self._names or len(self._names) < MOST_PHASES:
            return name
        return FURTHER

    def _end_stretch(self, at_ns: int) -> None:
        if len(self._stretches) < _MOST_STRETCHES:
            name = self.name if self.is_marked else WHOLE
            self._stretches.append(Stretch(name, self._begin_ns, at_ns))
