"""A run on disk: one file of pytest-benchmark's JSON, complete at any moment.

A result with latencies is the `extra_info` of a benchmark, whose `stats` describe the latencies.
Results without latencies, such as failures, stand in the top-level key `reusebench_without_speed`,
recorded programs in `reusebench_programs`. A run of several boards has their machines in
`reusebench_boards`. A run that is still measured has `reusebench_unfinished`.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import functools
import os
import platform
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import Environment
from reusebench.storage.board_storage import board_name
from reusebench.storage.compacted import decoded, in_either_form, plain_name
from reusebench.storage.decoding import decode_stored
from reusebench.storage.errors import StorageError
from reusebench.storage.recorded_program import PROGRAM_SCHEMA, Program
from reusebench.storage.result import SCHEMA, Result
from reusebench.system.files import UNFINISHED, open_inside, printable, read_regular
from reusebench.system.interrupts import uninterrupted

__all__ = [
    "BOARDS",
    "CUT_OFF",
    "FINISHED",
    "INDEX",
    "MOST_RUN_BYTES",
    "NO_END",
    "PROGRAMS",
    "REMOVED",
    "RUNNING",
    "UNFINISHED_NAME",
    "WITHOUT_SPEED",
    "BadFile",
    "Commit",
    "Cpu",
    "MachineInfo",
    "RunOrder",
    "RunWriter",
    "StorageClock",
    "StoredResult",
    "StoredRun",
    "check_storage",
    "encoded",
    "file_name",
    "is_there",
    "is_unfinished_run",
    "is_written",
    "outcome_of",
    "python_folder",
    "read_run_file",
    "read_storage",
    "run_files",
    "run_number",
    "run_stem",
    "save_run",
    "storages_in",
]

#: Our top-level keys in pytest-benchmark's JSON.
WITHOUT_SPEED = "reusebench_without_speed"
PROGRAMS = "reusebench_programs"
BOARDS = "reusebench_boards"
_UNFINISHED = "reusebench_unfinished"
#: The ends of a run: whole; its process is alive on this machine; its process ended before, as by
#: a power cut; or it cannot be told which of these.
FINISHED = "finished"
RUNNING = "running"
CUT_OFF = "cut_off"
NO_END = "no_end"
#: Schemas that this version reads.
_READ: dict[str, type[Result | Program]] = {SCHEMA: Result, PROGRAM_SCHEMA: Program}
_OURS = "reusebench-"
#: Name of the file that is being written, beside the folders of runs; it reserves the number.
UNFINISHED_NAME = re.compile(rf"\.[0-9]+{re.escape(UNFINISHED)}")
#: Name of a run's file. Longer numbers are not ours.
_NUMBERED = re.compile(r"([0-9]{1,9})_.+\.json", re.DOTALL)
#: Names of files in a storage's folders that make it a storage; plain, and compacted.
_RUN = re.compile(r"[0-9].*\.json(\.xz)?", re.DOTALL)
#: Folder of the index of a storage.
INDEX = ".index"
#: Beginning of the names of runs that are being removed.
REMOVED = ".removed-"
#: Folders of a storage without runs: traces, the answers of `reusebench fit`, and the index.
_WITHOUT_RUNS = ("traces", "fit", INDEX)
#: Limit of a run's file; a larger one is damaged. A session of all questions on several runtimes
#: has 3.5 MB of each board.
MOST_RUN_BYTES = 2**28
_NULL = b"null"
#: First bytes of pytest-benchmark's JSON.
_BEGINNING = b'{"machine_info":'
#: Characters that pytest-benchmark does not allow in --benchmark-save.
_NOT_IN_NAMES = r"\/:*?<>|"
#: Sort key of runs, the oldest first. The first item is the time, raised to that of any lower
#: number in the storage: numbers decide within a storage, since a clock may be wrong.
RunOrder = tuple[str, int, str]
#: Limit of a run's name. A file name may have 255 bytes; number and `.json` are added to the name,
#: and other names are derived from it.
_MOST_NAME_BYTES = 200
#: Year of the first run ever; an earlier date means that the clock was not set.
_FIRST_YEAR = 2020
#: Runs that are measured at the same time may end in any order.
_MEASURED_AT_ONCE = datetime.timedelta(days=1)


class Cpu(msgspec.Struct, frozen=True):
    """The processor, as pytest-benchmark describes it."""

    brand_raw: Optional[str] = None


class MachineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """pytest-benchmark's facts of the machine, as far as they are shown, and ours."""

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
    """One configuration of one run."""

    info: Result


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: a file that could be read."""

    path: Path
    #: ISO 8601, UTC.
    recorded_at: str
    machine: MachineInfo
    commit: Commit
    results: tuple[StoredResult, ...]
    programs: tuple[Program, ...]
    #: Run of several boards only: their machines by name; None if the board was never reached.
    machines: dict[str, Optional[MachineInfo]] = {}
    #: FINISHED, RUNNING, CUT_OFF or NO_END.
    end: str
    order: RunOrder
    #: False if the clock cannot have been right.
    is_dated: bool

    @property
    def file_name(self) -> str:
        """The printable name of the file, as it was before it was compacted."""
        return file_name(self.path)

    @property
    def is_finished(self) -> bool:
        """Whether it is whole; otherwise it is still being measured, or was cut off."""
        return self.end == FINISHED

    def outcome_of(self, stored: str) -> str:
        """Return the outcome of a result; for one without an end, what is known of the run's."""
        return outcome_of(stored, self.end)

    @property
    def board(self) -> str:
        """The board that the run was measured on; the names of several boards."""
        return ", ".join(self.boards)

    @property
    def boards(self) -> tuple[str, ...]:
        """The boards that the run was measured on."""
        return tuple(self.machines) or (self.machine.reusebench.board,)

    def board_of(self, result: Result) -> str:
        """Return the board that one of its results was measured on."""
        return result.board or self.machine.reusebench.board

    def by_board(self) -> list[StoredRun]:
        """Return the run as a run of each board; a board that was never reached has none."""
        if not self.machines:
            return [self]
        runs = []
        for board, machine in self.machines.items():
            if machine is None:
                continue
            results = [result for result in self.results if self.board_of(result.info) == board]
            own = {"machine": machine, "results": tuple(results), "machines": {}}
            runs.append(msgspec.structs.replace(self, **own))
        return runs


