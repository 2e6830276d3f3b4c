"""A program that `python -m samplers record` measured, as it is stored: names, units, schema."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastjsonschema

__all__ = ["PROGRAM_MEMORY", "PROGRAM_SCHEMA", "InvalidProgram", "Recorded", "build_program", "check_program"]

#: Version of the stored form. 1: the first.
PROGRAM_SCHEMA = "reusebench-program-1"
_SCHEMA_FILE = Path(__file__).parent / "schema" / "program-1.json"

#: The figures of a phase, each with one value per repeat; docs/record.md defines them.
PROGRAM_MEMORY = (
    "application_memory_bytes",
    "application_uss_bytes",
    "application_rss_bytes",
    "application_peak_rss_bytes",
    "process_peak_rss_bytes",
    "system_memory_bytes",
    "system_memory_over_idle_bytes",
    "npu_memory_bytes",
)


class InvalidProgram(ValueError):
    """A recorded program does not have the form of the schema."""


@dataclass(frozen=True)
class Recorded:
    """One repeat: what there is to say of it, and its phases by name in order."""

    #: The fields of an entry of `repeats` in the schema.
    facts: Mapping[str, Any]
    #: Of each phase "duration_ns", "pss_readings" and "memory", with a value or None by the names of PROGRAM_MEMORY.
    phases: Mapping[str, Mapping[str, Any]]


def build_program(identity: Mapping[str, Any], outcome: str, repeats: Sequence[Recorded]) -> dict[str, Any]:
    """Return the stored form; `identity` has `run`, `name`, `command`, `attached` and `sample_hz`.

    `outcome` is "ok", or what happened to the last repeat, in the words of the results of scenarios.
    """
    names = list(dict.fromkeys(name for repeat in repeats for name in repeat.phases))
    return {
        "schema": PROGRAM_SCHEMA,
        **identity,
        "outcome": outcome,
        "repeats": [dict(repeat.facts) for repeat in repeats],
        "phases": [_phase(name, [repeat.phases.get(name) for repeat in repeats]) for name in names],
    }


def check_program(info: Mapping[str, Any]) -> None:
    """Raise InvalidProgram where the recorded program is not of the schema."""
    found = info.get("schema")
    if found != PROGRAM_SCHEMA:
        raise InvalidProgram(f"schema {found!r} is not supported by this version, which reads {PROGRAM_SCHEMA!r}")
    try:
        _validator()(info)
    except fastjsonschema.JsonSchemaValueException as error:
        place = str(error.name).replace("data", "the program", 1)
        raise InvalidProgram(f"not a valid {PROGRAM_SCHEMA}: {place}: {error.message[:200]}") from None


def _phase(name: str, repeats: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return a phase with a value for each repeat, None where the repeat did not go through it."""
    return {
        "name": name,
        "durations_ns": [each["duration_ns"] if each else None for each in repeats],
        "pss_readings": [each["pss_readings"] if each else 0 for each in repeats],
        "memory": {key: [each["memory"][key] if each else None for each in repeats] for key in PROGRAM_MEMORY},
    }


@functools.lru_cache(maxsize=1)
def _validator() -> Callable[[Mapping[str, Any]], Any]:
    validator: Callable[[Mapping[str, Any]], Any] = fastjsonschema.compile(
        json.loads(_SCHEMA_FILE.read_text(encoding="utf-8")), use_default=False
    )
    return validator
