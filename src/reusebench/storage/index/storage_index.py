"""The index of one storage: which parts cover its files, and the reading of the others."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.storage.index.all_tables import version
from reusebench.storage.index.covered import (
    CoveredFile,
    FileState,
    has_its_traces,
    state_of,
)
from reusebench.storage.index.parts import Part, parts_in, remove_leftovers
from reusebench.storage.index.reading import FileRead, read_file
from reusebench.storage.run_file import INDEX, BadFile, run_files
from reusebench.storage.runs import Run
from reusebench.system import processes
from reusebench.system.cache import cache_root
from reusebench.system.package import python_command

__all__ = ["LEAST_BYTES", "IndexedFile", "index_run", "indexed_files"]

#: Variable that switches the index off with this value.
_VARIABLE = "REUSEBENCH_INDEX"
_OFF = "off"
#: Size of a storage's runs from which an index saves time.
LEAST_BYTES = 1 << 20
#: Size of unread files for each process that reads them, and what a process may take.
_SHARE_BYTES = 32 << 20
_PROCESS_BYTES = 256 << 20
_MOST_PROCESSES = 4
#: Parts below this size are merged if they are many.
_SMALL_BYTES = 1 << 20
_MANY = 8
_MEMINFO = Path("/proc/meminfo")
#: The program that reads files into parts.
_WRITING = "reusebench.storage.index.writing"
#: Digits of a storage's digest in the cache.
_DIGITS = 16


@dataclass(frozen=True)
class IndexedFile:
    """A file of a storage, by the index or as it was read."""

    path: Path
    covered: CoveredFile
    #: The part that has its rows, and its position in it; None if no part has.
    part: Part | None = None
    position: int = 0
    #: The run, if the file was read.
    run: Run | None = None


def indexed_files(
    storage: Path,
    unreadable: list[BadFile],
    with_traces: bool = False,
    may_write: bool = True,
) -> list[IndexedFile]:
    """Return the files of the storage, by number; new and changed ones are read, and indexed if
    the index may be written.

    Folders that cannot be read are added to `unreadable`. With traces, the sizes of traces are
    those of now.
    """
    found: list[BadFile] = []
    paths = run_files(storage, found)
    unreadable += found
    index = _StorageIndex(storage, {_relative(storage, path): state_of(path) for path in paths})
    if _is_on():
        index.load(with_traces)
        if may_write:
            index.bring_up_to_date(may_remove=not found)
    return [file for path in paths for file in index.file(path)]


def _is_on() -> bool:
    is_off = os.environ.get(_VARIABLE) == _OFF
    return not is_off and importlib.util.find_spec("duckdb") is not None


def _relative(storage: Path, path: Path) -> str:
    return path.relative_to(storage).as_posix()


def _places(storage: Path) -> list[Path]:
    """Return the folders for the index: in the storage, and in the cache if that is read-only."""
    resolved = os.fsencode(storage.resolve())
    digest = hashlib.sha256(resolved).hexdigest()[:_DIGITS]
    return [storage / INDEX / version(), cache_root() / "index" / digest / version()]


@dataclass
class _StorageIndex:
    """The parts of one storage's index."""

    storage: Path
    #: Key: path of a file relative to the storage; value: its state now.
    states: Mapping[str, FileState | None]
    parts: dict[Path, Part] = field(default_factory=dict)
    #: Key: path of a file; value: the part that covers it, and its position there.
    covering: dict[str, tuple[Part, int]] = field(default_factory=dict)
    #: Files that were read, and that no part covers.
    read: dict[str, IndexedFile] = field(default_factory=dict)
    with_traces: bool = False

    def load(self, with_traces: bool) -> None:
        """Read the lists of parts that are not known yet."""
        self.with_traces = with_traces
        for place in _places(self.storage):
            known = [folder.name for folder in self.parts if folder.parent == place]
            for part in parts_in(place, known):
                self.parts[part.folder] = part
                self._cover(part)

    def _cover(self, part: Part) -> None:
        for position, covered in enumerate(part.files):
            if covered.path in self.covering:
                continue
            if covered.state is None or covered.state != self.states.get(covered.path):
                continue
            if self.with_traces and not has_its_traces(self.storage, covered):
                continue
            self.covering[covered.path] = (part, position)

    def bring_up_to_date(self, may_remove: bool) -> None:
        """Read the files that no part covers into a new part, if that is worthwhile."""
        missing = self._missing()
        sizes = {path: state.size_bytes for path, state in self.states.items() if state}
        is_worthwhile = self.parts or sum(sizes.values()) >= LEAST_BYTES
        if missing and is_worthwhile:
            self._write(missing, sum(sizes.get(path, 0) for path in missing))
        if may_remove and self.parts:
            self._merge()

    def _missing(self) -> list[str]:
        return [path for path in self.states if path not in self.covering and path not in self.read]

    def _write(self, missing: Sequence[str], size_bytes: int) -> None:
        # DuckDB is imported only if something is written.
        import duckdb

        from reusebench.storage.index.writing import write_parts

        count = _process_count(size_bytes)
        for place in _places(self.storage):
            with suppress(OSError, duckdb.Error):
                if count > 1:
                    place.mkdir(parents=True, exist_ok=True)
                    _write_in_processes(self.storage, place, missing, count)
                    self.load(self.with_traces)
                for read in write_parts(self.storage, place, self._missing()):
                    self._keep(read)
                self.load(self.with_traces)
                remove_leftovers(place.parent, place.name)
                return

    def _keep(self, read: FileRead) -> None:
        path = read.run.path if read.run else self.storage / read.covered.path
        self.read[read.covered.path] = IndexedFile(path, read.covered, run=read.run)

    def _merge(self) -> None:
        """Merge small parts if there are many, and parts whose files are mostly of the past."""
        live: dict[Path, list[int]] = {folder: [] for folder in self.parts}
        for part, position in self.covering.values():
            live[part.folder].append(position)
        for place in _places(self.storage):
            parts = [part for folder, part in self.parts.items() if folder.parent == place]
            small = [part for part in parts if part.size_bytes < _SMALL_BYTES]
            past = [part for part in parts if 2 * len(live[part.folder]) < len(part.files)]
            chosen = {
                part.folder: part for part in (*past, *(small if len(small) >= _MANY else ()))
            }
            if chosen:
                self._merge_into_one(place, chosen, live)

    def _merge_into_one(
        self, place: Path, parts: Mapping[Path, Part], live: Mapping[Path, Sequence[int]]
    ) -> None:
        import duckdb

        from reusebench.storage.index.writing import merge

        try:
            merge(place, [(part, live[folder]) for folder, part in parts.items()])
        except (OSError, duckdb.Error):
            return
        for folder in parts:
            del self.parts[folder]
        self.covering = {
            path: (part, position)
            for path, (part, position) in self.covering.items()
            if part.folder not in parts
        }
        self.load(self.with_traces)

    def file(self, path: Path) -> Iterator[IndexedFile]:
        """Yield the file at the path, which is read if no part covers it; nothing if it is gone."""
        relative = _relative(self.storage, path)
        if relative in self.covering:
            part, position = self.covering[relative]
            yield IndexedFile(path, part.files[position], part, position)
            return
        if relative not in self.read:
            read = read_file(self.storage, relative)
            if read is None:
                return
            self._keep(read)
        yield self.read[relative]


