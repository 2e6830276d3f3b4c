"""The index of one storage: which parts cover its files, and the reading of the others."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from reusebench.storage.index.all_tables import version
from reusebench.storage.index.covered import (
    CoveredFile,
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

__all__ = ["LEAST_BYTES", "IndexedFile", "index_errors", "index_run", "indexed_files"]

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
#: A storage, the folder for the parts, and the files to read: a line of the program's input.
Job = tuple[str, str, Sequence[str]]
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


@dataclass(frozen=True)
class StorageFiles:
    """The files of a storage."""

    #: By number.
    files: list[IndexedFile]
    #: Folders that cannot be read.
    unreadable: list[BadFile]


def indexed_files(
    storages: Iterable[Path], with_traces: bool = False, may_write: bool = True
) -> list[StorageFiles]:
    """Return the files of each storage; new and changed ones are read.

    They are indexed if the index may be written. With traces, the sizes of traces are those of now.
    """
    indexes = [_StorageIndex(storage, with_traces) for storage in storages]
    if _is_on():
        for index in indexes:
            index.load()
        if may_write:
            _write_in_processes(indexes)
            for index in indexes:
                index.bring_up_to_date()
    return [index.files() for index in indexes]


def _is_on() -> bool:
    is_off = os.environ.get(_VARIABLE) == _OFF
    return not is_off and importlib.util.find_spec("duckdb") is not None


def index_errors() -> tuple[type[Exception], ...]:
    """Return the errors after which the files are read instead of the index."""
    try:
        import duckdb
    except ImportError:
        # A wheel for another processor, or half an installation.
        return (OSError, ImportError)
    return (OSError, duckdb.Error)


def _relative(storage: Path, path: Path) -> str:
    """Return the path of a file in the storage; Path.relative_to takes ten times as long."""
    folder = "" if storage == Path() else f"{storage}/"
    return str(path).removeprefix(folder)


def _places(storage: Path) -> list[Path]:
    """Return the folders for the index: in the storage, and in the cache if that is read-only."""
    resolved = os.fsencode(storage.resolve())
    digest = hashlib.sha256(resolved).hexdigest()[:_DIGITS]
    return [storage / INDEX / version(), cache_root() / "index" / digest / version()]


class _StorageIndex:
    """The parts of one storage's index."""

    def __init__(self, storage: Path, with_traces: bool = False) -> None:
        """List the files of the storage."""
        self.storage = storage
        self._with_traces = with_traces
        self._unreadable: list[BadFile] = []
        paths = run_files(storage, self._unreadable)
        #: Key: path of a file relative to the storage, by number.
        self._paths = {_relative(storage, path): path for path in paths}
        #: Key: path of a file relative to the storage; value: its state now.
        self._states = {relative: state_of(path) for relative, path in self._paths.items()}
        self._parts: dict[Path, Part] = {}
        #: Key: path of a file; value: the part that covers it, and its position there.
        self._covering: dict[str, tuple[Part, int]] = {}
        #: Files that were read, and that no part covers.
        self._read: dict[str, IndexedFile] = {}

    def load(self) -> None:
        """Read the lists of parts that are not known yet."""
        for place in _places(self.storage):
            known = [folder.name for folder in self._parts if folder.parent == place]
            for part in parts_in(place, known):
                self._parts[part.folder] = part
                self._cover(part)

    def _cover(self, part: Part) -> None:
        for position, covered in enumerate(part.files):
            if covered.path in self._covering:
                continue
            if covered.state is None or covered.state != self._states.get(covered.path):
                continue
            if self._with_traces and not has_its_traces(self.storage, covered):
                continue
            self._covering[covered.path] = (part, position)

    @property
    def missing(self) -> dict[str, int]:
        """The files to be indexed, with their sizes; none if an index would save no time."""
        sizes = {path: state.size_bytes for path, state in self._states.items() if state}
        if not self._parts and sum(sizes.values()) < LEAST_BYTES:
            return {}
        known = self._covering.keys() | self._read.keys()
        return {path: size_bytes for path, size_bytes in sizes.items() if path not in known}

    def places(self) -> Iterator[Path]:
        """Yield the folders that new parts can be written into, the best one first."""
        for place in _places(self.storage):
            with suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
                if os.access(place, os.W_OK):
                    yield place

    def bring_up_to_date(self) -> None:
        """Read the files that no part covers into a new part, and merge small ones."""
        if self.missing:
            self._write()
        # A folder that cannot be read would make its files seem to be gone.
        if self._parts and not self._unreadable:
            self._merge()

    def _write(self) -> None:
        for place in self.places():
            try:
                # DuckDB is imported only if something is written.
                from reusebench.storage.index.writing import write_parts

                for read in write_parts(self.storage, place, self.missing):
                    self._keep(read)
            except index_errors():
                # Such as a full disk: the next place may have room.
                continue
            finally:
                self.load()
            remove_leftovers(place.parent, place.name)
            return

    def _keep(self, read: FileRead) -> None:
        path = read.run.path if read.run else self.storage / read.covered.path
        self._read[read.covered.path] = IndexedFile(path, read.covered, run=read.run)

    def _merge(self) -> None:
        """Merge small parts if there are many, and parts whose files are mostly of the past."""
        live: dict[Path, list[int]] = {folder: [] for folder in self._parts}
        for part, position in self._covering.values():
            live[part.folder].append(position)
        for place in _places(self.storage):
            parts = [part for folder, part in self._parts.items() if folder.parent == place]
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
        try:
            from reusebench.storage.index.writing import merge

            merge(place, [(part, live[folder]) for folder, part in parts.items()])
        except index_errors():
            return
        for folder in parts:
            del self._parts[folder]
        self._covering = {
            path: (part, position)
            for path, (part, position) in self._covering.items()
            if part.folder not in parts
        }
        self.load()

    def files(self) -> StorageFiles:
        """Return the files; those that no part covers are read."""
        files: list[IndexedFile] = []
        for relative, path in self._paths.items():
            files += self._file(relative, path)
        return StorageFiles(files, self._unreadable)

    def _file(self, relative: str, path: Path) -> Iterator[IndexedFile]:
        """Yield the file at the path, or nothing if it is gone."""
        if relative in self._covering:
            part, position = self._covering[relative]
            yield IndexedFile(path, part.files[position], part, position)
            return
        if relative not in self._read:
            read = read_file(self.storage, relative)
            if read is None:
                return
            self._keep(read)
        yield self._read[relative]


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


