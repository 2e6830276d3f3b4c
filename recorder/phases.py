"""Phases that a program marks: a line of text is the name of the phase that begins now."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FURTHER", "MOST_PHASES", "START", "WHOLE", "Lines", "PhaseLog", "Stretch", "phase_name"]

#: The phase before the first mark, and the only one where nothing is marked.
START, WHOLE = "start", "run"
#: Names that are told apart; each is a series of its own in every comparison. Those that come later are one phase.
MOST_PHASES, FURTHER = 100, "further phases"
#: Characters of a name that are kept, and bytes of an unfinished line.
_LONGEST_NAME, _LONGEST_LINE = 100, 4096


def phase_name(line: bytes) -> str:
    """Return the name in a line: printable, without spaces around it, cut where it is very long; it may be empty."""
    text = line.decode(errors="replace")
    words = "".join(character if character.isprintable() else " " for character in text).split()
    return " ".join(words)[:_LONGEST_NAME].rstrip()


class Lines:
    """Whole lines out of bytes that come in pieces; what has no newline yet is kept for the next piece."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LONGEST_LINE]
        return whole


@dataclass(frozen=True)
class Stretch:
    """The time from one mark to the next, monotonic."""

    name: str
    begin_ns: int
    end_ns: int


class PhaseLog:
    """The marks of one recording in order."""

    def __init__(self, begin_ns: int) -> None:
        self._name = START
        self._begin_ns = begin_ns
        self._done: list[Stretch] = []
        self._is_marked = False
        self._names: set[str] = set()

    def mark(self, name: str, at_ns: int) -> bool:
        """Begin a phase; return whether there is a change: a line without a name is none, nor is the same name."""
        if not name:
            return False
        self._is_marked = True
        name = self._told_apart(name)
        if name == self._name:
            return False
        self._done.append(Stretch(self._name, self._begin_ns, at_ns))
        self._name, self._begin_ns = name, at_ns
        return True

    def end(self, at_ns: int) -> list[Stretch]:
        """Return all stretches, the last of which ends now."""
        last = Stretch(self._name if self._is_marked else WHOLE, self._begin_ns, at_ns)
        return [*self._done, last]

    def _told_apart(self, name: str) -> str:
        if name not in self._names and len(self._names) >= MOST_PHASES:
            return FURTHER
        self._names.add(name)
        return name