def file_name(path: Path) -> str:
    """Return the printable name of a run's file, as it was before it was compacted."""
    return printable(plain_name(path.name))


def outcome_of(stored: str, end: str) -> str:
    """Return the outcome of a result in a run with this end, see StoredRun.outcome_of."""
    return end if stored == CUT_OFF and end != FINISHED else stored


class BadFile(msgspec.Struct, frozen=True):
    """A file that could not be read, with the reason."""

    path: Path
    reason: Message

    @property
    def file(self) -> str:
        """The printable path."""
        return printable(str(self.path))

    @property
    def message(self) -> Message:
        """The problem and its remedy."""
        return Message("bad_file", {"file": self.file, "reason": self.reason})

    def __str__(self) -> str:
        """Return the message in English."""
        return str(self.message)


class _Benchmark(msgspec.Struct):
    extra_info: msgspec.Raw


class _Document(msgspec.Struct):
    """The parts of the file that are read; results are decoded later, as some may not be ours."""

    machine_info: msgspec.Raw
    commit_info: msgspec.Raw
    datetime: str
    benchmarks: list[_Benchmark]
    without_speed: list[_Benchmark] = msgspec.field(name=WITHOUT_SPEED, default_factory=list)
    programs: list[msgspec.Raw] = msgspec.field(name=PROGRAMS, default_factory=list)
    boards: dict[str, msgspec.Raw] = msgspec.field(name=BOARDS, default_factory=dict)
    unfinished: bool = msgspec.field(name=_UNFINISHED, default=False)


