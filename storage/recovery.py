"""Journals of sessions that were cut off become runs, with all that had been measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.errors import StorageError
from storage.files import (
    WITHOUT_SPEED,
    BadFile,
    StoredFile,
    check_result,
    read_file,
    run_files,
    why_unreadable,
)
from storage.journal import RESULT_NAME, SET_ASIDE, SKELETON, JournalHeld, held, journals_in, remove_journal
from storage.maintenance.own_files import own_files
from storage.runs import RECOVERED, Run, read_run
from storage.writing import save_run

__all__ = ["CUT_OFF", "Recovery", "recover"]

#: Outcome of a configuration that was being measured when its session was cut off.
CUT_OFF = "cut_off"


@dataclass(frozen=True)
class Recovery:
    """What came of one journal."""

    journal: Path
    #: What it is stored as; None where there was nothing to store.
    run: Run | None = None
    #: Why there was nothing to store.
    remark: str = ""
    #: What could not be read, where it is now.
    bad_files: Sequence[BadFile] = ()


def recover(folder: Path) -> Iterator[Recovery]:
    """Store the journals of the storage, or of all storages in the folder; yield what came of each as it comes.

    Journals of sessions that live are left alone. Raise StorageError where a run cannot be written.
    """
    for journal in journals_in(folder):
        try:
            with held(journal):
                recovery = _recover(journal)
        except JournalHeld as error:
            recovery = Recovery(journal, remark=str(error))
        except OSError as error:
            raise StorageError(
                f"{journal} cannot be stored as a run ({error.filename or journal}: {error.strerror}). "
                "Nothing is lost: put that right, and the same command goes on"
            ) from None
        yield recovery


def _recover(journal: Path) -> Recovery:
    skeleton = _read(journal / SKELETON, ("run", "name", "document"))
    if isinstance(skeleton, BadFile):
        return _set_aside(journal, None, [skeleton])
    storage = journal.parent.parent
    stored = _stored_as(storage, skeleton["run"])
    if stored:  # the session was cut off just before it would have removed the journal
        remove_journal(journal)
        return Recovery(journal, remark=f"its run is stored already: {stored}")
    found = [_read_entry(path) for path in own_files(journal, RESULT_NAME)]
    entries = [each for each in found if not isinstance(each, BadFile)]
    bad_files = [each for each in found if isinstance(each, BadFile)]
    run = _store(storage, skeleton, entries) if entries else None
    if isinstance(run, BadFile):
        return _set_aside(journal, None, [*bad_files, run])
    if bad_files:
        return _set_aside(journal, run, bad_files)
    remove_journal(journal)
    return Recovery(journal, run, "nothing had been measured; removed")


def _store(storage: Path, skeleton: dict[str, Any], entries: Sequence[dict[str, Any]]) -> Run | BadFile:
    lists = {
        "benchmarks": [each for each in entries if "stats" in each],
        WITHOUT_SPEED: [each for each in entries if "stats" not in each],
    }
    return read_run(save_run(storage, {**skeleton["document"], **lists}, f"{skeleton['name']}{RECOVERED}"))


def _stored_as(storage: Path, run: str) -> Path | None:
    """Return the file that the run is in, if it is; the newest are looked at first."""
    return next((path for path in reversed(run_files(storage)) if _is_of(path, run)), None)


def _is_of(path: Path, run: str) -> bool:
    """Return whether the file can be read and is of this run; most are not, which is quicker to see than to read."""
    try:
        if run.encode() not in path.read_bytes():
            return False
    except OSError:
        return False
    file = read_file(path, ())
    return isinstance(file, StoredFile) and any(result.info["run"] == run for result in file.results)


def _read_entry(path: Path) -> dict[str, Any] | BadFile:
    entry = _read(path, ("extra_info",))
    if isinstance(entry, BadFile):
        return entry
    try:
        check_result(entry["extra_info"])
    except ValueError as error:
        return BadFile(path, why_unreadable(error))
    return entry


def _read(path: Path, keys: Sequence[str]) -> dict[str, Any] | BadFile:
    """Return the file's object, which has these keys, or what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return BadFile(path, why_unreadable(error))
    if not isinstance(content, dict) or any(key not in content for key in keys):
        return BadFile(path, "not a file of a journal")
    return content


def _set_aside(journal: Path, run: Run | None, bad_files: Sequence[BadFile]) -> Recovery:
    """Keep the journal under a name by which it is not looked at again: what is damaged is never removed."""
    aside = journal.rename(journal.with_name(f"{journal.name}{SET_ASIDE}"))
    moved = [
        BadFile(aside / each.path.name, each.reason) if each.path.parent == journal else each for each in bad_files
    ]
    return Recovery(journal, run, f"kept as {aside}, for it could not be read", moved)
