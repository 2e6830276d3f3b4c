"""Stored files: what is in a storage, checked against the schema, and what is wrong with the files that are not.

A file is pytest-benchmark's JSON. Results with latencies are the `extra_info` of its benchmarks, whose `stats` are
those of the latencies. Results without, failures and those of a target that computes nothing, stand in its top-level
`reusebench_without_speed`.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fastjsonschema
import jsonschema

from storage.parallel import side_by_side
from storage.program import check_program
from storage.result import SCHEMA
from storage.writing import run_number

__all__ = [
    "PROGRAMS",
    "WITHOUT_SPEED",
    "BadFile",
    "InvalidResult",
    "StoredFile",
    "StoredResult",
    "check_result",
    "read_file",
    "read_storage",
    "run_files",
    "storages_in",
    "why_unreadable",
]

#: Top-level key of the results without latencies, which pytest-benchmark itself would leave out.
WITHOUT_SPEED = "reusebench_without_speed"
#: Top-level key of the programs that `python -m samplers record` measured.
PROGRAMS = "reusebench_programs"
#: Files of runs in a storage. Their names begin with a number; those of other files, a board's trials too, do not.
_RUNS = "*/[0-9]*.json"
_SCHEMA_FILE = Path(__file__).parent / "schema" / "result-1.json"


#: Plans and machines are mostly the same from run to run, and would take a third of the memory.
_known: dict[tuple[str, ...], Any] = {}


class InvalidResult(ValueError):
    """A result does not have the form of the schema."""


@dataclass(frozen=True)
class StoredResult:
    """One configuration of one run."""

    #: extra_info; of the phases between the import and the steady one only the names.
    info: dict[str, Any]
    #: pytest-benchmark's statistics of the latencies in seconds; None without latencies.
    stats: dict[str, Any] | None


@dataclass(frozen=True)
class StoredFile:
    """One run: a file that could be read."""

    path: Path
    #: ISO 8601, UTC.
    recorded_at: str
    machine: dict[str, Any]
    commit: dict[str, Any]
    results: tuple[StoredResult, ...]
    #: Programs that are not ours, in the form of schema/program-1.json.
    programs: tuple[dict[str, Any], ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether there is anything of ours in it."""
        return bool(self.results or self.programs)


@dataclass(frozen=True)
class BadFile:
    """A file that could not be read, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        """Return what is wrong and what to do."""
        return f"{self.path}: {self.reason}; it is left out. Move it away or delete it"


def check_result(info: dict[str, Any]) -> None:
    """Raise InvalidResult where the result is not of the schema."""
    if info.get("schema") != SCHEMA:
        raise InvalidResult(f"schema {info.get('schema')!r} is not supported by this version, which reads {SCHEMA!r}")
    try:
        _quick_validator()(info)
    except fastjsonschema.JsonSchemaValueException:
        _refuse(info)


def read_storage(storage: Path, phases: Container[str] | None = None) -> Iterator[StoredFile | BadFile]:
    """Yield every run of the storage, by number; files without results of ours are passed over.

    The readings of all phases take two thirds of the memory: of phases other than those named only the names are kept.
    """
    for found in side_by_side(partial(read_file, phases=phases), run_files(storage)):
        if isinstance(found, BadFile) or found.is_ours:
            yield found


def run_files(storage: Path) -> list[Path]:
    """Return the files of the storage that may be runs, by number."""
    return sorted(storage.glob("*/*.json"), key=lambda path: (run_number(path) or 0, path.name))


def storages_in(folder: Path) -> list[Path]:
    """Return the storage of one board: the folder itself; or those of all boards inside it."""
    boards = sorted({path.parent.parent for path in folder.glob(f"*/{_RUNS}")})
    return boards if boards and not any(folder.glob(_RUNS)) else [folder]


def read_file(path: Path, phases: Container[str] | None = None) -> StoredFile | BadFile:
    """Return the file's run, with the readings of these phases, or what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return _stored_file(path, data, phases)
    except (OSError, ValueError) as error:
        return BadFile(path, why_unreadable(error))
    except (KeyError, TypeError, AttributeError):
        return BadFile(path, "not a file of pytest-benchmark")


def why_unreadable(error: OSError | ValueError) -> str:
    """Return the reason of a BadFile."""
    if isinstance(error, InvalidResult):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        damage = f"cut short or damaged at character {error.pos:,} of {len(error.doc):,}" if error.doc else "empty"
        return f"cannot be read (it is {damage})"
    return f"cannot be read ({error})"


def _stored_file(path: Path, data: dict[str, Any], phases: Container[str] | None) -> StoredFile:
    measured = [StoredResult(each["extra_info"], each["stats"]) for each in data["benchmarks"] if _is_ours(each)]
    others = [StoredResult(each["extra_info"], None) for each in data.get(WITHOUT_SPEED, ())]
    for result in (*measured, *others):
        check_result(result.info)
        if phases is not None:
            _forget_other_phases(result.info, phases)
        result.info["plan"] = _once((result.info["runtime"], result.info["scenario"]), result.info["plan"])
    programs = tuple(data.get(PROGRAMS, ()))
    for program in programs:
        check_program(program)
    machine, when = data["machine_info"], data["datetime"]
    if measured or others or programs:
        _check_origin(machine, when)
    return StoredFile(path, when, _once(("machine",), machine), data["commit_info"], (*measured, *others), programs)


def _check_origin(machine: dict[str, Any], when: Any) -> None:
    """Raise InvalidResult where the run does not say on which board it was, or when."""
    if not isinstance(machine.get("reusebench", {}).get("board"), str):
        raise InvalidResult("it does not say of which board it is")
    try:
        datetime.datetime.fromisoformat(when)
    except (TypeError, ValueError):
        raise InvalidResult(f"its date {when!r} is none") from None


def _is_ours(benchmark: dict[str, Any]) -> bool:
    return str(benchmark["extra_info"].get("schema", "")).startswith("reusebench-result-")


def _once(of: tuple[str, ...], value: Any) -> Any:
    """Return the value, as one object with the last one of the same thing where they are equal."""
    if _known.get(of) != value:
        _known[of] = value
    return _known[of]


def _forget_other_phases(info: dict[str, Any], phases: Container[str]) -> None:
    for repeat in info["repeats"]:
        repeat["phases"] = {name: each if name in phases else {} for name, each in repeat["phases"].items()}


def _refuse(info: dict[str, Any]) -> None:
    """Raise InvalidResult with the place and the words of the schema's reference implementation, which is slow."""
    schema = _schema()
    error = next(jsonschema.validators.validator_for(schema)(schema).iter_errors(info), None)
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path) or "the result"
        raise InvalidResult(f"not a valid {SCHEMA}: {place}: {error.message[:200]}")


@functools.lru_cache(maxsize=1)
def _quick_validator() -> Callable[[dict[str, Any]], Any]:
    """Return the schema as a function, made once: it takes a fortieth of the time, and hardly says what is wrong."""
    validator: Callable[[dict[str, Any]], Any] = fastjsonschema.compile(_schema(), use_default=False)
    return validator


def _schema() -> Any:
    return json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
