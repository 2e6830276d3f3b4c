"""Names of options: former ones, which work for a release, and the one nearest to a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["BENCH", "FORMER_NAMES", "FormerName", "former_names_of", "nearest", "renamed"]

#: The command whose options are those of `pytest bench/`.
BENCH = "bench"
#: The version without the former names.
_GONE_IN = "0.3"
#: Similarity from which on a name may have been meant, as in click.
_LEAST_SIMILARITY = 0.6


class FormerName(NamedTuple):
    """A former name of an option, or of an option with a value ("--across library")."""

    command: str
    former: str
    name: str

    @property
    def hint(self) -> str:
        """The sentence for a user of the former name."""
        return f"{self.former} is now {self.name}; the former name is gone in {_GONE_IN}"


#: All former names that still work; 0.2 renamed these.
FORMER_NAMES = (
    FormerName(BENCH, "--memory-baseline", "--baseline"),
    FormerName(BENCH, "--memory-fail", "--fail"),
    FormerName(BENCH, "--memory-across", "--across"),
    FormerName(BENCH, "--limit-contexts", "--most-contexts"),
    FormerName("report", "--format md", "--format markdown"),
    FormerName("compare", "--format md", "--format markdown"),
    FormerName("compare", "--format json", "--json"),
    FormerName("compare", "--across library", "--versions"),
    FormerName("history", "--format md", "--format markdown"),
    FormerName("runs list", "--limit", "--newest"),
    FormerName("models build", "--for", "--runtime"),
    FormerName("models build", "--platform", "--chip"),
    FormerName("models build", "--size", "--height"),
    FormerName("models clip", "--seconds", "--duration"),
    FormerName("board verify", "--write", "--output"),
)


def former_names_of(name: str) -> list[FormerName]:
    """Return the former names of an option of `pytest bench/`."""
    return [row for row in FORMER_NAMES if (row.command, row.name) == (BENCH, name)]


def renamed(arguments: Sequence[str]) -> tuple[list[str], list[FormerName]]:
    """Return a command line with the names of today, and the former names that it had.

    Words after `--` stay; so do the options of `bench`, which pytest reads.
    """
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    found = []
    for row in FORMER_NAMES:
        command = row.command.split()
        if row.command == BENCH or words[: len(command)] != command:
            continue
        # Backwards: a replacement may have another number of words.
        for place in reversed(range(len(command), end)):
            given = _replaced(words[place:end], row)
            if given is not None:
                words[place:end] = given
                end = place + len(given)
                found.append(row)
    return words, found


def _replaced(words: Sequence[str], row: FormerName) -> list[str] | None:
    """Return words that begin with the former name, with its new one; None if they do not."""
    option, *values = row.former.split()
    given, separator, value = words[0].partition("=")
    if given != option:
        return None
    if not values:
        return [f"{row.name}{separator}{value}", *words[1:]]
    rest = list(words[1:])
    value = value if separator else "".join(rest[:1])
    if [value] != values:
        return None
    return [*row.name.split(), *(rest if separator else rest[1:])]


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that is nearest to a wrong one; None if none is near."""
    # Dashes would make all short options alike.
    plain = {name.lstrip("-"): name for name in names}
    near = difflib.get_close_matches(word.lstrip("-"), plain, n=1, cutoff=_LEAST_SIMILARITY)
    return plain[near[0]] if near else None
