"""Storages: what is read from them, and what is said of files that cannot be."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import fastjsonschema
import pytest
from storage.files import WITHOUT_SPEED, BadFile, InvalidResult, StoredFile, check_result, read_storage
from storage.writing import save_run

from storage import files
from storage.result import Configuration, build_result
from tests.reports.stored import even, result, write_run
from tests.support import make_plan

_FAILURE = {"kind": "hung", "phase": "prepare", "context": None, "message": "no answer", "last_words": ""}
_MACHINE = {"reusebench": {"board": "board-123456"}}


def _info() -> dict[str, Any]:
    plan = make_plan("full_dup", "model.onnx")
    result = build_result(Configuration(plan, "python", 1, 2, 1, "run", None, None), [], _FAILURE)
    return cast("dict[str, Any]", json.loads(json.dumps(result)))


def _file(
    benchmarks: list[dict[str, Any]],
    without_speed: list[dict[str, Any]] | None = None,
    when: Any = "2026-11-21T10:00:00",
) -> dict[str, Any]:
    common = {"machine_info": _MACHINE, "commit_info": {"id": "abc"}, "datetime": when, "version": "5.3.1"}
    return {**common, "benchmarks": benchmarks, **({WITHOUT_SPEED: without_speed} if without_speed else {})}


def _measured(info: dict[str, Any]) -> dict[str, Any]:
    return {"name": "test_dup[x]", "extra_info": info, "stats": {"median": 0.5}}


def _write(storage: Path, name: str, content: Any, folder: str = "Linux-CPython-3.11-64bit") -> Path:
    path = storage / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_valid_result_passes() -> None:
    """The tests below start from something that is right."""
    check_result(_info())


def _set(*place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(info: dict[str, Any]) -> None:
        for key in place[:-1]:
            info = info[key]
        info[place[-1]] = value

    return change


def _drop(*place: str) -> Callable[[dict[str, Any]], None]:
    def change(info: dict[str, Any]) -> None:
        for key in place[:-1]:
            info = info[key]
        del info[place[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("schema", value="reusebench-result-2"), ["'reusebench-result-2'", "reads 'reusebench-result-1'"]),
        (_drop("schema"), ["schema None is not supported"]),
        (_drop("outcome"), ["the result", "'outcome' is a required property"]),
        (_drop("memory", "baseline_memory_bytes"), ["memory", "'baseline_memory_bytes' is a required property"]),
        (_set("speed_of_light", value=1), ["the result", "'speed_of_light' was unexpected"]),
        (_set("memory", "dram_bytes", value=[]), ["memory", "'dram_bytes' was unexpected"]),
        (_set("outcome", value="lost"), ["outcome", "'lost' is not one of"]),
        (_set("streams", value=0), ["streams", "0 is less than the minimum"]),
        (_set("memory", "application_memory_bytes", value=[1, "2"]), ["memory/application_memory_bytes/1", "'2'"]),
        (_set("failure", "kind", value="ok"), ["failure/kind", "'ok'"]),
    ],
)
def test_a_result_of_another_form_is_refused(change: Callable[[dict[str, Any]], None], words: list[str]) -> None:
    """The message names the place and what is wrong with it."""
    info = copy.deepcopy(_info())
    change(info)
    with pytest.raises(InvalidResult) as refusal:
        check_result(info)
    assert [word for word in words if word not in str(refusal.value)] == []


def test_what_the_quick_check_refuses_is_judged_by_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the two disagree on a result, that of the schema's reference implementation stands."""

    def refuse(_: Any) -> None:
        raise fastjsonschema.JsonSchemaValueException("no")

    monkeypatch.setattr(files, "_quick_validator", lambda: refuse)
    check_result(_info())


