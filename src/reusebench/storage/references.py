"""References to runs: the newest, a number, a range, a name, a path or a git revision.

A reference is tried in this order; the first match counts. docs/reference/storage.md explains it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from reusebench.storage.compacted import in_either_form, plain_name
from reusebench.storage.errors import StorageError
from reusebench.storage.run_file import BadFile, run_files, run_number, run_stem, storages_in
from reusebench.storage.runs import RunSummary, read_run, read_runs

__all__ = ["find_runs", "is_by_age"]

#: Valid references, for messages.
_VALID = (
    "a number, a name, `latest`, `latest~1`, a range `12..latest`, `..` for all, the path of a file"
    " or of a storage, a git revision"
)
_LATEST = re.compile(r"latest(?:~([0-9]{1,9}))?")
_NUMBER = re.compile(r"[0-9]{1,9}")
_RANGE = ".."
#: Limit of ranges, names or commits that a message lists.
_MOST_LISTED = 8
_HASH_DIGITS = 10


def _warn(file: BadFile) -> None:
    print(f"storage: {file}", file=sys.stderr)


def find_runs(
    words: str,
    runs: Sequence[RunSummary],
    project: Path,
    report_bad_file: Callable[[BadFile], None] = _warn,
) -> list[RunSummary]:
    """Return the runs that `words` refer to, the oldest first, or raise StorageError.

    `runs` are those of the user's storages; files and storages that are named by a path are read.
    `project` is the folder in which git looks for revisions. `report_bad_file` gets the damaged
    files of a storage that is named by a path. Only a number or a path can refer to an unfinished
    run.
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


def is_by_age(words: str) -> bool:
    """Whether it is `latest` or `latest~N`, which mean another run after each measurement."""
    return bool(_LATEST.fullmatch(words))


def _by_age(words: str, runs: Sequence[RunSummary]) -> list[RunSummary] | None:
    """Return the newest run for `latest`, or the `N`th run before it for `latest~N`."""
    latest = _LATEST.fullmatch(words)
    if not latest:
        return None
    before = int(latest[1] or 0)
    if before >= len(runs):
        raise _no_such_run(words, runs)
    return [_by_time(runs)[-1 - before]]


def _numbered(words: str, runs: Sequence[RunSummary]) -> list[RunSummary] | None:
    """Return the runs with this number: each storage may have one."""
    if not _NUMBER.fullmatch(words):
        return None
    return [run for run in runs if run.number == int(words)] or None


def _between(words: str, runs: Sequence[RunSummary]) -> list[RunSummary] | None:
    """Return the runs of a range by time, including both ends."""
    ends = words.split(_RANGE)
    if len(ends) != 2 or not all(map(_is_end, ends)):
        return None

    ordered = _by_time(runs)
    first, last = (_end(end, runs) if end else ordered for end in ends)
    if not ordered:
        raise _no_such_run(words, runs)
    start = ordered.index(first[0])
    end = ordered.index(last[-1])
    if end < start:
        newer, older = ends
        raise StorageError(
            f"{words!r}: {older} is older than {newer}; the older one comes first:"
            f" {older}{_RANGE}{newer}"
        )
    return ordered[start : end + 1]


def _is_end(words: str) -> bool:
    """Whether it can be an end of a range; without a word it is the first or the last run."""
    return not words or bool(_LATEST.fullmatch(words) or _NUMBER.fullmatch(words))


def _end(words: str, runs: Sequence[RunSummary]) -> list[RunSummary]:
    matches = _by_age(words, runs) or _numbered(words, runs)
    if not matches:
        raise _no_such_run(words, runs)
    return _by_time(matches)


def _named(words: str, runs: Sequence[RunSummary]) -> list[RunSummary] | None:
    """Return the runs with this name from a user, or the run with this file name."""
    return [run for run in runs if words in (run.name, *_file_names(run.path))] or None