def _write_in_processes(indexes: Iterable[_StorageIndex]) -> None:
    """Share out the files to be indexed among processes, if there are enough of them."""
    missing = [(index, index.missing) for index in indexes]
    all_bytes = sum(sum(sizes.values()) for _, sizes in missing)
    count = _process_count(all_bytes)
    if count < 2:
        return
    shares: list[list[Job]] = [[] for _ in range(count)]
    before_bytes = 0
    for index, sizes in missing:
        place = next(index.places(), None) if sizes else None
        if place is None:
            continue
        of_shares: dict[int, list[str]] = {}
        for path, size_bytes in sizes.items():
            share = min(count - 1, before_bytes * count // all_bytes)
            of_shares.setdefault(share, []).append(path)
            before_bytes += size_bytes
        for share, paths in of_shares.items():
            shares[share].append((str(index.storage), str(place), paths))
    _run_writers(shares)
    for index, sizes in missing:
        if sizes:
            index.load()


def _run_writers(shares: Iterable[Sequence[Job]]) -> None:
    """Read files into parts, in a process for each share.

    A process that fails leaves its files out.
    """
    with ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("wb"))
        started = []
        for jobs in shares:
            process = processes.start(python_command(_WRITING), errors=nowhere)
            stack.callback(processes.end, process)
            started.append(process)
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as pipe:
                pipe.write(json.dumps(jobs).encode())
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
            _run_writers([[(str(storage), str(place), [_relative(storage, path)])]])
