"""`reusebench runs`: what is stored, and what goes when old runs are removed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.storage.run_file import Commit, RunWriter
from reusebench.storage.trace import MemoryTimeline, ProgramTrace, write_trace
from tests.helpers.support import Reusebench
from tests.reports.stored import FAILED, NO_COMMIT, NOT_SUPPORTED, even, result, write_run
from tests.reports.stored_programs import Repeat, program, write_programs

#: Prints what the command prints, standard error last.
_Words = Callable[..., str]
_DAY_S = 24 * 60 * 60
_COMMIT = Commit(id="de6755279b67326d5b716af2270f016ce25393cb", dirty=True)
_NOTHING = MemoryTimeline([])
_TRACE = ProgramTrace(_NOTHING, _NOTHING, _NOTHING, _NOTHING, [], [])
_DATE_NAME = "20260101_000000"


def _id(number: int) -> str:
    """Return the id of a session or recording."""
    return f"{number:012x}"


def _path(storage: Path, number: int, name: str = _DATE_NAME) -> Path:
    return storage / "Linux-CPython-3.11-64bit" / f"{number:04}_{name}.json"


def _run(
    storage: Path,
    number: int,
    name: str = _DATE_NAME,
    commit: Commit = NO_COMMIT,
    finished: bool = True,
) -> Path:
    """Write a run of the day `number`, with its traces in a folder of its own."""
    info = result(storage, "no_reuse", even(3), run=_id(number))
    moment = f"2026-01-{number:02}T10:00:00"
    path = write_run(storage, [info], number, moment, commit, is_finished=finished)
    return path.rename(_path(storage, number, name))


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of four runs, of which the second has a name; it is only copied."""
    storage = tmp_path_factory.mktemp("runs")
    for number in (1, 2, 3, 4):
        _run(storage, number, "main" if number == 2 else _DATE_NAME)
    return storage


@pytest.fixture
def storage(four_runs: Path, tmp_path: Path) -> Path:
    """Return a copy of the storage of four runs."""
    return Path(shutil.copytree(four_runs, tmp_path / "storage"))


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


def _files(storage: Path) -> set[Path]:
    return {path for path in storage.rglob("*") if path.is_file()}


def _age(path: Path, days: float) -> Path:
    changed_at_s = time.time() - days * _DAY_S
    os.utime(path, (changed_at_s, changed_at_s))
    return path


def _left_trace(storage: Path, run: str, name: str, days: float) -> Path:
    return _age(storage / write_trace(storage, run, name, _TRACE), days)


# Listing


def test_runs_are_listed(storage: Path, words: _Words) -> None:
    """Number, date, name, board, commit, runtimes, what came of the results, and the size with
    traces; newest last.
    """
    infos = [
        result(storage, "no_reuse", even(3), run=_id(5)),
        result(storage, "partial_dup", [], failure=FAILED, run=_id(5)),
        result(storage, "shared_context", [], failure=NOT_SUPPORTED, run=_id(5)),
    ]
    path = write_run(storage, infos, 5, "2026-02-01T00:00:00", _COMMIT, is_finished=False)
    lines = words("list").splitlines()
    assert (
        " ".join(lines[0].split()) == "number date (UTC) name board commit runtimes ok failed MiB"
    )
    assert (
        " ".join(lines[2].split()[:-1]) == "2 2026-01-02 10:00 main board-123456 - onnxruntime 1 0"
    )
    cells = "5 2026-02-01 00:00 run (unfinished) board-123456 de6755279b changed onnxruntime 1 1"
    assert " ".join(lines[-2].split()[:-1]) == cells
    traces = sum(file.stat().st_size for file in (storage / "traces" / _id(5)).iterdir())
    assert lines[-2].split()[-1] == f"{(path.stat().st_size + traces) / 2**20:.2f}"
    assert lines[-1].startswith("5 runs, ")
    lines = words("list", "--newest", "2").splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["4", "5"]
    assert lines[-1].startswith("5 runs, 2 of them above, ")


def test_several_boards(tmp_path: Path, words: _Words) -> None:
    """They are listed together; --keep counts on each board. An empty storage has no run."""
    for number in (1, 2):
        _run(tmp_path / "boards" / "a", number)
    _run(tmp_path / "boards" / "b", 1)
    assert "3 runs" in words("list", of=tmp_path / "boards")
    assert "1 run with 3 traces" in words("prune", "--keep", "1", of=tmp_path / "boards")
    assert _numbers(tmp_path / "boards" / "a") == [2]
    assert _numbers(tmp_path / "boards" / "b") == [1]
    (tmp_path / "empty").mkdir()
    assert words("list", of=tmp_path / "empty") == "0 runs, 0.00 MiB with traces\n"


# Removing


