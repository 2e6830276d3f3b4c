"""Which runs a user's words mean: the newest, a number, a range, a name, a path or a git revision.

They are tried in this order; the first that matches counts. docs/storage.md explains it to users.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from reusebench.storage.errors import StorageError
from reusebench.storage.run_file import BadFile, run_files, run_number, storages_in
from reusebench.storage.runs import Run, read_run, read_runs

__all__ = ["find_runs"]

#: What words may be.
_VALID = (
    "a number, a name, `latest`, `latest~1`, a range `12..latest`, the path of a file or of a"
    " storage, a git revision"
)
_LATEST = re.compile(r"latest(?:~([0-9]{1,9}))?")
_NUMBER = re.compile(r"[0-9]{1,9}")
_RANGE = ".."
#: Ranges of numbers, names or commits that a message lists.
_MOST_LISTED = 8
_HASH_DIGITS = 10


def _warn(file: BadFile) -> None:
    """Name a damaged file on standard error."""
    print(f"storage: {file}", file=sys.stderr)


def find_runs(
    words: str,
    runs: Sequence[Run],
    project: Path,
    report_bad_file: Callable[[BadFile], None] = _warn,
) -> list[Run]:
    """Return the runs that the words mean, the oldest first, or raise StorageError.

    `runs` are those of the user's storages; files and storages that are named by a path are read.
    `project` is where git looks for revisions. `report_bad_file` gets the damaged files of a
    storage that is named by a path. A run that is not finished, or never will be, is meant by its
    number and its path alone.
    """
    finished = [run for run in runs if run.is_finished]
    matches = (
        _by_age(words, finished)
        or _numbered(words, runs)
        or _between(words, finished)
        or _named(words, finished)
        or _at_path(words, runs, report_bad_file)
        or _of_commit(words, finished, project)
    )
    if not matches:
        raise _no_such_run(words, runs)
    return _by_time(matches)


def _by_age(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the newest run, or one that is so many runs older."""
    latest = _LATEST.fullmatch(words)
    if not latest:
        return None
    before = int(latest[1] or 0)
    if before >= len(runs):
        raise _no_such_run(words, runs)
    return [_by_time(runs)[-1 - before]]


def _numbered(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the runs of the number; of several storages each may have one."""
    return (
        [run for run in runs if run.number == int(words)] or None
        if _NUMBER.fullmatch(words)
        else None
    )


def _between(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the runs of a range, by time, with both its ends."""
    ends = words.split(_RANGE)
    if len(ends) != 2 or not all(_LATEST.fullmatch(end) or _NUMBER.fullmatch(end) for end in ends):
        return None
    first, last = (_end(end, runs) for end in ends)
    in_time = _by_time(runs)
    start = in_time.index(first[0])
    end = in_time.index(last[-1])
    if end < start:
        older, newer = ends[::-1]
        raise StorageError(
            f"{words!r}: {older} is older than {newer}; the older one comes first:"
            f" {older}{_RANGE}{newer}"
        )
    return in_time[start : end + 1]


def _end(words: str, runs: Sequence[Run]) -> list[Run]:
    matches = _by_age(words, runs) or _numbered(words, runs)
    if not matches:
        raise _no_such_run(words, runs)
    return _by_time(matches)


def _named(words: str, runs: Sequence[Run]) -> list[Run] | None:
    """Return the runs of a name that a user gave, or the run whose file is called so."""
    return [run for run in runs if words in (run.name, run.path.stem, run.path.name)] or None


def _at_path(
    words: str, known: Sequence[Run], report_bad_file: Callable[[BadFile], None]
) -> list[Run] | None:
    """Return the run in a file, or the runs of a storage; None if there is no such file, or the
    folder has none.
    """
    path = Path(words)
    try:
        path.lstat()
    except (OSError, ValueError):  # also where no file can have this name
        return None
    if not path.is_dir():
        # As it is in its storage, where its number says how new it is.
        run = next(
            (run for run in known if run.path.resolve() == path.resolve()), None
        ) or read_run(path)
        if isinstance(run, BadFile):
            raise StorageError(
                f"{run.file}: {run.reason}. Name another file, or runs otherwise: {_VALID}"
            )
        return [run]
    runs = []
    for storage in storages_in(path):
        if not any(run_number(file) for file in run_files(storage)):
            continue
        for run in read_runs(storage):
            if isinstance(run, BadFile):
                report_bad_file(run)
            elif run.is_finished:
                runs.append(run)
    return runs or None


def _of_commit(words: str, runs: Sequence[Run], project: Path) -> list[Run] | None:
    commit = _commit(words, project)
    if commit is None:
        return None
    measured = [run for run in runs if run.commit == commit]
    if not measured:
        newest_first = dict.fromkeys(
            run.commit[:_HASH_DIGITS] for run in reversed(_by_time(runs)) if run.commit
        )
        stored = (
            f"there are runs of {_few(list(newest_first))}"
            if newest_first
            else "no run has a commit"
        )
        raise StorageError(
            f"{words!r} is the commit {commit[:_HASH_DIGITS]}, and no run of it is stored;"
            f" {stored}. Measure that commit, or name runs otherwise: {_VALID}"
        )
    clean = [run for run in measured if not run.is_dirty]
    if not clean:
        raise StorageError(
            f"{words!r} is the commit {commit[:_HASH_DIGITS]}, and files had been changed after it"
            f" in all of its runs: {_few([str(run) for run in measured])}. Name one of them by its"
            " number, or measure the commit as it is"
        )
    return clean


def _commit(words: str, project: Path) -> str | None:
    """Return the commit that these words name in git; None if there is no such commit, or no
    git.
    """
    if words.startswith("-"):  # git would take it for an option
        return None
    command = ["git", "-C", str(project), "rev-parse", "--verify", "--quiet", f"{words}^{{commit}}"]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
    except OSError:
        return None
    return done.stdout.decode().strip() if done.returncode == 0 else None


def _by_time(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (run.order, run.path))


def _no_such_run(words: str, runs: Sequence[Run]) -> StorageError:
    """Return the error of words that mean nothing, with what is valid and what is stored."""
    numbers = _ranges(sorted({run.number for run in runs if run.number is not None}))
    names = sorted({run.name for run in runs if run.is_named})
    stored = [f"{len(runs)} run{'s' if len(runs) > 1 else ''}" if runs else "no runs"]
    if numbers:
        stored.append(f"numbers {_few(numbers)}")
    if names:
        stored.append(f"names {_few(names)}")
    return StorageError(f"there is no run {words!r}. Valid: {_VALID}. Stored: {'; '.join(stored)}")


def _ranges(numbers: Sequence[int]) -> list[str]:
    """Return numbers that follow one another as one: 1-9."""
    known = set(numbers)
    starts = [number for number in numbers if number - 1 not in known]
    ends = [number for number in numbers if number + 1 not in known]
    return [str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends)]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{', '.join(names[:_MOST_LISTED])}{more}"
