"""Recorded programs in the storage."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storage.files import PROGRAMS, BadFile, StoredFile, read_storage

from storage.program import PROGRAM_MEMORY, InvalidProgram, build_program, check_program
from storage.runs import run_of
from tests.reports.stored_programs import program, repeat, write_programs


def test_phases_have_a_value_for_each_repeat() -> None:
    """A repeat that did not go through a phase has none there; phases stand in the order in which they first came."""
    info = program("pipeline", [repeat({"load": 10, "steady": 20}), repeat({"load": 11, "flush": 5})])
    check_program(info)
    assert [phase["name"] for phase in info["phases"]] == ["load", "steady", "flush"]
    of_phase = {phase["name"]: phase for phase in info["phases"]}
    assert of_phase["steady"]["durations_ns"][1] is None
    assert of_phase["flush"]["memory"]["application_memory_bytes"] == [None, 5 * 2**20]
    assert all(len(values) == 2 for phase in info["phases"] for values in phase["memory"].values())
    assert set(of_phase["load"]["memory"]) == set(PROGRAM_MEMORY)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda info: info.update(schema="reusebench-program-9"), "is not supported by this version"),
        (lambda info: info.update(outcome="hung"), "outcome"),
        (lambda info: info.update(repeats=[]), "repeats"),
        (lambda info: info["phases"][0]["memory"].pop("npu_memory_bytes"), "npu_memory_bytes"),
        (lambda info: info["phases"][0]["memory"].update(npu_memory_bytes=["much"]), "npu_memory_bytes"),
        (lambda info: info.update(remark="mine"), "remark"),
    ],
)
def test_what_is_not_of_the_schema_is_refused(
    change: Callable[[dict[str, Any]], Any], said: str, tmp_path: Path
) -> None:
    """The message says what is wrong; a storage names the file and leaves it out."""
    info = copy.deepcopy(program("pipeline", [repeat({"run": 10})]))
    change(info)
    with pytest.raises(InvalidProgram, match=said):
        check_program(info)
    path = write_programs(tmp_path, [program("other", [repeat({"run": 1})])])
    path.write_text(json.dumps({**json.loads(path.read_text()), PROGRAMS: [info]}))
    (bad,) = read_storage(tmp_path)
    assert isinstance(bad, BadFile)
    assert said in str(bad)


def test_a_program_that_failed_enters_no_comparison(tmp_path: Path) -> None:
    """Its run is known, with what happened and without values."""
    repeats = [repeat({"run": 10}), repeat({"run": 3})]
    write_programs(tmp_path, [program("pipeline", repeats, outcome="crashed"), program("other", repeats)])
    (file,) = read_storage(tmp_path)
    assert isinstance(file, StoredFile)
    crashed, other = run_of(file).measured
    assert (crashed.outcome, crashed.values) == ("crashed", {})
    assert other.values["application_memory"] == (10 * 2**20, 3 * 2**20)
    assert str(other.configuration) == "program other (run)"


def test_identity_is_stored_as_it_is() -> None:
    """What the recorder says of the whole is at the top."""
    identity = {"run": "r", "name": "n", "command": ["n"], "attached": True, "sample_hz": 20}
    info = build_program(identity, "ok", [repeat({"run": 1})])
    assert {key: info[key] for key in identity} == identity