def test_the_slow_check_is_not_made_of_valid_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand results are read in a second: the reference implementation, which takes far longer, is not asked."""
    monkeypatch.setattr(files, "_refuse", lambda _: pytest.fail("asked"))
    _write(tmp_path, "0001.json", _file([_measured(_info())] * 5))
    (found,) = read_storage(tmp_path)
    assert isinstance(found, StoredFile)
    assert len(found.results) == 5


def test_only_the_readings_that_are_asked_for_are_kept(tmp_path: Path) -> None:
    """Of phases that are not asked for only the names stay in memory; a reader that names none gets what was stored."""
    stored = result(tmp_path, "no_reuse", even(3))
    write_run(tmp_path, [stored])
    (whole,), (found,) = read_storage(tmp_path), read_storage(tmp_path, ("imported", "steady"))
    assert isinstance(whole, StoredFile)
    assert whole.results[0].info == json.loads(json.dumps(stored))
    assert isinstance(found, StoredFile)
    for repeat in found.results[0].info["repeats"]:
        assert {name for name, reading in repeat["phases"].items() if reading} == {"imported", "steady"}
        assert {"context", "first_inference", "destroy"} <= set(repeat["phases"])


def test_a_storage_is_read_in_order(tmp_path: Path) -> None:
    """Measured results have their statistics, failed ones have none, and the newest run is the last."""
    _write(tmp_path, "0002_later.json", _file([], [{"extra_info": _info()}], when="2026-11-22T10:00:00"))
    _write(tmp_path, "0001_first.json", _file([_measured(_info())]))
    first, second = read_storage(tmp_path)
    assert isinstance(first, StoredFile)
    assert isinstance(second, StoredFile)
    assert (first.recorded_at, first.machine, first.commit) == ("2026-11-21T10:00:00", _MACHINE, {"id": "abc"})
    assert first.results[0].info == _info()
    assert first.results[0].stats == {"median": 0.5}
    assert [each.stats for each in second.results] == [None]


def test_runs_of_two_pythons_are_both_read(tmp_path: Path) -> None:
    """pytest-benchmark has a folder for each Python, and counts files from 1 in each."""
    for python in ("3.9", "3.12"):
        _write(tmp_path, "0001_same.json", _file([_measured(_info())]), folder=f"Linux-CPython-{python}-64bit")
    folders = {found.path.parent.name for found in read_storage(tmp_path)}
    assert folders == {"Linux-CPython-3.9-64bit", "Linux-CPython-3.12-64bit"}


def test_files_of_other_tests_are_passed_over(tmp_path: Path) -> None:
    """A storage may hold what other benchmarks have saved: neither a result nor a mistake."""
    others = [{"name": "test_sort", "extra_info": extra, "stats": {}} for extra in ({}, {"schema": 7})]
    _write(tmp_path, "0001_other.json", _file(others))
    _write(tmp_path, "0002_mixed.json", _file([*others, _measured(_info())]))
    (found,) = read_storage(tmp_path)
    assert isinstance(found, StoredFile)
    assert len(found.results) == 1


def test_an_empty_storage(tmp_path: Path) -> None:
    """There is nothing in it, and nothing in one that does not exist."""
    assert list(read_storage(tmp_path)) == []
    assert list(read_storage(tmp_path / "missing")) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot be read (it is empty)"),
        ('{"benchmarks": [{"na', "cannot be read (it is cut short or damaged at character 17 of 20)"),
        ("\x00\x01 no JSON", "cannot be read"),
        ("[]", "not a file of pytest-benchmark"),
        ("null", "not a file of pytest-benchmark"),
        ("42", "not a file of pytest-benchmark"),
        ('{"name": "package"}', "not a file of pytest-benchmark"),
        ('{"benchmarks": [{}]}', "not a file of pytest-benchmark"),
        ('{"benchmarks": [{"extra_info": []}]}', "not a file of pytest-benchmark"),
        (_file([{"extra_info": _info()}]), "not a file of pytest-benchmark"),
        (_file([_measured({**_info(), "schema": "reusebench-result-9"})]), "'reusebench-result-9' is not supported"),
        (_file([_measured({**_info(), "rounds": None})]), "rounds"),
        (_file([], [{"extra_info": {}}]), "schema None is not supported"),
    ],
)
def test_a_bad_file_is_told_and_does_not_spoil_the_others(tmp_path: Path, content: Any, words: str) -> None:
    """It is named with the reason and what to do, and the good files beside it are read."""
    good = _file([_measured(_info())])
    _write(tmp_path, "0001_good.json", good)
    bad = _write(tmp_path, "0002_bad.json", content)
    _write(tmp_path, "0003_good.json", good)
    found = list(read_storage(tmp_path))
    assert sorted(type(each).__name__ for each in found) == ["BadFile", "StoredFile", "StoredFile"]
    (problem,) = (each for each in found if isinstance(each, BadFile))
    assert problem.path == bad
    assert words in problem.reason
    assert str(bad) in str(problem)
    assert str(problem).endswith("Move it away or delete it")


def test_a_file_of_another_encoding_and_a_folder(tmp_path: Path) -> None:
    """What cannot even be opened as text is a bad file too."""
    _write(tmp_path, "0001.json", "").write_bytes(b"\xff\xfe{}")
    (tmp_path / "Linux-CPython-3.11-64bit" / "0002.json").mkdir()
    assert [type(each) for each in read_storage(tmp_path)] == [BadFile, BadFile]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a run's file as it should be."""
    storage = tmp_path_factory.mktemp("made")
    run = json.loads(write_run(storage, [result(storage, "no_reuse", even(3))]).read_text())
    return save_run(storage, run, "whole").read_bytes()