class _Schema(msgspec.Struct):
    schema: str = ""


class _SchemaUnknown(Exception):
    """The file is of another version of this project."""


def read_run_file(
    path: Path, positions: Container[int] | None = None
) -> StoredRun | BadFile | None:
    """Return the run, a BadFile if the file cannot be read, or None if it has no result of ours.

    With `positions` the run has only the results at these, counted from 0, and all programs. If the
    file has another form meanwhile, plain or compacted, the run has the path of that.
    """
    try:
        path, content = in_either_form(_content, str(path))
        return _stored_run(path, msgspec.json.decode(content, type=_Document), positions)
    except OSError as error:
        reason = Message("file_unreadable", {"error": error.strerror or str(error)})
    except _SchemaUnknown as error:
        reason = Message(
            "file_schema_unknown", {"schema": printable(str(error)), "known": ", ".join(_READ)}
        )
    except msgspec.ValidationError as error:
        reason = Message("file_invalid", {"error": printable(str(error))})
    # The file is no JSON, which only newer versions of msgspec raise as a ValueError, or the date
    # is invalid.
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        reason = Message("file_damaged", {"error": printable(str(error))})
    return BadFile(path, reason)


def _content(name: str) -> tuple[Path, bytes]:
    """Return the path, and the plain content of the file there."""
    path = Path(name)
    return path, decoded(name, read_regular(path, MOST_RUN_BYTES), MOST_RUN_BYTES)


def _stored_run(
    path: Path, document: _Document, positions: Container[int] | None
) -> StoredRun | None:
    results = []
    ours = (
        benchmark.extra_info
        for benchmark in (*document.benchmarks, *document.without_speed)
        if _kind(benchmark.extra_info) is Result
    )
    count = 0
    for position, raw in enumerate(ours):
        count += 1
        if positions is None or position in positions:
            results.append(StoredResult(decode_stored(raw, Result)))
    programs = [decode_stored(raw, Program) for raw in document.programs if _kind(raw) is Program]
    if not count and not programs:
        return None

    # pytest-benchmark writes UTC, without saying so.
    moment = datetime.datetime.fromisoformat(document.datetime)
    if moment.tzinfo:
        moment = moment.astimezone(datetime.timezone.utc)
    recorded_at = moment.isoformat()
    machine = decode_stored(document.machine_info, MachineInfo)
    machines = {
        board: None if bytes(facts) == _NULL else decode_stored(facts, MachineInfo)
        for board, facts in document.boards.items()
    }
    for stored in results:
        if stored.info.board and stored.info.board not in machines:
            raise ValueError(f"{BOARDS} lacks the board {stored.info.board!r} of a result")
    return StoredRun(
        path=path,
        recorded_at=recorded_at,
        machine=machine,
        commit=decode_stored(document.commit_info, Commit),
        results=tuple(results),
        programs=tuple(programs),
        machines=machines,
        end=_end_of_unfinished(path, machine) if document.unfinished else FINISHED,
        order=(recorded_at, run_number(path) or 0, plain_name(path.name)),
        is_dated=int(recorded_at[:4]) >= _FIRST_YEAR,
    )


def _end_of_unfinished(path: Path, machine: MachineInfo) -> str:
    """Return whether the run of a file without an end is being measured, as far as is known."""
    try:
        with path.open("rb") as file:
            # A shared lock does not disturb others who ask; a writer holds an exclusive one.
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return RUNNING
    except OSError:  # some network file systems have no locks
        return NO_END
    # A writer on another machine cannot be seen.
    return CUT_OFF if machine.reusebench.board == board_name() else NO_END


def _kind(raw: msgspec.Raw) -> type[Result | Program] | None:
    """Return the type of a stored object; None if its schema is not one of this project."""
    try:
        schema = msgspec.json.decode(raw, type=_Schema).schema
    except msgspec.ValidationError:
        return None
    if not schema.startswith(_OURS):
        return None
    if schema not in _READ:
        raise _SchemaUnknown(schema)
    return _READ[schema]


