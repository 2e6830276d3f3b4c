"""The journal of a session: what it has measured is on the disk at once, not only when the session ends.

A journal is the folder STORAGE/journals/RUN with `skeleton.json`, which is the run without results, and a
`result-*.json` for each result. It is there as long as its session has not stored its run. Readers of runs look neither
so deep nor for such names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from storage.board import board_storage
from storage.maintenance.own_files import is_regular, own_files, own_folders
from storage.writing import UNFINISHED, sync_names, to_json, write_synced

__all__ = [
    "JOURNALS",
    "RESULT_NAME",
    "SET_ASIDE",
    "SKELETON",
    "Journal",
    "JournalHeld",
    "abandoned",
    "cut_off_hint",
    "held",
    "journals_in",
    "remove_journal",
]

#: Folder of the journals inside a storage.
JOURNALS = "journals"
#: The first file that a journal has and the last, locked by its session.
SKELETON = "skeleton.json"
#: A journal's results, in the order in which they began. No name begins with a number, as those of runs do.
RESULT_NAME = re.compile(r"result-\d{6,}\.json")
#: End of the name of a journal of which not everything could be read: it is kept, and not looked at again.
SET_ASIDE = ".damaged"
_OF_A_JOURNAL = re.compile(rf"({re.escape(SKELETON)}|{RESULT_NAME.pattern})({re.escape(UNFINISHED)})?")
#: What flock says of a file that another process has locked.
_LOCKED = (errno.EWOULDBLOCK, errno.EACCES)
#: Between the look at the storage and the lock.
_STORED = "its run has just been stored"


class JournalHeld(Exception):
    """A journal is of a session that lives, or may live; the message says which."""


class Journal:
    """The journal of a session that lives; `run` is the id that its results have, `name` what its file will have.

    `skeleton` is the document that pytest-benchmark would write, without results.
    The session holds a lock. What it runs does not inherit it; what it forks without running another program does.
    """

    def __init__(self, storage: Path, run: str, name: str, skeleton: dict[str, Any]) -> None:
        self._folder = storage.resolve() / JOURNALS / run
        self._skeleton = {"run": run, "name": name, "document": skeleton}
        self._paths: dict[str, Path] = {}
        #: The descriptor of the locked file, once there is one.
        self._lock: int | None = None
        self._has_warned = False
        try:
            self._begin()
        except OSError as error:
            self._warn(error)

    def keep(self, key: str, entry: dict[str, Any]) -> None:
        """Have the entry on the disk, in place of the one that this key had; warn once where it cannot be written.

        An entry with `stats` is one of pytest-benchmark's list, one without is one of the results without speed.
        """
        path = self._paths.setdefault(key, self._folder / f"result-{len(self._paths) + 1:06}.json")
        content = to_json(entry)
        try:
            self._begin()
            _replace(path, content)
        except OSError as error:
            self._warn(error)

    def close(self) -> None:
        """Remove the journal: the run's file is written."""
        if self._lock is None:
            return
        try:
            remove_journal(self._folder)
        except OSError as error:
            warnings.warn(f"{self._folder} cannot be removed ({error.strerror}): its run is stored", stacklevel=2)
        os.close(self._lock)
        self._lock = None

    def _begin(self) -> None:
        """Make the journal, where that has not been possible yet; it appears with its lock."""
        if self._lock is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f"{SKELETON}{UNFINISHED}"
        write_synced(unfinished, to_json(self._skeleton))
        lock = os.open(unfinished, os.O_RDWR)
        # A file system without locks: `held` says so to whoever asks.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unfinished.rename(self._folder / SKELETON)
        self._lock = lock
        for folder in (self._folder, self._folder.parent, self._folder.parent.parent):
            sync_names(folder)

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the journal {self._folder} cannot be written ({error.strerror or error}): the measurement goes on, "
                "and a power cut before its end loses what the journal does not have",
                stacklevel=3,
            )


def journals_in(folder: Path) -> list[Path]:
    """Return the journals of the storage, or of all storages in the folder, whether their sessions live or not."""
    storages = [folder, *(path.parent for path in folder.glob(f"*/{JOURNALS}"))]
    folders = [folder for storage in storages for folder in own_folders(storage / JOURNALS)]
    journals = [folder for folder in folders if is_regular(folder / SKELETON)]
    return sorted(journal for journal in journals if not journal.name.endswith(SET_ASIDE))


def abandoned(storage: Path) -> list[Path]:
    """Return the journals with results whose sessions were cut off."""
    return [each for each in journals_in(storage) if any(own_files(each, RESULT_NAME)) and _is_free(each)]


def cut_off_hint(storage: Path) -> str | None:
    """Return the line that says that sessions were cut off, and what keeps their results; None where none was."""
    count = len(abandoned(storage))
    if not count:
        return None
    sessions = "a session was cut off, and its" if count == 1 else f"{count} sessions were cut off, and their"
    option = "" if storage == board_storage() else f" --storage {shlex.quote(str(storage))}"
    return f"{sessions} results are not stored as a run yet; `python -m storage recover{option}` stores them"


@contextlib.contextmanager
def held(journal: Path) -> Iterator[None]:
    """Hold a journal whose session is gone; raise JournalHeld where it is not, or where that cannot be known."""
    try:
        lock = os.open(journal / SKELETON, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise JournalHeld(_STORED) from None
    try:
        _take(lock)
        if not (journal / SKELETON).exists():
            raise JournalHeld(_STORED)
        yield
    finally:
        os.close(lock)


def remove_journal(journal: Path) -> None:
    """Remove its files; the skeleton last, so that it is a journal until nothing is left of it."""
    for path in sorted(own_files(journal, _OF_A_JOURNAL), key=lambda path: path.name == SKELETON):
        path.unlink()
    with contextlib.suppress(OSError):  # there are other files in it, or other journals beside it
        journal.rmdir()
        journal.parent.rmdir()


def _take(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED:
            raise JournalHeld("its session is still running; left alone") from None
        raise JournalHeld(
            f"this file system has no locks ({error.strerror}), so nobody knows whether its session is still running; "
            "left alone. If it is not, copy the storage to a local disk and recover it there"
        ) from None


def _is_free(journal: Path) -> bool:
    try:
        with held(journal):
            return True
    except (JournalHeld, OSError):
        return False


def _replace(path: Path, content: bytes) -> None:
    """Write the file whole, or leave the one that is there."""
    unfinished = path.with_name(f"{path.name}{UNFINISHED}")
    try:
        write_synced(unfinished, content)
        unfinished.rename(path)
    except OSError:
        with contextlib.suppress(OSError):  # it takes what little room there is
            unfinished.unlink()
        raise
    sync_names(path.parent)
