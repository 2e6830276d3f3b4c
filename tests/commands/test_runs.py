"""`reusebench runs`: what is stored, and what goes when old runs are removed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from storage.files import PROGRAMS
from storage.writing import save_run

from storage.program import PROGRAM_MEMORY, Recorded, build_program
from storage.trace import write_trace
from tests.reports.stored import FAILED, MACHINE, NOT_SUPPORTED, even, result, write_run
from tests.support import Reusebench

_Words = Callable[..., str]
_DAY_S = 24 * 60 * 60
_FACTS = {
    "started_at": "2025-01-01T00:00:00+00:00",
    "duration_ns": 10**9,
    "exit_code": 0,
    "signal": None,
    "ended_by_user": False,
    "idle_system_memory_bytes": 1,
    "idle_noise_bytes": 1,
    "idle_cpu_percent": 1.0,
    "recorder_cpu_percent": 0.1,
    "rss_readings": 10,
    "process_count": 1,
    "processes": [],
}
_PHASE = {"duration_ns": 10**9, "pss_readings": 9, "memory": dict.fromkeys(PROGRAM_MEMORY, 1)}
_COMMIT = {"id": "de6755279b67326d5b716af2270f016ce25393cb", "dirty": False}


def _id(number: int) -> str:
    """Return the id of a session or recording."""
    return f"{number:012x}"


def _run(storage: Path, number: int, name: str = "20260101_000000", commit: object = None) -> Path:
    """Write a run of the day `number`, with its traces in a folder of its own."""
    made = write_run(
        storage,
        [result(storage, "no_reuse", even(3), run=_id(number))],
        number,
        at=f"2026-01-{number:02}T10:00:00",
    )
    content = json.loads(made.read_text())
    made.unlink()
    path = made.with_name(f"{number:04}_{name}.json")
    path.write_text(json.dumps({**content, "commit_info": commit or {}}))
    return path


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return a storage of four runs, of which the second has a name."""
    for number in (1, 2, 3, 4):
        _run(tmp_path / "storage", number, "main" if number == 2 else "20260101_000000")
    return tmp_path / "storage"


@pytest.fixture
def words(storage: Path, reusebench: Reusebench) -> _Words:
    """Return words(arguments..., code=0): what the command prints, standard error last."""

    def run(*arguments: str, code: int = 0, of: Path = storage) -> str:
        done = reusebench("runs", *arguments, "--storage", of)
        assert done.exit_code == code, done
        return done.out + done.err

    return run


def _numbers(storage: Path) -> list[int]:
    return sorted(int(path.name[:4]) for path in storage.glob("*/*.json"))


def _owners(storage: Path) -> set[str]:
    return {path.name for path in (storage / "traces").iterdir()}


def _age(path: Path, days: float) -> Path:
    changed_at_s = time.time() - days * _DAY_S
    os.utime(path, (changed_at_s, changed_at_s))
    return path


def _left_trace(storage: Path, run: str, name: str, days: float) -> Path:
    return _age(storage / write_trace(storage, run, name, {}), days)


def test_runs_are_listed(storage: Path, words: _Words) -> None:
    """Number, date, name, board, commit, runtimes, what came of the results, and the size with traces; newest last."""
    infos = [
        result(storage, "no_reuse", even(3), run=_id(5)),
        result(storage, "partial_dup", [], failure=FAILED, run=_id(5)),
        result(storage, "shared_context", [], failure=NOT_SUPPORTED, run=_id(5)),
    ]
    content = json.loads(write_run(storage, infos, 5, "2026-02-01T00:00:00").read_text())
    path = save_run(storage, {**content, "commit_info": {**_COMMIT, "dirty": True}}, "last")
    lines = words("list").splitlines()
    assert lines[0].split() == ["number", "date", "(UTC)", "name", "board", "commit", "runtimes", "ok", "failed", "MiB"]
    cells = [2, "2026-01-02", "10:00", "main", "board-123456", "-", "onnxruntime", 1, 0]
    assert lines[2].split()[:-1] == [str(cell) for cell in cells]
    cells = [6, "2026-02-01", "00:00", "last", "board-123456", "de6755279b", "changed", "onnxruntime", 1, 1]
    assert lines[-2].split()[:-1] == [str(cell) for cell in cells]
    traces = sum(file.stat().st_size for file in (storage / "traces" / _id(5)).iterdir())
    assert lines[-2].split()[-1] == f"{(path.stat().st_size + traces) / 2**20:.2f}"
    assert lines[-1].startswith("6 runs, ")


