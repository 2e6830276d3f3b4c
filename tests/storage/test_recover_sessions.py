"""`python -m storage recover`: what sessions measured before a power cut or SIGKILL becomes a run."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import reports.commands.report  # noqa: F401  what its libraries warn of when they are imported is not of this test
from reports.__main__ import main as reports_main
from storage.__main__ import main
from storage.files import StoredFile, read_file, run_files
from storage.journal import Journal, abandoned, journals_in
from storage.maintenance.lines import recovery_lines
from storage.recovery import CUT_OFF, Recovery, recover
from storage.runs import Run, read_run
from storage.trace import write_trace
from storage.writing import save_run
from tests.reports.stored import FAILED, MACHINE, even, result
from tests.support import CHECKOUT

_FORK = multiprocessing.get_context("fork")
_KILLS = 20
_SKELETON = {"machine_info": MACHINE, "commit_info": {}, "datetime": "2026-01-02T03:04:05+00:00", "version": "5.3.1"}
_CUT_OFF = {**FAILED, "kind": CUT_OFF, "phase": "steady", "context": None, "message": "the session was cut off"}
_Words = Callable[..., str]


@pytest.fixture
def words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> _Words:
    """Return words(arguments..., code=0): what the command prints, standard error last."""

    def run(*arguments: str, code: int = 0, of: Path = tmp_path) -> str:
        assert main([*arguments, "--storage", str(of)]) == code
        return "".join(capsys.readouterr())

    return run


def _measured(storage: Path, scenario: str = "no_reuse", run: str = "run1") -> dict[str, Any]:
    """Return an entry with speed."""
    info = result(storage, scenario, even(3), run=run)
    return {"name": scenario, "extra_info": info, "stats": {"median": 0.02, "rounds": 24}}


def _cut_off(storage: Path, scenario: str = "partial_dup", run: str = "run1") -> dict[str, Any]:
    """Return an entry as it stands while it is measured."""
    return {"name": scenario, "extra_info": result(storage, scenario, even(3, 1), failure=_CUT_OFF, run=run)}


def _leave(storage: Path, *entries: dict[str, Any], run: str = "run1", name: str = "20260102_030405") -> Path:
    """Return the journal that a session left when it was killed."""
    journal = Journal(storage, run, name, _SKELETON)
    for number, entry in enumerate(entries):
        journal.keep(str(number), entry)
    assert journal._lock is not None
    os.close(journal._lock)
    return storage / "journals" / run


def _stored(storage: Path) -> list[StoredFile]:
    files = [read_file(path) for path in run_files(storage)]
    found = [file for file in files if isinstance(file, StoredFile)]
    assert len(found) == len(files)
    return found


def test_a_session_that_was_cut_off_becomes_a_run(tmp_path: Path, words: _Words) -> None:
    """Results with speed and without are where the session would have stored them; the journal is gone."""
    entries = [_measured(tmp_path), _cut_off(tmp_path)]
    _leave(tmp_path, *entries)
    said = words("recover").splitlines()
    (path,) = run_files(tmp_path)
    assert path.name == "0001_20260102_030405-recovered.json"
    document = {**_SKELETON, "benchmarks": entries[:1], "reusebench_without_speed": entries[1:]}
    assert json.loads(path.read_text()) == json.loads(json.dumps(document))
    assert said == [
        f"{path}: 2 results of the session of 2026-01-02 03:04 (UTC)",
        "  cut off: onnxruntime partial_dup (4 x 3, model-a +3)",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.parent.name, "traces"]
    assert words("recover") == "nothing to recover: no session was cut off\n"
    assert len(run_files(tmp_path)) == 1


def test_a_recovered_run_is_none_of_its_sessions_name(tmp_path: Path, words: _Words) -> None:
    """A baseline of that name would be half a run; one that has a date only is as any other of a date."""
    _leave(tmp_path, _measured(tmp_path), name="release-1.0")
    _leave(tmp_path, _measured(tmp_path, run="run2"), run="run2")
    words("recover")
    runs = [read_run(path) for path in run_files(tmp_path)]
    found = {run.name: run.is_named for run in runs if isinstance(run, Run)}
    assert found == {"release-1.0-recovered": True, "20260102_030405-recovered": False}


def test_a_living_session_is_left_alone(tmp_path: Path, words: _Words) -> None:
    """It is said; a session beside it that was cut off is recovered."""
    living = Journal(tmp_path, "run2", "mine", _SKELETON)
    living.keep("a", _measured(tmp_path, run="run2"))
    _leave(tmp_path, _measured(tmp_path))
    said = words("recover")
    assert "1 result of the session" in said
    assert f"{tmp_path}/journals/run2: its session is still running; left alone\n" in said
    assert len(list((tmp_path / "journals" / "run2").iterdir())) == 2
    living.close()


def test_a_run_is_not_stored_twice(tmp_path: Path, words: _Words) -> None:
    """The power may go off between the run's file and the end of its journal, of which then a part may be left."""
    entries = [_measured(tmp_path), _measured(tmp_path, "partial_dup")]
    journal = _leave(tmp_path, *entries)
    path = save_run(tmp_path, {**_SKELETON, "benchmarks": entries}, "mine")
    (journal / "result-000001.json").unlink()
    assert words("recover") == f"{journal}: its run is stored already: {path}\n"
    assert run_files(tmp_path) == [path]
    assert journals_in(tmp_path) == []


