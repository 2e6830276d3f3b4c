"""The files that the index covers, and the states by which a changed file is told from a known one.

A file that is changed within one step of its file system's clock may have the state that it had
before. Therefore a file is kept only if it was left alone for that long.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.storage.compacted import in_either_form
from reusebench.storage.run_file import StoredRun
from reusebench.storage.runs import Run
from reusebench.storage.trace import TRACE_NAME, TRACES

__all__ = [
    "CoveredFile",
    "FileState",
    "RunFacts",
    "TraceFolder",
    "clock_step_s",
    "facts_of",
    "has_its_traces",
    "is_settled",
    "state_of",
    "trace_folder",
]

_S = 10**9
#: Steps of clocks: of Linux's file systems one tick, at least 1/100 s; of those that have whole
#: seconds, two seconds with FAT.
_STEP_S = 0.05
_COARSE_STEP_S = 2.5
#: Age from which a run without an end is taken for cut off. A younger one may still grow.
_GROWS_S = 24 * 60 * 60
#: Name of a folder of traces: the id of a session or of a recording.
_RUN_ID = re.compile(r"[0-9a-f]{12}|\d{8}_\d{6}-\d+")


class FileState(NamedTuple):
    """The state of a file, which another content does not have."""

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class TraceFolder(NamedTuple):
    """The traces of a run in one folder below `traces`."""

    name: str
    #: Time of the folder's last change: of a name in it.
    mtime_ns: int
    size_bytes: int


class RunFacts(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a run without its figures; its clock is not yet held against others'."""

    name: str
    recorded_at: str
    boards: tuple[str, ...]
    commit: Optional[str]
    is_dirty: bool
    is_dated: bool
    is_finished: bool
    runtimes: tuple[str, ...]
    ok: int
    failed: int
    trace_count: int
    trace_folders: tuple[TraceFolder, ...]


class CoveredFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that was read: it has a run, nothing of ours, or cannot be read for a reason."""

    #: Relative to the storage.
    path: str
    #: None if the file could not be seen.
    state: Optional[FileState]
    facts: Optional[RunFacts] = None
    reason: Optional[Message] = None

    @property
    def size_bytes(self) -> int:
        """Its size, with that of its traces."""
        own = self.state.size_bytes if self.state else 0
        folders = self.facts.trace_folders if self.facts else ()
        return own + sum(folder.size_bytes for folder in folders)


def state_of(path: Path) -> FileState | None:
    """Return the state of the file, through links; None if there is none, or no right to see it."""
    try:
        status = os.stat(path)  # noqa: PTH116  faster, and there may be many
    except OSError:
        return None
    return FileState(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def clock_step_s(state: FileState) -> float:
    """Return the step of the clock of the file's file system."""
    is_coarse = state.mtime_ns % _S == 0 or state.ctime_ns % _S == 0
    return _COARSE_STEP_S if is_coarse else _STEP_S


def is_settled(file: CoveredFile, read_at_ns: int) -> bool:
    """Whether a file that was read then has changed its state since if it has changed at all.

    A run without an end is settled after a day: while it grows it would be read again anyway.
    """
    state = file.state
    if state is None:
        return False
    is_unfinished = file.facts is not None and not file.facts.is_finished
    if is_unfinished and abs(read_at_ns - state.ctime_ns) / _S < _GROWS_S:
        return False
    changed_ns = [state.ctime_ns]
    if file.facts:
        changed_ns += [folder.mtime_ns for folder in file.facts.trace_folders]
    return abs(read_at_ns - max(changed_ns)) / _S > clock_step_s(state)


def facts_of(run: Run, file: StoredRun, storage: Path) -> RunFacts:
    """Return the facts of a run of the storage; `run` is that of the file."""
    traces = set(_traces_of(file))
    return RunFacts(
        name=run.name,
        recorded_at=run.recorded_at,
        boards=run.boards,
        commit=run.commit,
        is_dirty=run.is_dirty,
        is_dated=file.is_dated,
        is_finished=run.is_finished,
        runtimes=run.runtimes,
        ok=run.ok,
        failed=run.failed,
        trace_count=len(traces),
        trace_folders=tuple(_trace_folders(storage, traces)),
    )


def has_its_traces(storage: Path, file: CoveredFile) -> bool:
    """Whether the traces of a covered file are as they were."""
    folders = file.facts.trace_folders if file.facts else ()
    for folder in folders:
        try:
            status = os.lstat(f"{storage}/{TRACES}/{folder.name}")
        except OSError:
            return False
        if status.st_mtime_ns != folder.mtime_ns:
            return False
    return True


def trace_folder(storage: Path, name: str, traces: Iterable[str]) -> TraceFolder | None:
    """Return the folder with the sizes of these traces; None if it is none of ours, or is gone.

    Links are not followed, as in the removal of runs.
    """
    folder = storage / TRACES / name
    if not _RUN_ID.fullmatch(name) or (storage / TRACES).is_symlink():
        return None
    try:
        status = folder.lstat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    size_bytes = 0
    for trace in traces:
        with suppress(OSError):
            size_bytes += _size_of_trace(str(folder / trace))
    return TraceFolder(name, status.st_mtime_ns, size_bytes)


def _size_of_trace(path: str) -> int:
    status = in_either_form(os.lstat, path)
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _trace_folders(storage: Path, traces: Iterable[str]) -> Iterable[TraceFolder]:
    names: dict[str, list[str]] = {}
    for trace in traces:
        place, _, name = trace.rpartition("/")
        top, _, folder = place.rpartition("/")
        if top == TRACES and TRACE_NAME.fullmatch(name):
            names.setdefault(folder, []).append(name)
    for folder in sorted(names):
        counted = trace_folder(storage, folder, names[folder])
        if counted is not None:
            yield counted


def _traces_of(file: StoredRun) -> Iterable[str]:
    for result in file.results:
        yield from (repeat.trace for repeat in result.info.repeats if repeat.trace)
    for program in file.programs:
        yield from (repeat.trace for repeat in program.repeats if repeat.trace)
