"""A run on disk: one file of pytest-benchmark's JSON, complete at any moment.

Results with latencies are the `extra_info` of its benchmarks, whose `stats` are those of the
latencies. Results without, failures and those of a target that computes nothing, stand in its
top-level `reusebench_without_speed`, recorded programs in `reusebench_programs`. While it is being
measured it has `reusebench_unfinished`.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import functools
import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import Environment
from reusebench.storage.decoding import MOST_BYTES, decode_stored
from reusebench.storage.errors import StorageError
from reusebench.storage.recorded_program import PROGRAM_SCHEMA, Program
from reusebench.storage.result import SCHEMA, Result
from reusebench.system.files import UNFINISHED, open_inside, printable, read_regular
from reusebench.system.interrupts import uninterrupted

__all__ = [
    "PROGRAMS",
    "UNFINISHED_NAME",
    "WITHOUT_SPEED",
    "BadFile",
    "Commit",
    "Cpu",
    "LatencyStats",
    "MachineInfo",
    "RunOrder",
    "RunWriter",
    "StoredResult",
    "StoredRun",
    "check_storage",
    "is_unfinished_run",
    "is_written",
    "python_folder",
    "read_run_file",
    "read_storage",
    "run_files",
    "run_number",
    "save_run",
    "storages_in",
]

#: Top-level keys beside those of pytest-benchmark.
WITHOUT_SPEED = "reusebench_without_speed"
PROGRAMS = "reusebench_programs"
_UNFINISHED = "reusebench_unfinished"
#: Schemas that are read.
_READ: dict[str, type[Result | Program]] = {SCHEMA: Result, PROGRAM_SCHEMA: Program}
_OURS = "reusebench-"
#: The file that is being written: it is beside the folders of runs, and keeps the number for its
#: writer.
UNFINISHED_NAME = re.compile(rf"\.[0-9]+{re.escape(UNFINISHED)}")
#: Longer numbers are none that this project has given.
_NUMBERED = re.compile(r"([0-9]{1,9})_.+\.json", re.DOTALL)
#: Files of runs in a storage, each in the folder of a Python's version.
_RUNS = "*/[0-9]*.json"
#: Folders of a storage that have no runs: traces, and the answers of `reusebench fit`.
_NOT_OF_RUNS = ("traces", "fit")
#: How pytest-benchmark's JSON begins.
_BEGINNING = b'{"machine_info":'
#: What pytest-benchmark does not allow in --benchmark-save.
_NOT_IN_NAMES = r"\/:*?<>|"
#: Of a run's latencies, in seconds: 30 years.
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
#: What runs are sorted by, the oldest first: in one storage by their number, for a clock may be
#: wrong; runs of several storages by the time. A time before that of a lower number counts as that.
RunOrder = tuple[str, int, str]
#: A file's name may have 255 bytes; a number and `.json` are beside this one, and other names are
#: made of it.
_MOST_NAME_BYTES = 200
#: Before it there was no such run: the clock was not set.
_FIRST_YEAR = 2020
#: Runs that are measured at the same time may end in any order.
_MEASURED_AT_ONCE = datetime.timedelta(days=1)


class LatencyStats(msgspec.Struct, frozen=True):
    """Of pytest-benchmark's statistics of the latencies, in seconds."""

    median: _Seconds


class Cpu(msgspec.Struct, frozen=True):
    """The processor, as pytest-benchmark describes it."""

    brand_raw: Optional[str] = None


class MachineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Of pytest-benchmark's facts of the machine those that are shown, and ours."""

    reusebench: Environment
    system: str = ""
    release: str = ""
    machine: str = ""
    python_version: str = ""
    cpu: Cpu = Cpu()


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The commit of the working folder."""

    id: Optional[str] = None
    dirty: bool = False


class StoredResult(msgspec.Struct, frozen=True):
    """One configuration of one run; without latencies its statistics are None."""

    info: Result
    stats: Optional[LatencyStats]


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: a file that could be read."""

    path: Path
    #: ISO 8601, UTC.
    recorded_at: str
    machine: MachineInfo
    commit: Commit
    results: tuple[StoredResult, ...]
    programs: tuple[Program, ...]
    #: False while it is measured, and for good where its session was cut off.
    is_finished: bool
    order: RunOrder
    #: False where the clock cannot have been right.
    is_dated: bool

    @property
    def file_name(self) -> str:
        """The name of its file, as it may be shown."""
        return printable(self.path.name)

    @property
    def board(self) -> str:
        """The board that it was measured on."""
        return self.machine.reusebench.board


class BadFile(msgspec.Struct, frozen=True):
    """A file that could not be read, and why."""

    path: Path
    reason: Message

    @property
    def file(self) -> str:
        """Its path, as it may be shown."""
        return printable(str(self.path))

    @property
    def message(self) -> Message:
        """What is wrong and what to do."""
        return Message("bad_file", {"file": self.file, "reason": self.reason})

    def __str__(self) -> str:
        """Return it in English."""
        return str(self.message)


class _Benchmark(msgspec.Struct):
    extra_info: msgspec.Raw
    stats: Optional[LatencyStats] = None


class _Document(msgspec.Struct):
    """The parts of the file that are read; results are checked one by one, since some may not be
    ours.
    """

    machine_info: msgspec.Raw
    commit_info: msgspec.Raw
    datetime: str
    benchmarks: list[_Benchmark]
    without_speed: list[_Benchmark] = msgspec.field(name=WITHOUT_SPEED, default_factory=list)
    programs: list[msgspec.Raw] = msgspec.field(name=PROGRAMS, default_factory=list)
    unfinished: bool = msgspec.field(name=_UNFINISHED, default=False)


class _Schema(msgspec.Struct):
    schema: str = ""


class _SchemaUnknown(Exception):
    """The file is of another version of this project."""


def read_run_file(path: Path) -> StoredRun | BadFile | None:
    """Return the file's run, what is wrong with it, or None if there is nothing of ours in
    it.
    """
    try:
        document = msgspec.json.decode(read_regular(path, MOST_BYTES), type=_Document)
        results = [*_results(document.benchmarks), *_results(document.without_speed)]
        programs = [
            program for raw in document.programs if isinstance(program := _ours(raw), Program)
        ]
        if not results and not programs:
            return None
        recorded_at = _moment(document.datetime)
        return StoredRun(
            path=path,
            recorded_at=recorded_at,
            machine=decode_stored(document.machine_info, MachineInfo),
            commit=decode_stored(document.commit_info, Commit),
            results=tuple(results),
            programs=tuple(programs),
            is_finished=not document.unfinished,
            order=(recorded_at, run_number(path) or 0, path.name),
            is_dated=int(recorded_at[:4]) >= _FIRST_YEAR,
        )
    except OSError as error:
        reason = Message("file_unreadable", {"error": error.strerror or str(error)})
    except _SchemaUnknown as error:
        reason = Message(
            "file_schema_unknown", {"schema": printable(str(error)), "known": ", ".join(_READ)}
        )
    except msgspec.ValidationError as error:
        reason = Message("file_invalid", {"error": printable(str(error))})
    # No JSON, which is a ValueError in newer msgspec alone; or no date.
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        reason = Message("file_damaged", {"error": printable(str(error))})
    return BadFile(path, reason)


def _moment(text: str) -> str:
    """Return the date and time as it is shown and sorted by: in UTC, as pytest-benchmark writes
    it.
    """
    moment = datetime.datetime.fromisoformat(text)
    return (moment.astimezone(datetime.timezone.utc) if moment.tzinfo else moment).isoformat()


def _results(benchmarks: list[_Benchmark]) -> Iterator[StoredResult]:
    for benchmark in benchmarks:
        info = _ours(benchmark.extra_info)
        if isinstance(info, Result):
            yield StoredResult(info, benchmark.stats)