def test_a_damaged_file_of_the_run_is_not_the_run(tmp_path: Path, words: _Words) -> None:
    """A disk that lied about the file has not lost what the journal has."""
    _leave(tmp_path, _measured(tmp_path))
    path = save_run(tmp_path, {**_SKELETON, "benchmarks": [_measured(tmp_path)]}, "mine")
    path.write_text(path.read_text()[:-5])
    assert "1 result of" in words("recover")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "cannot be read (it is empty)"),
        ('{"name": "no_reuse", "extra_info": {', "cannot be read (it is cut short or damaged at character 36 of 36)"),
        ("\0" * 40, "cannot be read (it is cut short or damaged at character 0 of 40)"),
        ("[]", "not a file of a journal"),
        ('{"extra_info": {"schema": "reusebench-result-9"}}', "schema 'reusebench-result-9' is not supported"),
    ],
)
def test_a_damaged_entry_is_left_out_and_kept(tmp_path: Path, words: _Words, content: str, reason: str) -> None:
    """It is named, the rest is stored, and the journal is not looked at again."""
    journal = _leave(tmp_path, _measured(tmp_path), _measured(tmp_path, "partial_dup"))
    (journal / "result-000001.json").write_text(content)
    said = words("recover", code=1)
    assert "1 result of the session" in said
    kept = tmp_path / "journals" / "run1.damaged" / "result-000001.json"
    assert f"storage: {kept}: {reason}" in said
    assert kept.read_text() == content
    assert [each.results[0].info["scenario"] for each in _stored(tmp_path)] == ["partial_dup"]
    assert words("recover").startswith("nothing to recover")


@pytest.mark.parametrize("content", ["{", '{"run": "run1"}'])
def test_a_damaged_skeleton(tmp_path: Path, words: _Words, content: str) -> None:
    """Nobody knows of which machine the results are: they are kept as they are, and said."""
    journal = _leave(tmp_path, _measured(tmp_path))
    (journal / "skeleton.json").write_text(content)
    said = words("recover", code=1)
    aside = tmp_path / "journals" / "run1.damaged"
    assert f"{journal}: kept as {aside}, for it could not be read" in said
    assert f"storage: {aside / 'skeleton.json'}: " in said
    assert (aside / "result-000001.json").exists()
    assert run_files(tmp_path) == []


def test_a_document_that_is_no_run(tmp_path: Path, words: _Words) -> None:
    """A skeleton of no machine makes a file that cannot be read; the journal is kept beside it."""
    journal = Journal(tmp_path, "run1", "mine", {**_SKELETON, "machine_info": {}})
    journal.keep("a", _measured(tmp_path))
    assert journal._lock is not None
    os.close(journal._lock)
    assert "it does not say of which board it is" in words("recover", code=1)
    assert (tmp_path / "journals" / "run1.damaged" / "result-000001.json").exists()