def check_storage(folder: Path) -> None:
    """Raise StorageError if there is no storage, or no right to read it."""
    name = printable(str(folder))
    try:
        os.scandir(folder).close()
    except (FileNotFoundError, NotADirectoryError):
        raise StorageError(
            f"no storage at {name}. Run `reusebench bench` first, or name another with"
            " --storage DIR"
        ) from None
    except OSError as error:
        raise StorageError(
            f"the storage {name} cannot be read ({error.strerror}). Give this user the right to"
            " read it, or name another with --storage DIR"
        ) from None


def read_storage(storage: Path) -> Iterator[StoredRun | BadFile]:
    """Yield every run of the storage, by number; skip files without results of ours."""
    unreadable: list[BadFile] = []
    paths = run_files(storage, unreadable)
    yield from unreadable

    clock = StorageClock()
    for path in paths:
        file = read_run_file(path)
        if isinstance(file, StoredRun):
            order, is_dated = clock.order(path, run_number(path), file.recorded_at, file.is_dated)
            yield msgspec.structs.replace(file, order=order, is_dated=is_dated)
        elif file is not None and is_there(path):
            yield file


class StorageClock:
    """The time of the runs of one storage, which come by number: a clock may be wrong."""

    def __init__(self) -> None:
        self._latest: str | None = None

    def order(
        self, path: Path, number: int | None, recorded_at: str, is_dated: bool
    ) -> tuple[RunOrder, bool]:
        """Return the order of the next run, and whether its date can be right.

        `number` is run_number(path). `is_dated` is what is known from the date alone.
        """
        name = plain_name(path.name)
        if number is None:
            return (recorded_at, 0, name), is_dated
        before = self._latest or recorded_at
        self._latest = max(before, recorded_at)
        # Dates are in one form: most are seen to be in order without being read.
        if recorded_at < before and _is_long_before(recorded_at, before):
            is_dated = False
        return (self._latest, number, name), is_dated


def is_there(path: Path) -> bool:
    """Whether the file, or a link to nothing, is still there."""
    try:
        in_either_form(os.lstat, str(path))
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _is_long_before(moment: str, other: str) -> bool:
    """Whether a moment precedes another by more than runs measured at once may be apart."""
    earlier = datetime.datetime.fromisoformat(moment).replace(tzinfo=None)
    later = datetime.datetime.fromisoformat(other).replace(tzinfo=None)
    return later - earlier > _MEASURED_AT_ONCE


def run_files(storage: Path, unreadable: list[BadFile] | None = None) -> list[Path]:
    """Return the files of the storage that may be runs, by number, each run once.

    Folders that cannot be read are added to `unreadable`; without that list they raise OSError.
    """

    def names_in(folder: Path) -> set[str]:
        try:
            # One listing alone may miss both forms of a file that changes its form meanwhile.
            return {*os.listdir(folder), *os.listdir(folder)}  # noqa: PTH208  for many files
        except (FileNotFoundError, NotADirectoryError):
            return set()
        except OSError as error:
            if unreadable is None:
                raise
            reason = Message("file_unreadable", {"error": error.strerror or str(error)})
            unreadable.append(BadFile(folder, reason))
            return set()

    runs = []
    # A storage has a folder for each version of Python.
    for folder_name in sorted(names_in(storage)):
        if folder_name in _WITHOUT_RUNS:
            continue
        folder = storage / folder_name
        for name in _runs_among(names_in(folder)):
            plain = plain_name(name)
            runs.append((_number_in(plain) or 0, plain, folder_name, name, folder))
    return [folder / name for _, _, _, name, folder in sorted(runs)]


def _runs_among(names: set[str]) -> Iterator[str]:
    """Yield the names of runs, and only the plain one of two forms."""
    for name in names:
        plain = plain_name(name)
        if not plain.endswith(".json") or plain.startswith(REMOVED):
            continue
        if plain == name or plain not in names:
            yield name