def test_the_newest_alone(words: _Words) -> None:
    """--limit is of what is shown; the sum is of all."""
    lines = words("list", "--limit", "2").splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["3", "4"]
    assert lines[-1].startswith("4 runs, 2 of them above, ")


def test_a_damaged_file_is_named(storage: Path, words: _Words) -> None:
    """The others are listed, and the exit code is 1."""
    damaged = storage / "Linux-CPython-3.11-64bit" / "0007_cut.json"
    damaged.write_text("{")
    found = words("list", code=1)
    assert "4 runs" in found
    assert f"Warning: {damaged}: cannot be read" in found


def test_an_empty_storage(tmp_path: Path, words: _Words) -> None:
    """There is nothing to show."""
    (tmp_path / "empty").mkdir()
    assert words("list", of=tmp_path / "empty") == "0 runs, 0.00 MiB with traces\n"


def test_a_folder_that_is_no_storage(tmp_path: Path, words: _Words) -> None:
    """Where there is no run nothing is removed, however much it looks like ours."""
    other = tmp_path / "other" / "traces" / _id(1) / "m.json.gz"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    _age(other, 2)
    assert "there is no run in" in words("prune", "--keep", "100", code=2, of=tmp_path / "other")
    assert other.read_text() == "mine"


def test_files_of_others_in_a_storage(storage: Path, words: _Words) -> None:
    """Other names, and what stands where this project never writes, stay, however old."""
    mine = [
        storage / "traces" / "x" / "m.json.gz",
        storage / "traces" / "m.json.gz",
        storage / "traces" / _id(0xC) / "m.csv",
        storage / "traces" / _id(0xC) / "deeper" / "m.json.gz",
        storage / ".notes.unfinished",
        storage / "0001.unfinished",
        storage / "journals" / "x" / "m.unfinished",
    ]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        _age(path, 9)
    words("prune", "--keep", "0", "--named")
    assert [path for path in mine if not path.exists()] == []


def test_links_are_not_followed(storage: Path, words: _Words, tmp_path: Path) -> None:
    """Of traces, of a folder of them, of runs and their folders: what they lead to stays, and they do too."""
    elsewhere = tmp_path / "elsewhere"
    trace = _left_trace(elsewhere, _id(0xB), "001", 9)
    other_run = _run(elsewhere, 9)
    (storage / "traces" / _id(0xB)).symlink_to(trace.parent)
    inside = _left_trace(storage, _id(0xC), "001", 9)
    linked = inside.with_name("002.json.gz")
    linked.symlink_to(trace)
    (storage / "python").symlink_to(other_run.parent)
    first = storage / "Linux-CPython-3.11-64bit" / "0001_20260101_000000.json"
    first.rename(tmp_path / "moved.json")
    first.symlink_to(tmp_path / "moved.json")
    found = words("prune", "--keep", "0", "--named")
    assert "kept: 2 runs behind links, which are not followed" in found
    assert not inside.exists()
    assert linked.is_symlink()
    assert first.is_symlink()
    for path in (trace, other_run, tmp_path / "moved.json"):
        assert path.exists()


def test_a_linked_folder_of_traces(storage: Path, words: _Words, tmp_path: Path) -> None:
    """What stands in it is not the storage's own."""
    (storage / "traces").rename(tmp_path / "traces")
    (storage / "traces").symlink_to(tmp_path / "traces")
    traces = sorted((tmp_path / "traces").glob("*/*"))
    words("prune", "--keep", "0", "--named")
    assert _numbers(storage) == []
    assert sorted((tmp_path / "traces").glob("*/*")) == traces


def test_every_file_that_goes_is_named(storage: Path, words: _Words) -> None:
    """Runs, their traces, and what no run has: all that a dry run names is gone after it, and nothing else."""
    _left_trace(storage, _id(0xB), "001", 9)
    _age(storage / "traces" / _id(0xB) / "001.json.gz", 9)
    before = {path for path in storage.rglob("*") if path.is_file()}
    named = {word for line in words("prune", "--keep", "1", "--dry-run").splitlines() for word in line.split()[-1:]}
    words("prune", "--keep", "1")
    assert before - {path for path in storage.rglob("*") if path.is_file()} == {Path(word) for word in named} & before
    assert len({Path(word) for word in named} & before) == 9


