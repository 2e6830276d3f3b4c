"""Which runs a user's words mean: the newest, a number, a range, a name, a path or a git revision.

They are tried in this order, and the first of which there is something stands. docs/storage.md says it to users.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from storage.run_file import BadFile, run_files, run_number, storages_in
from storage.runs import Run, read_run, read_runs

__all__ = [
    "VALID",
    "CommitNotClean",
    "NoRunOfCommit",
    "NoSuchRun",
    "RangeReversed",
    "RunNotReadable",
    "RunsError",
    "find_runs",
]

#: What words may be.
VALID = (
    "a number, a name, `latest`, `latest~1`, a range `12..latest`, the path of a file or of a storage, a git revision"
)
_LATEST = re.compile(r"latest(?:~(\d+))?")
_NUMBER = re.compile(r"\d+")
_RANGE = ".."
#: As many ranges of numbers, names or commits are said as fit into a message.
_MOST_SAID = 8
_HASH_DIGITS = 10


class RunsError(Exception):
    """The user's words mean no run; the message says what is valid."""


class NoSuchRun(RunsError):
    """The words are none of what they may be."""

    def __init__(self, words: str, runs: Sequence[Run]) -> None:
        super().__init__(f"there is no run {words!r}. Valid: {VALID}. Stored: {_said(runs)}")


class RangeReversed(RunsError):
    """The end of a range is older than its start."""

    def __init__(self, words: str) -> None:
        start, _, end = words.partition(_RANGE)
        super().__init__(f"{words!r}: {end} is older than {start}; the older one stands first: {end}{_RANGE}{start}")


class NoRunOfCommit(RunsError):
    """There is such a commit, and no run of it."""

    def __init__(self, words: str, commit: str, runs: Sequence[Run]) -> None:
        newest_first = dict.fromkeys(run.commit[:_HASH_DIGITS] for run in reversed(_by_time(runs)) if run.commit)
        there_are = f"there are runs of {_few(list(newest_first))}" if newest_first else "no run has a commit"
        super().__init__(
            f"{words!r} is the commit {commit[:_HASH_DIGITS]}, and no run of it is stored; {there_are}. "
            f"Measure that commit, or name runs otherwise: {VALID}"
        )


class CommitNotClean(RunsError):
    """All runs of the commit were of files that had been changed since."""

    def __init__(self, words: str, commit: str, runs: Sequence[Run]) -> None:
        super().__init__(
            f"{words!r} is the commit {commit[:_HASH_DIGITS]}, and files had been changed after it in all of its runs: "
            f"{_few([str(run) for run in runs])}. Name one of them by its number, or measure the commit as it is"
        )


class RunNotReadable(RunsError):
    """The path is that of a file which is no run."""

    def __init__(self, file: BadFile) -> None:
        super().__init__(f"{file.path}: {file.reason}. Name another file, or runs otherwise: {VALID}")


def _warn(file: BadFile) -> None:
    """Name a damaged file on standard error."""
    print(f"storage: {file}", file=sys.stderr)


def find_runs(words: str, runs: Sequence[Run], project: Path, tell: Callable[[BadFile], None] = _warn) -> list[Run]:
    """Return the runs that the words mean, the oldest first, or raise RunsError.

    `runs` are those of the user's storages; files and storages that are named by a path are read. `project` is where
    git looks for revisions. `tell` is called with each damaged file of a storage that is named by a path. A run that is
    not finished, or never will be, is meant by its number and its path alone.
    """
    finished = [run for run in runs if run.is_finished]
    matches = (
        _by_age(words, finished)
        or _numbered(words, runs)
        or _between(words, finished)
        or _named(words, finished)
        or _at_path(words, tell)
        or _of_commit(words, finished, project)
    )
    if not matches:
        raise NoSuchRun(words, runs)
    return _by_time(matches)


def _by_age(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the newest run, or one that is so many runs older."""
    latest = _LATEST.fullmatch(words)
    if not latest:
        return None
    before = int(latest[1] or 0)
    if before >= len(runs):
        raise NoSuchRun(words, runs)
    return [_by_time(runs)[-1 - before]]


def _numbered(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the runs of the number: older storages have one for each version of Python."""
    return [run for run in runs if run.number == int(words)] or None if _NUMBER.fullmatch(words) else None


def _between(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the runs of a range, by time, with both its ends."""
    ends = words.split(_RANGE)
    if len(ends) != 2 or not all(_LATEST.fullmatch(end) or _NUMBER.fullmatch(end) for end in ends):
        return None
    first, last = (_end(end, runs) for end in ends)
    in_time = _by_time(runs)
    start, end = in_time.index(first[0]), in_time.index(last[-1])
    if end < start:
        raise RangeReversed(words)
    return in_time[start : end + 1]


def _end(words: str, runs: Sequence[Run]) -> list[Run]:
    found = _by_age(words, runs) or _numbered(words, runs)
    if not found:
        raise NoSuchRun(words, runs)
    return _by_time(found)


def _named(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the runs of a name that a user gave, or the run whose file is called so."""
    return [run for run in runs if words in (run.name, run.path.stem, run.path.name)] or None


def _at_path(words: str, tell: Callable[[BadFile], None]) -> list[Run] | None:
    """Return the run in a file, or the runs of a storage; None where there is no such file, or the folder has none."""
    path = Path(words)
    if path.is_file():
        run = read_run(path)
        if isinstance(run, BadFile):
            raise RunNotReadable(run)
        return [run]
    runs = []
    for storage in storages_in(path):
        if not any(run_number(file) for file in run_files(storage)):
            continue
        for run in read_runs(storage):
            if isinstance(run, BadFile):
                tell(run)
            elif run.is_finished:
                runs.append(run)
    return runs or None


def _of_commit(words: str, runs: Sequence[Run], project: Path) -> list[Run] | None:
    commit = _commit(words, project)
    if commit is None:
        return None
    measured = [run for run in runs if run.commit == commit]
    if not measured:
        raise NoRunOfCommit(words, commit, runs)
    clean = [run for run in measured if not run.is_dirty]
    if not clean:
        raise CommitNotClean(words, commit, measured)
    return clean


def _commit(words: str, project: Path) -> str | None:
    """Return the commit that git knows by these words; None where it knows none, or there is no git."""
    if words.startswith("-"):  # git would take it for an option
        return None
    command = ["git", "-C", str(project), "rev-parse", "--verify", "--quiet", f"{words}^{{commit}}"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return None
    return done.stdout.decode().strip() if done.returncode == 0 else None


def _by_time(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (run.recorded_at, run.number or 0, run.path))


def _said(runs: Sequence[Run]) -> str:
    """Return what there is to name, shortly."""
    if not runs:
        return "no runs"
    names = sorted({run.name for run in runs if run.is_named})
    numbers = _few(_ranges(sorted({run.number for run in runs if run.number is not None})))
    said = [f"numbers {numbers}" if numbers else "", f"names {_few(names)}" if names else ""]
    return "; ".join(filter(None, [f"{len(runs)} run{'s' if len(runs) > 1 else ''}", *said]))


def _ranges(numbers: Sequence[int]) -> list[str]:
    """Return numbers that follow one another as one: 1-9."""
    known = set(numbers)
    starts = [number for number in numbers if number - 1 not in known]
    ends = [number for number in numbers if number + 1 not in known]
    return [str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends)]


def _few(each: Sequence[str]) -> str:
    more = f" and {len(each) - _MOST_SAID} more" if len(each) > _MOST_SAID else ""
    return f"{', '.join(each[:_MOST_SAID])}{more}"
