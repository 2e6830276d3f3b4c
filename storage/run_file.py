"""A run on disk: one file of pytest-benchmark's JSON, complete at any moment.

Results with latencies are the `extra_info` of its benchmarks, whose `stats` are those of the latencies. Results
without, failures and those of a target that computes nothing, stand in its top-level `reusebench_without_speed`,
recorded programs in `reusebench_programs`. While it is being measured it has `reusebench_unfinished`.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import msgspec

from messages import Message
from samplers.readings import Environment
from storage.program import PROGRAM_SCHEMA, Program
from storage.result import SCHEMA, Result

__all__ = [
    "PROGRAMS",
    "UNFINISHED_NAME",
    "WITHOUT_SPEED",
    "BadFile",
    "Commit",
    "LatencyStats",
    "MachineInfo",
    "RunWriter",
    "StoredResult",
    "StoredRun",
    "python_folder",
    "read_run_file",
    "read_storage",
    "run_files",
    "run_number",
    "save_run",
    "storages_in",
]

#: Top-level keys beside those of pytest-benchmark.
WITHOUT_SPEED, PROGRAMS, _UNFINISHED = "reusebench_without_speed", "reusebench_programs", "reusebench_unfinished"
#: Schemas that are read; of later ones nothing is known.
_READ = {SCHEMA: Result, "reusebench-result-1": Result, PROGRAM_SCHEMA: Program}
_OURS = "reusebench-"
#: The file that is being written: it is beside the folders of runs, and keeps the number for its writer.
UNFINISHED_NAME = re.compile(r"\.(\d+)\.unfinished")
_NUMBERED = re.compile(r"(\d+)_.+\.json")
#: Files of runs in a storage, each in the folder of a Python's version.
_RUNS = "*/[0-9]*.json"
#: What pytest-benchmark does not allow in --benchmark-save.
_NOT_IN_NAMES = r"\/:*?<>|"


class LatencyStats(msgspec.Struct, frozen=True):
    """Of pytest-benchmark's statistics of the latencies, in seconds."""

    median: float


class MachineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Of pytest-benchmark's facts of the machine those that are shown, and ours."""

    reusebench: Environment
    system: str = ""
    release: str = ""
    machine: str = ""
    python_version: str = ""
    cpu: dict[str, Any] = {}


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

    @property
    def board(self) -> str:
        """The board that it was measured on."""
        return self.machine.reusebench.board


class BadFile(msgspec.Struct, frozen=True):
    """A file that could not be read, and why."""

    path: Path
    reason: Message

    @property
    def message(self) -> Message:
        """What is wrong and what to do."""
        return Message("bad_file", {"file": str(self.path), "reason": self.reason})

    def __str__(self) -> str:
        """Return it in English."""
        return str(self.message)


class _Benchmark(msgspec.Struct):
    extra_info: msgspec.Raw
    stats: Optional[LatencyStats] = None


class _Document(msgspec.Struct):
    """The parts of the file that are read; results are checked one by one, since some may not be ours."""

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
    """Return the file's run, what is wrong with it, or None where there is nothing of ours in it."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
        results = [*_results(document.benchmarks), *_results(document.without_speed)]
        programs = [program for raw in document.programs if isinstance(program := _ours(raw), Program)]
        if not results and not programs:
            return None
        datetime.datetime.fromisoformat(document.datetime)
        return StoredRun(
            path=path,
            recorded_at=document.datetime,
            machine=msgspec.json.decode(document.machine_info, type=MachineInfo),
            commit=msgspec.json.decode(document.commit_info, type=Commit),
            results=tuple(results),
            programs=tuple(programs),
            is_finished=not document.unfinished,
        )
    except OSError as error:
        reason = Message("file_unreadable", {"error": error.strerror or str(error)})
    except _SchemaUnknown as error:
        reason = Message("file_schema_unknown", {"schema": str(error), "known": ", ".join(_READ)})
    except msgspec.ValidationError as error:
        reason = Message("file_invalid", {"error": str(error)})
    # No JSON, which is a ValueError in newer msgspec alone; or no date.
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        reason = Message("file_damaged", {"error": str(error)})
    return BadFile(path, reason)


def _results(benchmarks: list[_Benchmark]) -> Iterator[StoredResult]:
    for benchmark in benchmarks:
        info = _ours(benchmark.extra_info)
        if isinstance(info, Result):
            yield StoredResult(info, benchmark.stats)


def _ours(raw: msgspec.Raw) -> Result | Program | None:
    """Return what is stored under one of our schemas; None where it is somebody else's."""
    try:
        schema = msgspec.json.decode(raw, type=_Schema).schema
    except msgspec.ValidationError:
        return None
    if not schema.startswith(_OURS):
        return None
    if schema not in _READ:
        raise _SchemaUnknown(schema)
    stored: Result | Program = msgspec.json.decode(raw, type=_READ[schema])
    return stored