def test_all_but_the_newest_go_with_their_traces(storage: Path, words: _Words) -> None:
    """Each is named; the one that a user gave a name to stays, and is named too."""
    before = sum(path.stat().st_size for path in storage.rglob("*") if path.is_file())
    found = words("prune", "--keep", "2")
    assert _numbers(storage) == [2, 3, 4]
    assert _owners(storage) == {_id(2), _id(3), _id(4)}
    assert "2026-01-01 10:00  " in found
    assert "1 run with 3 traces\n" in found
    assert "kept for the name: 1 run (main); --named removes named runs too" in found
    freed = before - sum(path.stat().st_size for path in storage.rglob("*") if path.is_file())
    assert found.endswith(f"{freed / 2**20:.2f} MiB removed\n")


def test_named_runs_go_on_request(storage: Path, words: _Words) -> None:
    """--named makes no difference between names."""
    words("prune", "--keep", "2", "--named")
    assert _numbers(storage) == [3, 4]
    words("prune", "--keep", "0", "--named")
    assert _numbers(storage) == []
    assert _owners(storage) == set()


@pytest.mark.parametrize(
    ("date", "left"),
    [
        ("2026-01-03", [2, 3, 4]),
        ("2026-01-03T10:00", [2, 3, 4]),
        ("2026-01-03T10:01", [2, 4]),
        ("2026-01-03T12:00+02:00", [2, 3, 4]),
        ("2025-12-31", [1, 2, 3, 4]),
    ],
)
def test_runs_before_a_date(storage: Path, words: _Words, date: str, left: list[int]) -> None:
    """A date without a zone is UTC, as the stored ones are; a run of that moment stays."""
    words("prune", "--before", date)
    assert _numbers(storage) == left


def test_a_dry_run(storage: Path, words: _Words) -> None:
    """It says the same, and removes nothing."""
    _left_trace(storage, _id(0xB), "x", 2)
    files = sorted(storage.rglob("*"))
    dry = words("prune", "--keep", "1", "--dry-run")
    assert sorted(storage.rglob("*")) == files
    assert dry.endswith("would be removed\n")
    assert words("prune", "--keep", "1") == dry.replace("would be removed", "removed")
    assert sorted(storage.rglob("*")) != files


def test_what_no_run_has(storage: Path, words: _Words) -> None:
    """Traces of broken sessions and passed-over plans, and files never finished, go when a day has passed."""
    old = [_left_trace(storage, _id(0xB), name, 2) for name in ("001", "002")]
    unfinished = storage / ".0005.unfinished"
    unfinished.write_text("{")
    for trace in (storage / "traces" / _id(3)).iterdir():
        _age(trace, 3)
    passed_over = _left_trace(storage, _id(3), "000-lean-1", 3)
    for path in (_age(unfinished, 2), passed_over, *old):
        assert path.exists()
    assert "4 files that no run has, a day old or more" in words("prune", "--keep", "9")
    assert [path for path in (unfinished, passed_over, *old) if path.exists()] == []
    assert _numbers(storage) == [1, 2, 3, 4]
    assert _owners(storage) == {_id(1), _id(2), _id(3), _id(4)}


def test_what_is_being_written_is_safe(storage: Path, words: _Words) -> None:
    """A session that is under way has traces and no run yet; its first trace may be older than a day."""
    first, last = _left_trace(storage, _id(0xA), "001", 1.5), _left_trace(storage, _id(0xA), "900", 0.5)
    (storage / ".0005.unfinished").write_text("{")
    words("prune", "--keep", "0", "--named")
    assert first.exists()
    assert last.exists()
    assert (storage / ".0005.unfinished").exists()


def test_traces_of_passed_over_plans_go_with_their_run(storage: Path, words: _Words) -> None:
    """They stand in its folder, although it does not tell of them."""
    passed_over = _left_trace(storage, _id(1), "000-lean-1", 0)
    words("prune", "--keep", "3")
    assert not passed_over.exists()


def test_traces_that_two_runs_have(storage: Path, words: _Words) -> None:
    """A copy of a file has the same traces: they stay while one of both does."""
    first = storage / "Linux-CPython-3.11-64bit" / "0001_20260101_000000.json"
    copy = json.loads(first.read_text())
    save_run(storage, {**copy, "datetime": "2026-03-01T00:00:00+00:00"}, "20260301_000000")
    words("prune", "--keep", "1")
    assert _numbers(storage) == [2, 5]
    assert _owners(storage) == {_id(1), _id(2)}