def test_all_but_the_newest_go_with_their_traces(storage: Path, words: _Words) -> None:
    """Every file that goes is named by a dry run that removes none; a run that a user gave a name
    to goes on request.

    Traces of a run that it does not name are in its folder: they are of plans that were passed
    over.
    """
    _left_trace(storage, _id(0xB), "001", 9)
    passed_over = _left_trace(storage, _id(1), "000-lean-1", 0)
    before = _files(storage)
    dry = words("prune", "--keep", "2", "--dry-run")
    assert _files(storage) == before
    sizes = {path: path.stat().st_size for path in before}
    printed = words("prune", "--keep", "2")
    assert printed == dry.replace("would be removed", "removed")
    gone = before - _files(storage)
    assert passed_over in gone
    assert gone == {Path(line.split()[-1]) for line in dry.splitlines()} & before
    assert (_numbers(storage), _owners(storage), len(gone)) == (
        [2, 3, 4],
        {_id(2), _id(3), _id(4)},
        6,
    )
    assert "2026-01-01 10:00  " in printed
    assert "1 run with 4 traces\n1 file that no run has, a day old or more\n" in printed
    assert "kept for the name: 1 run (main); --named removes named runs too" in printed
    assert printed.endswith(f"{sum(sizes[path] for path in gone) / 2**20:.2f} MiB removed\n")
    words("prune", "--keep", "2", "--named")
    assert _numbers(storage) == [3, 4]


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


@pytest.mark.process
def test_baselines_stay(storage: Path, words: _Words, tmp_path: Path) -> None:
    """Runs of --keep-run and of pytest's configuration stay, and the place is said; a baseline
    without a run is warned of, a reference of --keep-run without one a mistake.
    """
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --baseline 3\n")
    project = ("--project", str(tmp_path))
    refusal = words("prune", "--keep", "0", "--keep-run", "9", *project, code=2)
    assert "there is no run '9'" in refusal
    assert _numbers(storage) == [1, 2, 3, 4]
    printed = words("prune", "--keep", "0", "--keep-run", "1", *project)
    assert (
        f"kept as baselines: 2 runs ({_path(storage, 1).stem}, {_path(storage, 3).stem}):"
        f" --keep-run 1, --baseline in {tmp_path}/pytest.ini names 3" in printed
    )
    assert _numbers(storage) == [1, 2, 3]
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --baseline 77\n")
    warned = words("prune", "--keep", "0", "--named", "--dry-run", *project)
    assert "Warning: --baseline in" in warned
    assert "there is no run '77'" in warned
    (tmp_path / "pytest.ini").write_text("[pytest")
    assert "baselines in it are unknown" in words("prune", "--keep", "0", *project, code=2)


def test_rules_together(storage: Path, words: _Words) -> None:
    """Ages, sizes and numbers in one command; what stays above the size is said."""
    printed = words("prune", "--size", "1KiB", "--keep-each", "1")
    assert "2 runs with 6 traces" in printed
    assert "kept for the name: 1 run (main)" in printed
    assert "MiB stay, more than --size: the rest is kept for the reasons above" in printed
    assert _numbers(storage) == [2, 4]


def test_a_clock_that_was_not_set(storage: Path, words: _Words) -> None:
    """The newest run has the highest number, whatever its date; --before keeps runs with an
    impossible date.
    """
    newest = _path(storage, 4)
    newest.write_text(newest.read_text().replace("2026-01-04T", "1970-01-01T"))
    assert words("list").splitlines()[4].split()[:2] == ["4", "1970-01-01"]
    printed = words("prune", "--before", "2026-01-02")
    assert f"kept: 1 run ({newest.stem}) with a date that cannot be right" in printed
    assert _numbers(storage) == [2, 3, 4]
    words("prune", "--keep", "1", "--named")
    assert _numbers(storage) == [4]


@pytest.mark.process
def test_a_run_that_is_still_measured(storage: Path, words: _Words) -> None:
    """It stays as long as its session lives, however old it seems to the clock."""
    document = json.loads(_path(storage, 1).read_bytes())
    writer = RunWriter(storage, _DATE_NAME)
    path = _age(writer.write(document, finished=False), 9)
    assert f"kept: 1 run ({path.stem}) that may still be measured" in words(
        "prune", "--keep", "0", "--named"
    )
    _age(path, 9)
    writer.write(document)
    words("prune", "--keep", "0", "--named")
    assert not path.exists()


def test_what_has_the_name_of_a_trace_and_is_none(storage: Path, words: _Words) -> None:
    """Only what this project has written is removed, in folders of runs too."""
    theirs = storage / "traces" / _id(1) / "notes.json.gz"
    theirs.write_bytes(gzip.compress(b'{"notes": []}'))
    unfinished = storage / ".0009.unfinished"
    unfinished.write_text("notes")
    left = storage / "traces" / _id(1) / ".001.json.gz.77.unfinished"
    left.touch()
    for path in (theirs, unfinished, left):
        _age(path, 9)
    words("prune", "--keep", "0", "--named")
    assert (theirs.exists(), unfinished.exists(), left.exists()) == (True, True, False)