def read_storage(storage: Path) -> Iterator[StoredRun | BadFile]:
    """Yield every run of the storage, by number; files without results of ours are passed over."""
    yield from filter(None, map(read_run_file, run_files(storage)))


def run_files(storage: Path) -> list[Path]:
    """Return the files of the storage that may be runs, by number."""
    return sorted(storage.glob("*/*.json"), key=lambda path: (run_number(path) or 0, path.name))


def run_number(path: Path) -> int | None:
    """Return the number that a run's file has; None where it is called otherwise."""
    numbered = _NUMBERED.fullmatch(path.name)
    return int(numbered[1]) if numbered else None


def storages_in(folder: Path) -> list[Path]:
    """Return the storage of one board: the folder itself; or those of all boards inside it."""
    boards = sorted({path.parent.parent for path in folder.glob(f"*/{_RUNS}")})
    return boards if boards and not any(folder.glob(_RUNS)) else [folder]


class RunWriter:
    """Writes a run as `STORAGE/PYTHON/NNNN_name.json`, again and again while it grows.

    The file is always replaced as a whole: a reader, also after a power cut, sees its former or its new content. Runs
    that are written at the same time have different numbers, whatever their names. Raises OSError where it cannot be
    written; the file is then as it was before.
    """

    def __init__(self, storage: Path, name: str) -> None:
        """Take the storage and the run's name; ValueError where no file can have it."""
        if not name or set(name) & set(_NOT_IN_NAMES):
            valid = f"valid: one character or more, none of {_NOT_IN_NAMES}"
            raise ValueError(f"{name!r} cannot be the name of a run; {valid}")
        self._storage, self._name = storage, name
        #: Once the number is taken.
        self.path: Path | None = None

    def write(self, document: dict[str, Any], finished: bool = True) -> Path:
        """Write the run and return its path; `document` is pytest-benchmark's, values may be msgspec.Raw."""
        content = msgspec.json.encode(document if finished else {**document, _UNFINISHED: True}, enc_hook=_unknown)
        folder = self._storage / python_folder()
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        number, unfinished = _claim(self._storage, self.path)
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self.path = unfinished.rename(folder / f"{number:04}_{self._name}.json")
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        for changed in (folder, self._storage, *(path.parent for path in new[1:])):
            _sync_names(changed)
        return self.path


def save_run(storage: Path, document: dict[str, Any], name: str) -> Path:
    """Write a run that is done and return its path."""
    return RunWriter(storage, name).write(document)


def _claim(storage: Path, path: Path | None) -> tuple[int, Path]:
    """Return a run's number and the file to write into; with no file yet the next number, which no other writer gets.

    Only one writer can make that file. It then looks at the numbers again: another one may have had this and be done.
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
    return {run_number(path) or 0 for path in storage.glob("*/*.json")}


def _sync_names(folder: Path) -> None:
    """Write the names in the folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems cannot; the file is there all the same.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def python_folder() -> str:
    """Return the name of this Python's folder, which is pytest-benchmark's."""
    version = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.system()}-{platform.python_implementation()}-{version}-{platform.architecture()[0]}"


def _unknown(value: Any) -> str:
    """Return what pytest-benchmark writes for what JSON has no form for."""
    return f"UNSERIALIZABLE[{value!r}]"
