"""What was tried is one file of the storage: the newest trial of each runtime, version and target."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from storage.mechanisms import VERDICTS, RuntimeTrials, Trial, read_trials, write_trials

_WORKS = Trial("lean", "works", "", 5, 1, 10, "npu", 3, ("full_dup", "zero_copy_io"))
_TRIED = RuntimeTrials(
    runtime="onnxruntime",
    runtime_version="1.31.1",
    target="python",
    python_version="3.11.7",
    chip=None,
    recorded_at="2026-11-21T15:00:00+00:00",
    trials=(Trial("full_dup", "not_supported", "there is no dup"), _WORKS),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """In a storage that need not be there yet, and with every verdict there is."""
    storage = tmp_path / "storage"
    assert read_trials(storage) == []
    every = replace(_TRIED, trials=(*(Trial("full_dup", verdict, "why") for verdict in VERDICTS), _WORKS))
    path = write_trials(storage, every)
    assert path.parent == storage
    assert read_trials(storage) == [every]
    assert [each.name for each in storage.iterdir()] == [path.name]


def test_the_newest_trial_of_each_stays(tmp_path: Path) -> None:
    """One of the same runtime, version and target takes the place of the older one; the others stay."""
    others = [replace(_TRIED, runtime="rknn"), replace(_TRIED, runtime_version="1"), replace(_TRIED, target="board")]
    newer = replace(_TRIED, recorded_at="2026-11-22T15:00:00+00:00", trials=(), python_version="3.12.0")
    for tried in (_TRIED, *others, newer):
        write_trials(tmp_path, tried)
    assert read_trials(tmp_path) == [*others, newer]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema": "reusebench-mechanisms-1"}', "\x00"])
def test_a_damaged_file_is_as_none(tmp_path: Path, damage: str) -> None:
    """It is made again by the next trial."""
    path = write_trials(tmp_path, _TRIED)
    path.write_text(damage)
    assert read_trials(tmp_path) == []
    write_trials(tmp_path, _TRIED)
    assert read_trials(tmp_path) == [_TRIED]


def test_another_version_of_the_form_is_not_read(tmp_path: Path) -> None:
    """Names and meanings may be others there."""
    path = write_trials(tmp_path, _TRIED)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "schema": "reusebench-mechanisms-2"}))
    assert read_trials(tmp_path) == []


def test_an_unknown_verdict_is_not_read(tmp_path: Path) -> None:
    """The schema holds what a verdict may be."""
    write_trials(tmp_path, replace(_TRIED, trials=(Trial("full_dup", "perhaps", ""),)))
    assert read_trials(tmp_path) == []
