"""Which runtime has which mechanism, found by trying: the newest trial of each runtime, in one file of the storage."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jsonschema

__all__ = ["VERDICTS", "RuntimeTrials", "Trial", "read_trials", "write_trials"]

_FILE = "mechanisms.json"
_SCHEMA = "reusebench-mechanisms-1"
_SCHEMA_FILE = Path(__file__).parent / "schema" / "mechanisms-1.json"

#: What a trial may come to.
VERDICTS = ("works", "saves_nothing", "not_supported", "fails")


@dataclass(frozen=True)
class Trial:
    """One mechanism tried on a small model."""

    #: The scenario that shows the mechanism.
    scenario: str
    #: One of VERDICTS.
    verdict: str
    #: Why it saves nothing, is not supported or fails; empty where it works.
    reason: str
    #: Median saving against the scenario's baseline, and half the range of both together; None where not measured.
    saved_bytes: int | None = None
    spread_bytes: int | None = None
    #: What the baseline takes over a process that only imported the runtime; of NPU memory, all of it.
    whole_bytes: int | None = None
    #: "application" or "npu": which memory the figures are of.
    memory: str = "application"
    #: Bytes that one inference of one context copies less than in the baseline.
    copies_avoided_bytes: int | None = None
    #: Of a scenario that takes as many mechanisms together as there are: the scenarios that show each of them.
    combined: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuntimeTrials:
    """What one runtime on one target was seen to have."""

    runtime: str
    runtime_version: str | None
    target: str
    python_version: str | None
    chip: str | None
    #: ISO 8601, UTC.
    recorded_at: str
    #: In the order of the scenarios.
    trials: tuple[Trial, ...]


def write_trials(storage: Path, tried: RuntimeTrials) -> Path:
    """Write the trials in place of older ones of the same runtime, version and target; return the file's path."""
    others = [each for each in read_trials(storage) if _identity(each) != _identity(tried)]
    path = storage / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"schema": _SCHEMA, "runtimes": [asdict(each) for each in (*others, tried)]}
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(json.dumps(content, indent=1), encoding="utf-8")
    unfinished.replace(path)
    return path


def read_trials(storage: Path) -> list[RuntimeTrials]:
    """Return the stored trials, the newest last; none where there is no file, or it is damaged: it is made again."""
    try:
        content = json.loads((storage / _FILE).read_text(encoding="utf-8"))
        jsonschema.validate(content, json.loads(_SCHEMA_FILE.read_text(encoding="utf-8")))
    except (OSError, ValueError, jsonschema.ValidationError):
        return []
    return [_from_json(each) for each in content["runtimes"]]


def _from_json(data: dict[str, Any]) -> RuntimeTrials:
    trials = tuple(Trial(**{**trial, "combined": tuple(trial["combined"])}) for trial in data["trials"])
    return RuntimeTrials(**{**data, "trials": trials})


def _identity(tried: RuntimeTrials) -> tuple[str | None, ...]:
    return tried.runtime, tried.runtime_version, tried.target
