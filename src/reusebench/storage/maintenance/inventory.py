"""The inventory of one board's storage: runs, their traces, damaged files, traces without a run.

Only files in the inventory are ever removed: regular files with names that this project gives. No
links are followed.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reusebench.storage.compacted import UNFINISHED_FORM, plain_trace_name
from reusebench.storage.run_file import (
    UNFINISHED_NAME,
    BadFile,
    StoredRun,
    is_unfinished_run,
    is_written,
    read_storage,
)
from reusebench.storage.runs import Run, run_of
from reusebench.storage.trace import TRACE_NAME, TRACES, UNFINISHED_TRACE

__all__ = [
    "LEFT_AFTER_S",
    "AuxiliaryFile",
    "Inventory",
    "RunFiles",
    "take_inventory",
    "trace_folders",
]

#: Age since the last change at which an unfinished run, or a file without a run, counts as left
#: over. A younger one may belong to a session that is still measuring.
LEFT_AFTER_S = 24 * 60 * 60

#: Name of a folder of traces: the id of a session, which is the start of a UUID in hexadecimal
#: digits; or the time and the process of a recording.
_RUN_ID = re.compile(r"[0-9a-f]{12}|\d{8}_\d{6}-\d+")
_TRACE_FOLDER = re.compile(rf"{TRACES}/({_RUN_ID.pattern})")


@dataclass(frozen=True)
class RunFiles:
    """A run with its files in the storage."""

    run: Run
    size_bytes: int
    #: Seconds since 1970.
    changed_at_s: float
    #: Whether its file, or the folder of the file, is a link.
    is_linked: bool
    #: Whether a live session is measuring it.
    is_written: bool
    #: Paths of the repeats' traces, relative to the storage.
    traces: tuple[str, ...]


@dataclass(frozen=True)
class AuxiliaryFile:
    """A file beside the runs."""

    path: Path
    size_bytes: int
    #: Seconds since 1970; a trace has the time of the newest trace in its folder.
    changed_at_s: float


@dataclass(frozen=True)
class Inventory:
    """The content of one storage."""

    storage: Path
    #: The oldest first.
    runs: Sequence[RunFiles]
    bad_files: Sequence[BadFile]
    #: Key: path of a trace, relative to the storage, as results name it; both forms are one.
    traces: Mapping[str, AuxiliaryFile]
    #: Files that are being written, or were when the power went off.
    unfinished: Sequence[AuxiliaryFile]

    def size_bytes(self, stored: RunFiles) -> int:
        """Return the size of the run and its traces."""
        traces = [self.traces[name] for name in stored.traces if name in self.traces]
        return stored.size_bytes + sum(trace.size_bytes for trace in traces)


def take_inventory(storage: Path) -> Inventory:
    """Read the storage; skip files that are not ours."""
    # Traces are listed before runs: a run that is stored meanwhile has too new traces to remove.
    traces: dict[str, AuxiliaryFile] = {}
    unfinished = [file for file in _own_files(storage, UNFINISHED_NAME) if _is_left(storage, file)]
    for folder in _own_paths(storage / TRACES, _RUN_ID):
        in_folder = list(_own_files(folder, TRACE_NAME))
        newest_s = max((trace.changed_at_s for trace in in_folder), default=0.0)
        for trace in in_folder:
            name = plain_trace_name(_inside(storage, trace.path))
            other_bytes = traces[name].size_bytes if name in traces else 0
            traces[name] = replace(
                trace, size_bytes=trace.size_bytes + other_bytes, changed_at_s=newest_s
            )
        unfinished += _own_files(folder, UNFINISHED_TRACE)

    for folder in _own_paths(storage, re.compile(".+", re.DOTALL)):
        unfinished += _own_files(folder, UNFINISHED_FORM)

    runs: list[RunFiles] = []
    bad_files: list[BadFile] = []
    for file in read_storage(storage):
        if isinstance(file, BadFile):
            bad_files.append(file)
        else:
            with suppress(FileNotFoundError):  # removed meanwhile
                runs.append(_files_of(storage, file))
    runs.sort(key=lambda stored: stored.run.order)
    return Inventory(storage, runs, bad_files, traces, unfinished)


def _files_of(storage: Path, file: StoredRun) -> RunFiles:
    status = file.path.stat()
    is_linked = file.path.is_symlink() or file.path.parent.is_symlink()
    may_grow = not file.is_finished and not is_linked
    return RunFiles(
        run=run_of(file),
        size_bytes=status.st_size,
        changed_at_s=status.st_mtime,
        is_linked=is_linked,
        is_written=may_grow and is_written(storage, _inside(storage, file.path)),
        traces=tuple(_traces_of(file)),
    )


def _inside(storage: Path, path: Path) -> str:
    return path.relative_to(storage).as_posix()


def _is_left(storage: Path, file: AuxiliaryFile) -> bool:
    """Whether the file is the beginning of a run, and no session is writing it now."""
    with suppress(FileNotFoundError):
        name = _inside(storage, file.path)
        return is_unfinished_run(storage, name) and not is_written(storage, name)
    return False


def _traces_of(file: StoredRun) -> Iterator[str]:
    for result in file.results:
        yield from (repeat.trace for repeat in result.info.repeats if repeat.trace)
    for program in file.programs:
        yield from (repeat.trace for repeat in program.repeats if repeat.trace)


def trace_folders(file: StoredRun) -> set[str]:
    """Return the folders of the run's traces, relative to the storage.

    All traces in them belong to the run, also those that it does not name.
    """
    folders = {name.rpartition("/")[0] for name in _traces_of(file)}
    return {folder for folder in folders if _TRACE_FOLDER.fullmatch(folder)}


def _own_files(folder: Path, name: re.Pattern[str]) -> Iterator[AuxiliaryFile]:
    """Yield the regular files in the folder whose names match, by name."""
    for path in _own_paths(folder, name):
        try:
            status = path.lstat()
        except FileNotFoundError:  # finished, and renamed, meanwhile
            continue
        if stat.S_ISREG(status.st_mode):
            yield AuxiliaryFile(path, status.st_size, status.st_mtime)


def _own_paths(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the paths in the folder whose names match, in order; none if the folder is a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if name.fullmatch(path.name))
