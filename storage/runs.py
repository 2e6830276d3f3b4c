"""Runs in short: of each stored file what comparisons, histories and lists need, and nothing else of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.files import BadFile, StoredFile, read_file, run_files
from storage.metrics import METRICS
from storage.parallel import side_by_side

__all__ = ["CONDITIONS", "RECOVERED", "Configuration", "Measured", "Run", "read_run", "read_runs", "run_of"]

#: What should be equal before two figures of one configuration are compared.
CONDITIONS = ("board", "chip", "runtime_version", "driver_version", "python_version", "models", "plan")
#: pytest-benchmark's file names: a number, and a name; the harness's own names are dates.
_FILE_NAME = re.compile(r"(?P<number>\d+)_(?P<name>.+)")
#: End of the name of a run whose session was cut off: it is none of the runs of the session's name.
RECOVERED = "-recovered"
#: What pytest-benchmark calls a commit that is none.
_NO_COMMITS = ("unversioned", "unknown")
_DATE = re.compile(rf"\d{{8}}_\d{{6}}({RECOVERED})?")
#: Digits of a digest that tell two plans apart, and of a commit's id that are shown.
_DIGITS, _COMMIT_DIGITS = 12, 10


@dataclass(frozen=True, order=True)
class Configuration:
    """What was measured, as a user names it: results of one configuration in several runs make a series."""

    #: A runtime, or "program" for what `python -m samplers record` measured.
    runtime: str
    #: Where it ran.
    target: str
    #: The scenario's or the program's name.
    name: str
    #: Streams and contexts of each, "4 x 3"; of a program the phase.
    detail: str
    #: The models' names, each once.
    models: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it in one line; of several models the first, and how many more there are."""
        where = "" if self.target == "python" else f" on {self.target}"
        more = f" +{len(self.models) - 1}" if len(self.models) > 1 else ""
        models = f", {self.models[0]}{more}" if self.models else ""
        return f"{self.runtime}{where} {self.name} ({self.detail}{models})"


@dataclass(frozen=True)
class Measured:
    """One configuration in one run."""

    configuration: Configuration
    #: By each of CONDITIONS; None where it is not known or does not apply.
    conditions: Mapping[str, str | None]
    #: "ok", or what happened in place of a measurement.
    outcome: str
    #: By the name of the metric: a value for each repeat that gave one. Metrics without values are left out; there are
    #: none at all where the outcome is not "ok".
    values: Mapping[str, tuple[float, ...]]
    #: How busy the machine was with other work before the processes started, at most.
    busy_percent: float = 0.0


@dataclass(frozen=True)
class Run:
    """One stored file."""

    path: Path
    #: The number and the name that its file has; None where it is called otherwise.
    number: int | None
    name: str
    #: ISO 8601, UTC.
    recorded_at: str
    board: str
    commit: str | None
    #: Whether the commit's files had been changed.
    is_dirty: bool
    measured: tuple[Measured, ...]

    @property
    def is_named(self) -> bool:
        """Whether a user gave it its name."""
        return not _DATE.fullmatch(self.name)

    @property
    def moment(self) -> str:
        """When it was recorded, to the minute, UTC."""
        return self.recorded_at[:16].replace("T", " ")

    @property
    def short_commit(self) -> str:
        """The start of its commit's id, and whether files had been changed after it; empty where there is none."""
        return f"{self.commit[:_COMMIT_DIGITS]}{' changed' if self.is_dirty else ''}" if self.commit else ""

    def __str__(self) -> str:
        """Return what a table calls it."""
        return self.path.stem


def read_runs(storage: Path) -> Iterator[Run | BadFile]:
    """Yield every run of the storage, by number; files without results of ours are passed over."""
    yield from filter(None, side_by_side(_read, run_files(storage)))


def read_run(path: Path) -> Run | BadFile:
    """Return the file's run, or what is wrong with it."""
    return _read(path) or BadFile(path, "there are no results of ours in it")


def run_of(file: StoredFile) -> Run:
    """Return the run in short."""
    named = _FILE_NAME.fullmatch(file.path.stem)
    board = str(file.machine["reusebench"]["board"])
    scenarios = [_of_scenario(result.info, board) for result in file.results]
    programs = [each for program in file.programs for each in _of_program(program, board)]
    return Run(
        path=file.path,
        number=int(named["number"]) if named else None,
        name=named["name"] if named else file.path.stem,
        recorded_at=file.recorded_at,
        board=board,
        commit=None if file.commit.get("id") in _NO_COMMITS else file.commit.get("id"),
        is_dirty=bool(file.commit.get("dirty")),
        measured=(*scenarios, *programs),
    )


def _read(path: Path) -> Run | BadFile | None:
    """Return the run in short; None where nothing of it is ours."""
    found = read_file(path, ())
    if isinstance(found, BadFile):
        return found
    return run_of(found) if found.is_ours else None


def _of_scenario(info: Mapping[str, Any], board: str) -> Measured:
    names = tuple(dict.fromkeys(str(model["name"]) for model in info["models"]))
    detail = f"{info['streams']} x {info['contexts']}"
    conditions = {name: info.get(name) for name in CONDITIONS}
    models = [model["digest"] for model in info["models"]]
    conditions.update(board=board, models=_digest(models), plan=_digest(_plan(info["plan"])))
    configuration = Configuration(info["runtime"], info["target"], info["scenario"], detail, names)
    values = _values(info) if info["outcome"] == "ok" else {}
    busy_percent = max(info["speed"]["idle_cpu_percent"], default=0.0)
    return Measured(configuration, conditions, info["outcome"], values, busy_percent)


def _of_program(info: Mapping[str, Any], board: str) -> Iterator[Measured]:
    """Yield the phases of a program, each a configuration of its own."""
    conditions = {**dict.fromkeys(CONDITIONS), "board": board}
    for phase in info["phases"]:
        configuration = Configuration("program", "python", info["name"], phase["name"])
        yield Measured(configuration, conditions, info["outcome"], _values(phase) if info["outcome"] == "ok" else {})


def _values(figures: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return the values of every metric that there are any of."""
    found = {metric.name: metric.values(figures) for metric in METRICS}
    return {name: values for name, values in found.items() if values}


def _plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a plan is the same on every machine, whatever the files of its models and where its video is."""
    common = {key: value for key, value in plan.items() if key not in ("models", "runtime", "schedule")}
    schedule = plan.get("schedule")
    # Plans that were stored before there were schedules lack it.
    return {**common, "schedule": _schedule(schedule)} if schedule else common


def _schedule(schedule: Mapping[str, Any]) -> dict[str, Any]:
    video = schedule["video"]
    return {**schedule, "video": {key: value for key, value in video.items() if key != "path"} if video else None}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]