def test_a_session_without_results(tmp_path: Path, words: _Words) -> None:
    """There is nothing to store, and no hint."""
    journal = _leave(tmp_path)
    assert "recover" not in words("list")
    assert words("recover") == f"{journal}: nothing had been measured; removed\n"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(tmp_path: Path, words: _Words, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and the same command goes on."""
    _leave(tmp_path, _measured(tmp_path))

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        assert "No space left on device). Nothing is lost" in words("recover", code=2)
    assert len(abandoned(tmp_path)) == 1
    assert "1 result of" in words("recover")


def test_a_linked_journal(tmp_path: Path, words: _Words) -> None:
    """It is no journal of this storage: what it leads to is left alone."""
    elsewhere = _leave(tmp_path / "elsewhere", _measured(tmp_path))
    (tmp_path / "storage" / "journals").mkdir(parents=True)
    (tmp_path / "storage" / "journals" / "run1").symlink_to(elsewhere)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "journals").symlink_to(elsewhere.parent)
    files = {path: path.read_bytes() for path in elsewhere.iterdir()}
    for storage in ("storage", "linked"):
        assert words("recover", of=tmp_path / storage) == "nothing to recover: no session was cut off\n"
    assert {path: path.read_bytes() for path in elsewhere.iterdir()} == files


def test_files_of_others_in_a_journal(tmp_path: Path, words: _Words) -> None:
    """They stay, and links among them are not followed."""
    target = tmp_path / "mine.json"
    target.write_text("{}")
    journal = _leave(tmp_path, _measured(tmp_path))
    (journal / "result-000002.json").symlink_to(target)
    (journal / "notes.txt").write_text("mine")
    assert "1 result of the session" in words("recover")
    assert sorted(path.name for path in journal.iterdir()) == ["notes.txt", "result-000002.json"]
    assert target.read_text() == "{}"
    assert words("recover").startswith("nothing to recover")


def test_all_storages_of_a_folder(tmp_path: Path, words: _Words) -> None:
    """Also those that have no run yet."""
    for board in ("a", "my board"):
        _leave(tmp_path / board, _measured(tmp_path / board))
    assert words("recover").count("1 result of") == 2
    assert [len(_stored(tmp_path / board)) for board in ("a", "my board")] == [1, 1]


def test_no_storage(tmp_path: Path, words: _Words) -> None:
    """As the sibling commands say it."""
    assert "no storage at" in words("recover", code=2, of=tmp_path / "none")


def test_the_command_itself(tmp_path: Path) -> None:
    """It is a module that can be run."""
    _leave(tmp_path, _measured(tmp_path))
    command = [sys.executable, "-m", "storage", "recover", "--storage", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert "1 result of" in done.stdout


def test_other_commands_say_that_there_is_something_to_recover(
    tmp_path: Path, words: _Words, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, until it is recovered; it does not change what they do."""
    _leave(tmp_path, _measured(tmp_path))
    command = f"`python -m storage recover --storage {tmp_path}`"
    hint = f"a session was cut off, and its results are not stored as a run yet; {command} stores them\n"
    assert words("list") == f"0 runs, 0.00 MiB with traces\nstorage: {hint}"
    assert reports_main(["--storage", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"reports: {hint}reports: no results in")
    words("recover")
    assert "cut off" not in words("list")
    export = ["export", "--format", "csv", "--output", str(tmp_path / "x.csv"), "--storage", str(tmp_path)]
    assert reports_main(export) == 0
    assert "cut off" not in capsys.readouterr().err


def test_traces_of_what_is_not_stored_yet_stay(tmp_path: Path, words: _Words) -> None:
    """`prune` takes old traces that no run has; those of a journal are its run's."""
    _leave(tmp_path, _measured(tmp_path, run="a" * 12), run="a" * 12)
    save_run(tmp_path, {**_SKELETON, "benchmarks": [_measured(tmp_path)]}, "main")
    write_trace(tmp_path, "b" * 12, "1", {})
    for trace in tmp_path.glob("traces/*/*"):
        os.utime(trace, (0, 0))
    words("prune", "--keep", "9")
    assert {path.name for path in (tmp_path / "traces").iterdir()} == {"a" * 12, "run1"}
    words("recover")
    words("prune", "--keep", "0")
    assert [path.name for path in (tmp_path / "traces").iterdir()] == ["run1"]


def test_a_journal_that_never_began_goes_like_any_unfinished_file(tmp_path: Path, words: _Words) -> None:
    """A session may be killed before its journal has a skeleton: there is nothing to recover."""
    unfinished = tmp_path / "journals" / "run1" / "skeleton.json.unfinished"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_text("{")
    save_run(tmp_path, {**_SKELETON, "benchmarks": [_measured(tmp_path)]}, "mine")
    assert words("recover").startswith("nothing to recover")
    words("prune", "--keep", "0")
    assert unfinished.exists()
    os.utime(unfinished, (0, 0))
    words("prune", "--keep", "0")
    assert not unfinished.parent.exists()


def test_each_configuration_that_was_cut_off_is_named(tmp_path: Path) -> None:
    """Those that failed otherwise are not."""
    crashed = result(tmp_path, "full_dup", [], failure=FAILED, run="run1")
    _leave(tmp_path, _measured(tmp_path), {"name": "full_dup", "extra_info": crashed}, _cut_off(tmp_path))
    (recovery,) = recover(tmp_path)
    assert [line for line in recovery_lines(recovery) if "cut off" in line] == [
        "  cut off: onnxruntime partial_dup (4 x 3, model-a +3)"
    ]


def test_two_that_recover_at_once(tmp_path: Path) -> None:
    """Each run is stored once, whoever is first."""
    for number in range(6):
        _leave(tmp_path, _measured(tmp_path, run=f"run{number}"), run=f"run{number}")
    others = [_FORK.Process(target=lambda: list(recover(tmp_path))) for _ in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0] * 4
    assert sorted(each.results[0].info["run"] for each in _stored(tmp_path)) == [f"run{n}" for n in range(6)]
    assert journals_in(tmp_path) == []


def _session(storage: Path, run: str, entry: dict[str, Any], told: Connection) -> None:
    """Measure: keep one result, replace another again and again, and tell what is kept; store the run and end."""
    journal = Journal(storage, run, "mine", _SKELETON)
    first, second = ({**entry, "name": name, "at": 0} for name in ("first", "second"))
    journal.keep("first", first)
    for at in range(1, 25):
        second["at"] = at
        journal.keep("second", second)
        told.send(at)
    save_run(storage, {**_SKELETON, "benchmarks": [first, second]}, "mine")
    told.send(25)
    journal.close()


def test_sessions_that_are_killed_at_any_moment(tmp_path: Path) -> None:
    """What had been kept is stored, and once: while it measures, stores the run, or takes its journal away."""
    padding = {"params": {"padding": "x" * 50_000}}
    entries = [{**_measured(tmp_path, run=f"run{number}"), **padding} for number in range(_KILLS)]
    started_s = time.monotonic()
    _run(tmp_path / "whole", "whole", entries[0])
    whole_s = time.monotonic() - started_s
    chance = random.Random(7)
    moments_s = [chance.uniform(0, 1.1 * whole_s) for _ in entries]
    kept = [_run(tmp_path, f"run{n}", *each) for n, each in enumerate(zip(entries, moments_s))]
    assert len(set(kept)) > 3, "they were all killed at the same place"
    found = [each for each in recover(tmp_path) if each.bad_files or not _is_clear(each)]
    assert found == []
    stored = {file.results[0].info["run"]: file.path for file in _stored(tmp_path)}
    assert len(stored) == len(run_files(tmp_path)), "a run was stored twice"
    for number, at in enumerate(kept):
        if at:
            names = {each["name"]: each["at"] for each in json.loads(stored[f"run{number}"].read_text())["benchmarks"]}
            assert names["first"] == 0
            assert names["second"] >= min(at, 24)
    assert journals_in(tmp_path) == []


def _is_clear(recovery: Recovery) -> bool:
    """Return whether the run was stored, by now or before, or there was nothing of it."""
    return bool(recovery.run) or "stored already" in recovery.remark or "nothing had been" in recovery.remark


def _run(storage: Path, run: str, entry: dict[str, Any], killed_after_s: float | None = None) -> int:
    """Return the last that the session said to have kept; 0 where it did not come so far."""
    here, there = _FORK.Pipe(duplex=False)
    session = _FORK.Process(target=_session, args=(storage, run, entry, there))
    session.start()
    there.close()
    if killed_after_s is not None:
        time.sleep(killed_after_s)
        session.kill()
    session.join()
    at = 0
    try:
        while True:
            at = here.recv()
    except EOFError:
        return at