def test_unfinished_runs_go_a_day_after_their_last_change(storage: Path, words: _Words) -> None:
    """Until then a session may still write them: they stay with their traces, with a note."""
    young = _run(storage, 5, finished=False)
    old = _age(_run(storage, 6, finished=False), 1.1)
    printed = words("prune", "--keep", "0")
    assert f"kept: 1 run ({young.stem}) that may still be measured" in printed
    assert (young.exists(), old.exists()) == (True, False)
    assert _owners(storage) == {_id(2), _id(5)}


def test_what_no_run_has(storage: Path, words: _Words) -> None:
    """Traces of broken sessions and passed-over plans, and files never finished, go when a day has
    passed.
    """
    old = [_left_trace(storage, _id(0xB), name, 2) for name in ("001", "002")]
    unfinished = storage / ".0005.unfinished"
    unfinished.write_text("{")
    for trace in (storage / "traces" / _id(3)).iterdir():
        _age(trace, 3)
    old += [_age(unfinished, 2), _left_trace(storage, _id(3), "000-lean-1", 3)]
    assert "4 files that no run has, a day old or more" in words("prune", "--keep", "9")
    assert [path for path in old if path.exists()] == []
    assert _numbers(storage) == [1, 2, 3, 4]
    assert _owners(storage) == {_id(1), _id(2), _id(3), _id(4)}


def test_what_is_being_written_is_safe(storage: Path, words: _Words) -> None:
    """A session that is under way has traces and no run yet; its first trace may be older than a
    day.
    """
    unfinished = storage / ".0005.unfinished"
    unfinished.write_text("{")
    traces = [
        _left_trace(storage, _id(0xA), name, days) for name, days in (("001", 1.5), ("900", 0.5))
    ]
    words("prune", "--keep", "0", "--named")
    assert [path.exists() for path in (unfinished, *traces)] == [True] * 3


def test_traces_that_two_runs_have(storage: Path, words: _Words) -> None:
    """A copy of a file has the same traces, which stay while one of both does; traces of skipped
    plans go.
    """
    passed_over = _left_trace(storage, _id(3), "000-lean-1", 0)
    content = _path(storage, 1).read_text()
    _path(storage, 5).write_text(content.replace("2026-01-01T", "2026-03-01T"))
    words("prune", "--keep", "1")
    assert _numbers(storage) == [2, 5]
    assert _owners(storage) == {_id(1), _id(2)}
    assert not passed_over.exists()


def test_programs_have_traces_too(storage: Path, words: _Words) -> None:
    """A recording of `reusebench record` is a run like any other."""
    run_id = "20250101_000000-99"
    repeat = Repeat({"whole": 1}, write_trace(storage, run_id, "1", _TRACE))
    write_programs(storage, [program("detector", [repeat])], 5, "2026-01-05T00:00:00")
    assert "program" in words("list").splitlines()[5].split()
    words("prune", "--keep", "0")
    assert not (storage / "traces" / run_id).exists()
    assert run_id not in _owners(storage)


def test_damaged_files_and_what_may_be_theirs_stay(storage: Path, words: _Words) -> None:
    """Traces of a damaged file are unknown and stay; the rest is listed or removed, and the exit
    code is 1.
    """
    damaged = _path(storage, 1)
    damaged.write_text(damaged.read_text()[:5000])
    for trace in (storage / "traces" / _id(1)).iterdir():
        _age(trace, 9)
    listed = words("list", code=1)
    assert "3 runs" in listed
    printed = words("prune", "--keep", "1", code=1)
    for output in (listed, printed):
        assert f"Warning: {damaged}: cannot be read" in output
    assert _numbers(storage) == [1, 2, 4]
    assert _owners(storage) == {_id(1), _id(2), _id(4)}
    assert "kept: 3 traces that no run has, for they may be of a damaged file" in printed


def test_files_of_others_in_a_storage(storage: Path, words: _Words) -> None:
    """Files with other names, of other benchmarks, or in places where this project never writes,
    stay.
    """
    others = [
        storage / "traces" / "x" / "m.json.gz",
        storage / "traces" / "m.json.gz",
        storage / "traces" / _id(0xC) / "m.csv",
        storage / "traces" / _id(0xC) / "deeper" / "m.json.gz",
        storage / ".notes.unfinished",
        storage / "0001.unfinished",
        storage / "mechanisms.json",
        _path(storage, 8),
    ]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"benchmarks": [], "machine_info": {}, "commit_info": {}, "datetime": ""}')
        _age(path, 9)
    words("prune", "--keep", "0", "--named")
    assert [path for path in others if not path.exists()] == []