def _file_names(path: Path) -> Iterable[str]:
    """Return the names of a run's file: without its ending, plain, and as it is."""
    return run_stem(path), plain_name(path.name), path.name


def _at_path(
    words: str, known: Sequence[RunSummary], report_bad_file: Callable[[BadFile], None]
) -> list[RunSummary] | None:
    """Return the run in a file, or the runs in a folder; None if there are none."""
    try:
        path = in_either_form(_existing, words)
    except (OSError, ValueError):  # ValueError: no file can have this name
        return None
    if path.is_dir():
        return _in_folder(path, report_bad_file) or None

    # A run of a known storage is ordered by its number, a single file only by its time.
    for run in known:
        if run.path.resolve() == path.resolve():
            return [run]
    file = read_run(path)
    if isinstance(file, BadFile):
        raise StorageError(
            f"{file.file}: {file.reason}. Name another file, or name runs in another way: {_VALID}"
        )
    return [file]


def _existing(words: str) -> Path:
    """Return the path; raise OSError if nothing is there."""
    path = Path(words)
    path.lstat()
    return path


def _in_folder(folder: Path, report_bad_file: Callable[[BadFile], None]) -> list[RunSummary]:
    runs: list[RunSummary] = []
    for storage in storages_in(folder):
        if not any(run_number(path) for path in run_files(storage, unreadable=[])):
            continue
        for run in read_runs(storage):
            if isinstance(run, BadFile):
                report_bad_file(run)
            elif run.is_finished:
                runs.append(run)
    return runs


def _of_commit(words: str, runs: Sequence[RunSummary], project: Path) -> list[RunSummary] | None:
    commit = _commit(words, project)
    if commit is None:
        return None

    name = f"{words!r} is the commit {commit[:_HASH_DIGITS]}"
    measured = [run for run in runs if run.commit == commit]
    if not measured:
        newest_first = dict.fromkeys(
            run.commit[:_HASH_DIGITS] for run in reversed(_by_time(runs)) if run.commit
        )
        stored = "no run has a commit"
        if newest_first:
            stored = f"there are runs of {_few(list(newest_first))}"
        raise StorageError(
            f"{name}, and no run of it is stored; {stored}. Measure that commit, or name runs in"
            f" another way: {_VALID}"
        )
    clean = [run for run in measured if not run.is_dirty]
    if not clean:
        raise StorageError(
            f"{name}, and files had been changed after it in all of its runs:"
            f" {_few([str(run) for run in measured])}. Name one of them by its number, or measure"
            " the commit as it is"
        )
    return clean


def _commit(words: str, project: Path) -> str | None:
    """Return the commit that `words` name in git; None if there is no such commit, or no git."""
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


def _by_time(runs: Iterable[RunSummary]) -> list[RunSummary]:
    return sorted(runs, key=lambda run: (run.order, run.path))


def _no_such_run(words: str, runs: Sequence[RunSummary]) -> StorageError:
    """Return the error for words that match no run: it lists valid references and stored runs."""
    stored = [f"{len(runs) or 'no'} {'run' if len(runs) == 1 else 'runs'}"]
    numbers = _ranges({run.number for run in runs if run.number is not None})
    if numbers:
        stored.append(f"numbers {_few(numbers)}")
    names = sorted({run.name for run in runs if run.is_named})
    if names:
        stored.append(f"names {_few(names)}")
    return StorageError(f"there is no run {words!r}. Valid: {_VALID}. Stored: {'; '.join(stored)}")


def _ranges(numbers: Collection[int]) -> list[str]:
    """Return the numbers in order, consecutive ones as a range: 1-9."""
    starts = sorted(number for number in numbers if number - 1 not in numbers)
    ends = sorted(number for number in numbers if number + 1 not in numbers)
    return [str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends)]


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_LISTED])
    if len(names) <= _MOST_LISTED:
        return shown
    return f"{shown} and {len(names) - _MOST_LISTED} more"