def _number_in(plain: str) -> int | None:
    numbered = _NUMBERED.fullmatch(plain)
    return int(numbered[1]) if numbered else None


def run_number(path: Path) -> int | None:
    """Return the number in the name of a run's file; None if there is none."""
    return _number_in(plain_name(path.name))


def run_stem(path: Path) -> str:
    """Return the name of a run's file without its endings."""
    return Path(plain_name(path.name)).stem


def storages_in(folder: Path) -> list[Path]:
    """Return the folder itself if it is a storage, otherwise the storages of all boards in it."""
    if _has_runs(folder):
        return [folder]
    boards = [folder / name for name in sorted(_listed(folder)) if _has_runs(folder / name)]
    return boards or [folder]


def _has_runs(storage: Path) -> bool:
    return any(
        _RUN.fullmatch(name)
        for folder in _listed(storage)
        if folder not in _WITHOUT_RUNS
        for name in _listed(storage / folder)
    )


def _listed(folder: Path) -> list[str]:
    """Return the names in the folder; none if it is no folder, or cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208  a glob takes five times as long
    except OSError:
        return []


class RunWriter:
    """A writer of one run to `STORAGE/PYTHON/NNNN_name.json`, again and again while it grows.

    The file is always replaced as a whole: a reader, also after a power cut, sees its former or its
    new content. Runs that are written at the same time have different numbers, whatever their
    names. A method that raises OSError leaves the file as it was.
    """

    def __init__(self, storage: Path, name: str) -> None:
        """Take the storage and the run's name; raise ValueError if no file can have that name."""
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
        #: Set with the first write, which takes the number.
        self.path: Path | None = None
        #: Descriptor of the last file written, which stays locked while there is more to come.
        self._held: int | None = None

    def write(self, document: dict[str, Any], finished: bool = True) -> Path:
        """Write the run and return its path.

        `document` is pytest-benchmark's; its values may be msgspec.Raw.
        """
        if not finished:
            document = {**document, _UNFINISHED: True}
        content = encoded(document)
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
    """Whether the file at this path inside the storage is the beginning of a run, or empty."""
    with open_inside(storage, relative) as file:
        return _BEGINNING.startswith(file.read(len(_BEGINNING)))


def is_written(storage: Path, relative: str) -> bool:
    """Whether the file at this path inside the storage has a live writer.

    False on a network file system without locks.
    """
    with open_inside(storage, relative) as file:
        return not _lock(file.fileno())


def _lock(descriptor: int) -> bool:
    """Lock the file as long as it is open; return False if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        pass
    return True


def save_run(storage: Path, document: dict[str, Any], name: str) -> Path:
    """Write a finished run and return its path."""
    return RunWriter(storage, name).write(document)


def _claim(storage: Path, path: Path | None) -> tuple[int, Path]:
    """Return the run's number, and the unfinished file to write into.

    A run without a `path` gets the next number. Only one writer can create the file of a number.
    It then lists the numbers again: another writer may have taken this one and be done already.
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
    return {run_number(path) or 0 for path in run_files(storage)}


def _sync_names(folder: Path) -> None:
    """Write the names in the folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems cannot do this; the file is there all the same.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@functools.cache
def python_folder() -> str:
    """Return pytest-benchmark's name of this Python's folder.

    It is cached since `platform` runs a process to find the architecture.
    """
    version = ".".join(platform.python_version_tuple()[:2])
    bits = platform.architecture()[0]
    return f"{platform.system()}-{platform.python_implementation()}-{version}-{bits}"


def encoded(value: object) -> bytes:
    """Return a part of a run as JSON, as pytest-benchmark would write it."""
    return msgspec.json.encode(value, enc_hook=_placeholder)


def _placeholder(value: Any) -> str:
    """Return pytest-benchmark's placeholder for a value that JSON cannot represent."""
    return f"UNSERIALIZABLE[{value!r}]"
