"""The reading of a file, for the index or without one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from reusebench.storage.index.covered import CoveredFile, facts_of, is_settled, state_of
from reusebench.storage.run_file import BadFile, StoredRun, is_there, read_run_file
from reusebench.storage.runs import Run, run_of

__all__ = ["FileRead", "read_file"]

#: Code of reasons that do not follow from a file's content.
_UNREADABLE = "file_unreadable"


@dataclass(frozen=True)
class FileRead:
    """A file that was read."""

    covered: CoveredFile
    #: None if the file has no results of ours, or cannot be read.
    file: StoredRun | None
    run: Run | None
    #: Whether the index may keep it: with another content it would have another state.
    can_be_kept: bool


def read_file(storage: Path, relative: str) -> FileRead | None:
    """Return the file at this path in the storage; None if it is gone."""
    path = storage / relative
    read_at_ns = time.time_ns()
    state = state_of(path)
    file = read_run_file(path)
    if isinstance(file, BadFile):
        if not is_there(path):
            return None
        covered = CoveredFile(relative, state, reason=file.reason)
        stored, run = None, None
        is_known = file.reason.code != _UNREADABLE
    else:
        stored = file
        run = run_of(file) if file else None
        facts = facts_of(run, file, storage) if file and run else None
        covered = CoveredFile(relative, state, facts)
        # The file may have changed its form, plain or compacted, before it was read.
        is_known = run is None or run.path == path
    can_be_kept = (
        is_known
        and state == state_of(path)
        and is_settled(covered, read_at_ns)
        and _is_text(relative)
    )
    return FileRead(covered, stored, run, can_be_kept)


def _is_text(relative: str) -> bool:
    """Whether a path can be stored: a name on disk may have any bytes."""
    try:
        relative.encode()
    except UnicodeEncodeError:
        return False
    return True