def _damaged(content: bytes) -> list[bytes]:
    """Return what a power loss may leave: the start alone, zeros in place of the end, of a piece or of all of it."""
    ends = [round(len(content) * part / 20) for part in range(20)] + [1, len(content) - 1]
    starts = [content[:end] for end in ends]
    zeros = [start + bytes(len(content) - len(start)) for start in starts]
    piece = content[:4096] + bytes(512) + content[4608:]
    return [*starts, *zeros, piece]


def test_a_file_that_a_power_loss_has_cut_short(tmp_path: Path, content: bytes) -> None:
    """Wherever it was cut, that file alone is lost, and it is named; those before and after it are read."""
    for number, damaged in enumerate(_damaged(content)):
        folder = tmp_path / str(number) / "Linux-CPython-3.11-64bit"
        folder.mkdir(parents=True)
        for name, bytes_ in (("0001_a", content), ("0002_b", damaged), ("0003_c", content)):
            (folder / f"{name}.json").write_bytes(bytes_)
        first, bad, last = read_storage(folder.parent)
        assert isinstance(first, StoredFile)
        assert isinstance(bad, BadFile)
        assert isinstance(last, StoredFile)
        assert str(bad).startswith(f"{folder / '0002_b.json'}: cannot be read"), number


@pytest.mark.parametrize("when", ["", "yesterday", 7, None])
def test_a_run_without_a_date(tmp_path: Path, when: Any) -> None:
    """Runs are put in order by their dates: one that has none is not read."""
    _write(tmp_path, "0001.json", _file([_measured(_info())], when=when))
    (found,) = read_storage(tmp_path)
    assert isinstance(found, BadFile)
    assert found.reason == f"its date {when!r} is none"


@pytest.mark.parametrize("machine", [{}, {"reusebench": {}}, {"reusebench": {"board": None}}])
def test_a_run_of_no_board(tmp_path: Path, machine: dict[str, Any]) -> None:
    """Memory of two boards is never one series: a run that does not say where it was is not read."""
    _write(tmp_path, "0001.json", {**_file([_measured(_info())]), "machine_info": machine})
    (found,) = read_storage(tmp_path)
    assert isinstance(found, BadFile)
    assert found.reason == "it does not say of which board it is"


def test_what_is_equal_from_run_to_run_is_kept_once(tmp_path: Path) -> None:
    """Plans and machines are; where one differs it is not replaced by another."""
    infos = [result(tmp_path, "no_reuse", even(3)) for _ in range(3)]
    infos[2]["plan"]["rounds"] += 1
    for number, info in enumerate(infos, start=1):
        write_run(tmp_path, [info], number)
    first, second, third = (found for found in read_storage(tmp_path) if isinstance(found, StoredFile))
    plans = [found.results[0].info["plan"] for found in (first, second, third)]
    assert plans[0] is plans[1]
    assert first.machine is second.machine
    assert plans == [json.loads(json.dumps(info["plan"])) for info in infos]