def test_a_folder_that_is_no_storage(tmp_path: Path, words: _Words) -> None:
    """A folder without a run is left alone, even if its files look like ours."""
    trace = _left_trace(tmp_path / "other", _id(1), "m", 2)
    assert "there is no run in" in words("prune", "--keep", "100", code=2, of=tmp_path / "other")
    assert trace.exists()


def test_links_are_not_followed(storage: Path, words: _Words, tmp_path: Path) -> None:
    """Links as traces, runs or their folders stay, and so do the files that they lead to."""
    elsewhere = tmp_path / "elsewhere"
    trace = _left_trace(elsewhere, _id(0xB), "001", 9)
    other_run = _run(elsewhere, 9)
    unfinished = storage / ".0007.unfinished"
    unfinished.symlink_to(trace)
    os.utime(unfinished, (0, 0), follow_symlinks=False)
    (storage / "traces" / _id(0xB)).symlink_to(trace.parent)
    inside = _left_trace(storage, _id(0xC), "001", 9)
    linked = inside.with_name("002.json.gz")
    linked.symlink_to(trace)
    os.utime(linked, (0, 0), follow_symlinks=False)
    (storage / "python").symlink_to(other_run.parent)
    first = _path(storage, 1)
    first.rename(tmp_path / "moved.json")
    first.symlink_to(tmp_path / "moved.json")
    assert (
        f"kept: 2 runs ({first.stem}, {other_run.stem}) behind links, which are not followed"
        in words("prune", "--keep", "0", "--named")
    )
    assert not inside.exists()
    assert all(path.is_symlink() for path in (linked, first, unfinished))
    assert all(path.exists() for path in (trace, other_run, tmp_path / "moved.json"))


def test_a_linked_folder_of_traces(storage: Path, words: _Words, tmp_path: Path) -> None:
    """The link's target does not belong to the storage."""
    (storage / "traces").rename(tmp_path / "traces")
    (storage / "traces").symlink_to(tmp_path / "traces")
    traces = _files(tmp_path / "traces")
    words("prune", "--keep", "0", "--named")
    assert _numbers(storage) == []
    assert _files(tmp_path / "traces") == traces


def test_a_path_in_a_file_does_not_lead_out_of_the_storage(
    storage: Path, words: _Words, tmp_path: Path
) -> None:
    """Only what is in the folder of traces is removed, whatever path a stored file has."""
    outside = tmp_path / "outside.json.gz"
    outside.touch()
    first = _path(storage, 1)
    first.write_text(
        first.read_text().replace(f"traces/{_id(1)}/no_reuse-1.json.gz", "../outside.json.gz")
    )
    words("prune", "--keep", "1")
    assert not first.exists()
    assert outside.exists()


def test_a_file_that_cannot_be_removed(words: _Words, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with the reason."""

    def refuse(path: Path, *_: Path, **__: bool) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "unlink", refuse)
    assert f"/0001_{_DATE_NAME}.json cannot be removed (Permission denied)" in words(
        "prune", "--keep", "1", code=2
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["prune", "--keep-run", "1"],
            "name the runs that are old, by --older AGE, --before DATE, --size SIZE, --keep N or",
        ),
        (["prune", "--size", "10"], "'10' is not a size; valid: a number with B, KiB, MiB, GiB"),
        (["prune", "--keep-each", "0"], "0 is not in the range x>=1"),
        (["prune", "--keep", "-1"], "-1 is not in the range x>=0"),
        (
            ["prune", "--before", "soon"],
            "'soon' is not valid; valid: 2026-11-30 or 2026-11-30T12:00",
        ),
        (["list", "--newest", "x"], "'x' is not a valid integer"),
        (["list", "--storage", "/none"], "no storage at /none. Run `reusebench bench` first"),
    ],
)
def test_mistakes(arguments: list[str], sentence: str, reusebench: Reusebench) -> None:
    """They end with exit code 2 and what is valid."""
    done = reusebench("runs", *arguments)
    assert (done.exit_code, done.out) == (2, "")
    assert sentence in done.err


def test_prune_of_the_cache(words: _Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leftovers of killed sessions are named with their size and removed; runs stay."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    left = tmp_path / "cache" / "reusebench" / "prepared" / "tmpaaaaaaaa"
    left.mkdir(parents=True)
    (left / "weights").write_bytes(bytes(3 << 19))
    assert "--cache removes no run" in words("prune", "--cache", "--keep", "1", code=2)
    assert words("prune", "--cache", "--dry-run").split("\n")[:2] == [
        f"      1.50 MiB  {left}",
        "1.50 MiB would be removed",
    ]
    assert left.exists()
    assert words("prune", "--cache").splitlines()[-1] == "1.50 MiB removed"
    assert not left.exists()
    assert words("prune", "--cache") == "0.00 MiB removed\n"