def _ours(raw: msgspec.Raw) -> Result | Program | None:
    """Return what is stored under one of our schemas; None if it is somebody else's."""
    try:
        schema = msgspec.json.decode(raw, type=_Schema).schema
    except msgspec.ValidationError:
        return None
    if not schema.startswith(_OURS):
        return None
    if schema not in _READ:
        raise _SchemaUnknown(schema)
    return decode_stored(raw, _READ[schema])


def check_storage(folder: Path) -> None:
    """Raise StorageError if there is no storage, or it may not be read."""
    name = printable(str(folder))
    try:
        os.scandir(folder).close()
    except (FileNotFoundError, NotADirectoryError):
        raise StorageError(
            f"no storage at {name}. Run `pytest bench/` first, or name another with --storage DIR"
        ) from None
    except OSError as error:
        raise StorageError(
            f"the storage {name} cannot be read ({error.strerror}). Give this user the right to"
            " read it, or name another with --storage DIR"
        ) from None


def read_storage(storage: Path) -> Iterator[StoredRun | BadFile]:
    """Yield every run of the storage, by number; files without results of ours are passed over."""
    paths, unreadable = _listing(storage)
    yield from unreadable
    latest: str | None = None
    for path in paths:
        file = read_run_file(path)
        number = run_number(path)
        if isinstance(file, StoredRun) and number is not None:
            before = latest or file.recorded_at
            latest = max(before, file.recorded_at)
            yield msgspec.structs.replace(
                file,
                order=(latest, number, path.name),
                is_dated=file.is_dated and not _is_long_before(file.recorded_at, before),
            )
        elif file is not None:
            yield file


def _is_long_before(one: str, other: str) -> bool:
    """Whether a moment lies further before another one than runs that are measured at once may
    end.
    """
    moments = [datetime.datetime.fromisoformat(text).replace(tzinfo=None) for text in (one, other)]
    return moments[1] - moments[0] > _MEASURED_AT_ONCE


def run_files(storage: Path) -> list[Path]:
    """Return the files of the storage that may be runs, by number."""
    return _listing(storage)[0]


def _listing(storage: Path) -> tuple[list[Path], list[BadFile]]:
    """Return the files of the storage that may be runs, by number, and folders that may not be
    read.
    """
    paths: list[Path] = []
    unreadable: list[BadFile] = []

    def read(folder: Path, listed: Callable[[Path], list[Path]]) -> list[Path]:
        try:
            return listed(folder)
        except OSError as error:
            unreadable.append(
                BadFile(folder, Message("file_unreadable", {"error": error.strerror or str(error)}))
            )
            return []

    for folder in read(storage, _folders):
        paths += read(folder, _files)
    return sorted(paths, key=lambda path: (run_number(path) or 0, path.name, path)), unreadable


def _folders(storage: Path) -> list[Path]:
    """Return the folders of the storage that have runs, one for each version of Python."""
    return sorted(storage / name for name in _names(storage) if name not in _NOT_OF_RUNS)


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder) if name.endswith(".json")]


def _names(folder: Path) -> list[str]:
    """Return what is in a folder; nothing if there is none."""
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def run_number(path: Path) -> int | None:
    """Return the number that a run's file has; None if it is called otherwise."""
    numbered = _NUMBERED.fullmatch(path.name)
    return int(numbered[1]) if numbered else None


def storages_in(folder: Path) -> list[Path]:
    """Return the storage of one board: the folder itself; or those of all boards inside it."""
    boards = sorted({path.parent.parent for path in folder.glob(f"*/{_RUNS}")})
    return boards if boards and not any(folder.glob(_RUNS)) else [folder]