def test_damaged_files_and_what_may_be_theirs_stay(storage: Path, words: _Words) -> None:
    """Nobody knows which traces a damaged file has; the rest is removed, and the exit code is 1."""
    damaged = storage / "Linux-CPython-3.11-64bit" / "0001_20260101_000000.json"
    damaged.write_text(damaged.read_text()[:5000])
    for trace in (storage / "traces" / _id(1)).iterdir():
        _age(trace, 9)
    found = words("prune", "--keep", "1", code=1)
    assert _numbers(storage) == [1, 2, 4]
    assert _owners(storage) == {_id(1), _id(2), _id(4)}
    assert "kept: 3 traces that no run has, for they may be of a damaged file" in found
    assert f"Warning: {damaged}: cannot be read" in found


def test_programs_have_traces_too(storage: Path, words: _Words) -> None:
    """What `reusebench record` stored is a run like any other."""
    run_id = "20250101_000000-99"
    identity = {"run": run_id, "name": "detector", "command": ["./detector"], "attached": False, "sample_hz": 10.0}
    repeat = Recorded({**_FACTS, "trace": write_trace(storage, run_id, "1", {})}, {"whole": _PHASE})
    info = build_program(identity, "ok", [repeat])
    run = {"machine_info": MACHINE, "commit_info": {}, "benchmarks": [], "datetime": "2025-01-01T00:00:00+00:00"}
    save_run(storage, {**run, PROGRAMS: [info]}, "20250101_000000")
    assert "program" in words("list").splitlines()[1].split()
    assert "1 run with 1 trace\n" in words("prune", "--keep", "4")
    assert run_id not in _owners(storage)


def test_other_files_are_not_touched(storage: Path, words: _Words) -> None:
    """Runs of other benchmarks, and what has another name, are none of ours."""
    other = storage / "Linux-CPython-3.11-64bit" / "0008_other.json"
    other.write_text(json.dumps({"benchmarks": [], "machine_info": {}, "commit_info": {}, "datetime": ""}))
    trials = storage / "mechanisms.json"
    trials.write_text("{}")
    words("prune", "--keep", "0", "--named")
    assert other.exists()
    assert trials.exists()


def test_a_path_in_a_file_does_not_lead_out_of_the_storage(storage: Path, words: _Words, tmp_path: Path) -> None:
    """Only what stands in the folder of traces is removed, whatever a stored file says."""
    outside = tmp_path / "outside.json.gz"
    outside.touch()
    first = storage / "Linux-CPython-3.11-64bit" / "0001_20260101_000000.json"
    first.write_text(first.read_text().replace(f"traces/{_id(1)}/no_reuse-1.json.gz", "../outside.json.gz"))
    words("prune", "--keep", "1")
    assert not first.exists()
    assert outside.exists()


def test_a_file_that_cannot_be_removed(words: _Words, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with the reason."""

    def refuse(path: Path, **_: bool) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert "0001_20260101_000000.json cannot be removed (Permission denied)" in words("prune", "--keep", "1", code=2)


def test_several_boards(tmp_path: Path, words: _Words) -> None:
    """They are listed together; of one alone runs are removed."""
    _run(tmp_path / "boards" / "a", 1)
    _run(tmp_path / "boards" / "b", 2)
    assert "2 runs" in words("list", of=tmp_path / "boards")
    said = words("prune", "--keep", "0", code=2, of=tmp_path / "boards")
    assert f"Name one with --storage DIR: {tmp_path}/boards/a, {tmp_path}/boards/b" in said
    assert _numbers(tmp_path / "boards" / "a") == [1]


def test_no_storage(tmp_path: Path, words: _Words) -> None:
    """The message says what makes one."""
    assert "no storage at " in words("list", code=2, of=tmp_path / "none")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["prune"], "say which runs are old, by --keep N or by --before DATE"),
        (["prune", "--keep", "1", "--before", "2026-01-01"], "say which runs are old, by --keep N or by --before DATE"),
        (["prune", "--keep", "-1"], "-1 is not in the range x>=0"),
        (["prune", "--keep", "x"], "'x' is not a valid integer"),
        (["prune", "--before", "soon"], "'soon' is not valid; valid: 2026-11-30 or 2026-11-30T12:00"),
        (["list", "--limit", "x"], "'x' is not a valid integer"),
    ],
)
def test_mistakes(words: _Words, arguments: list[str], sentence: str) -> None:
    """They end with exit code 2 and what is valid."""
    assert sentence in words(*arguments, code=2)