def _process_count(size_bytes: int) -> int:
    """Return the number of processes to read files of this size."""
    return max(
        1,
        min(
            _MOST_PROCESSES,
            len(os.sched_getaffinity(0)),
            size_bytes // _SHARE_BYTES,
            _available_bytes() // _PROCESS_BYTES,
        ),
    )


def _available_bytes() -> int:
    """Return the memory that is available; 0 if the kernel does not say."""
    with suppress(OSError):
        available = re.search(r"^MemAvailable:\s+(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE)
        if available:
            return int(available[1]) << 10
    return 0


def _write_in_processes(storage: Path, place: Path, files: Sequence[str], count: int) -> None:
    """Read files of the storage into parts, in `count` processes.

    A process that fails leaves its files out.
    """
    command = python_command(_WRITING, str(storage.absolute()), str(place.absolute()))
    with ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("wb"))
        started = []
        for number in range(count):
            process = processes.start(command, errors=nowhere)
            stack.callback(processes.end, process)
            started.append(process)
            share = files[number * len(files) // count : (number + 1) * len(files) // count]
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as names:
                names.write(os.fsencode("\0".join(share)))
        for process in started:
            process.wait()


def index_run(path: Path) -> None:
    """Index a run that was just written, in a process of its own.

    Nothing depends on it: it may fail, and the next reader makes up for it.
    """
    storage = path.parent.parent
    place = _places(storage)[0]
    with suppress(OSError):
        size_bytes = sum(file.stat().st_size for file in run_files(storage))
        if _is_on() and (place.is_dir() or size_bytes >= LEAST_BYTES):
            _write_in_processes(storage, place, [_relative(storage, path)], 1)