class RunWriter:
    """Writes a run as `STORAGE/PYTHON/NNNN_name.json`, again and again while it grows.

    The file is always replaced as a whole: a reader, also after a power cut, sees its former or its
    new content. Runs that are written at the same time have different numbers, whatever their
    names. Raises OSError if it cannot be written; the file is then as it was before.
    """

    def __init__(self, storage: Path, name: str) -> None:
        """Take the storage and the run's name; ValueError if no file can have it."""
        if (
            not name.isprintable()
            or not 0 < len(name.encode()) <= _MOST_NAME_BYTES
            or set(name) & set(_NOT_IN_NAMES)
        ):
            valid = (
                f"valid: 1 to {_MOST_NAME_BYTES} bytes of printable UTF-8, none of {_NOT_IN_NAMES}"
            )
            raise ValueError(f"'{printable(name)}' cannot be the name of a run; {valid}")
        self._storage = storage
        self._name = name
        #: Once the number is taken.
        self.path: Path | None = None
        #: The descriptor of what was written last; its file is locked as long as there is more to
        #: come.
        self._held: int | None = None

    def write(self, document: dict[str, Any], finished: bool = True) -> Path:
        """Write the run and return its path; `document` is pytest-benchmark's, values may be
        msgspec.Raw.
        """
        content = msgspec.json.encode(
            document if finished else {**document, _UNFINISHED: True}, enc_hook=_unknown
        )
        folder = self._storage / python_folder()
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with uninterrupted():
            number, unfinished = _claim(self._storage, self.path)
            former = self._held
            self._held = None
            try:
                with unfinished.open("wb") as file:
                    if not finished:
                        self._held = os.dup(file.fileno())
                    _lock(file.fileno())
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                self.path = unfinished.rename(folder / f"{number:04}_{self._name}.json")
            except BaseException:
                unfinished.unlink(missing_ok=True)
                former, self._held = self._held, former
                raise
            finally:
                if former is not None:
                    os.close(former)
        for changed in (folder, self._storage, *(path.parent for path in new[1:])):
            _sync_names(changed)
        return self.path


def is_unfinished_run(storage: Path, relative: str) -> bool:
    """Whether a file of the storage, by its path in it, is the beginning of a run, which may be
    empty.
    """
    with open_inside(storage, relative) as file:
        return _BEGINNING.startswith(file.read(len(_BEGINNING)))


def is_written(storage: Path, relative: str) -> bool:
    """Whether a file of the storage, by its path in it, has a writer that lives; not known of a
    network's disk.
    """
    with open_inside(storage, relative) as file:
        return not _lock(file.fileno())


def _lock(descriptor: int) -> bool:
    """Lock the file as long as it is open; return whether no other process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # not on every network file system
        pass
    return True


def save_run(storage: Path, document: dict[str, Any], name: str) -> Path:
    """Write a run that is done and return its path."""
    return RunWriter(storage, name).write(document)


def _claim(storage: Path, path: Path | None) -> tuple[int, Path]:
    """Return a run's number and the file to write into; with no file yet the next number, which no
    other writer gets.

    Only one writer can make that file. It then looks at the numbers again: another one may have had
    this and be done.
    """
    number = run_number(path) if path else None
    if number is not None:
        return number, storage / f".{number:04}.unfinished"
    number = max(_numbers(storage), default=0)
    while True:
        number += 1
        unfinished = storage / f".{number:04}.unfinished"
        try:
            unfinished.touch(exist_ok=False)
        except FileExistsError:
            continue
        if number not in _numbers(storage):
            return number, unfinished
        unfinished.unlink(missing_ok=True)


def _numbers(storage: Path) -> set[int]:
    return {run_number(path) or 0 for folder in _folders(storage) for path in _files(folder)}


def _sync_names(folder: Path) -> None:
    """Write the names in the folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems cannot; the file is there all the same.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@functools.cache
def python_folder() -> str:
    """Return the name of this Python's folder, which is pytest-benchmark's. Once it runs a process,
    to find it.
    """
    version = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.system()}-{platform.python_implementation()}-{version}-{platform.architecture()[0]}"


def _unknown(value: Any) -> str:
    """Return what pytest-benchmark writes for what JSON has no form for."""
    return f"UNSERIALIZABLE[{value!r}]"
