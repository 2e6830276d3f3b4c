"""References to runs, and the message for a reference that matches none."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from reusebench.storage.errors import StorageError
from reusebench.storage.references import find_runs
from reusebench.storage.run_file import BadFile, Commit
from reusebench.storage.runs import Run, read_runs
from tests.reports.stored import even, result, write_run

pytestmark = pytest.mark.process

_NOWHERE = Path("/proc")  # no git repository


def _run(
    number: int,
    name: str = "20261101_120000",
    at: int | None = None,
    folder: str = "Linux",
    **more: object,
) -> Run:
    path = Path(f"/storage/{folder}/{number:04}_{name}.json")
    day = number if at is None else at
    at_time = f"2026-11-{day:02}T12:00:00+00:00"
    order = (at_time, number, path.name)
    run = Run(
        path,
        number,
        name,
        at_time,
        ("board-123456",),
        None,
        False,
        order,
        is_dated=True,
        is_finished=True,
        runtimes=(),
        ok=0,
        failed=0,
        measured=(),
    )
    return dataclasses.replace(run, **more)  # type: ignore[arg-type]


_RUNS = [_run(1), _run(2, "main"), _run(3, "main"), _run(4), _run(12, at=5)]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("1", [1]),
        ("0012", [12]),
        ("main", [2, 3]),
        ("0002_main", [2]),
        ("0003_main.json", [3]),
        ("20261101_120000", [1, 4, 12]),
        ("latest", [12]),
        ("latest~0", [12]),
        ("latest~1", [4]),
        ("latest~4", [1]),
        ("2..4", [2, 3, 4]),
        ("4..12", [4, 12]),
        ("3..3", [3]),
        ("latest~2..latest", [3, 4, 12]),
        ("0002..latest~1", [2, 3, 4]),
        ("..", [1, 2, 3, 4, 12]),
        ("4..", [4, 12]),
        ("..latest~2", [1, 2, 3]),
    ],
)
def test_words_that_mean_stored_runs(words: str, numbers: list[int]) -> None:
    """Numbers, names, the newest runs, and ranges that include both ends."""
    assert [run.number for run in find_runs(words, _RUNS, _NOWHERE)] == numbers


def test_time_decides_and_not_the_number() -> None:
    """After a clock is set, a later number may have an earlier date; ranges go by the date."""
    runs = [_run(1, at=9), _run(2, at=3), _run(3, at=8), _run(4, at=1)]
    assert [run.number for run in find_runs("latest", runs, _NOWHERE)] == [1]
    assert [run.number for run in find_runs("2..1", runs, _NOWHERE)] == [2, 3, 1]


def test_runs_of_one_number_in_two_storages() -> None:
    """Each storage has its own numbers: a number means both runs, a range includes both ends."""
    runs = [
        _run(1, at=1),
        _run(1, at=3, folder="Other"),
        _run(2, at=2),
        _run(2, at=4, folder="Other"),
    ]
    assert [run.recorded_at[8:10] for run in find_runs("1", runs, _NOWHERE)] == ["01", "03"]
    assert len(find_runs("1..2", runs, _NOWHERE)) == 4


def test_a_number_comes_before_a_name_and_a_name_before_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored runs win over paths; a leading `./` makes a reference a path."""
    write_run(tmp_path / "main", [result(tmp_path / "main", "no_reuse", even(3))], 7)
    monkeypatch.chdir(tmp_path)
    runs = [*_RUNS, _run(6, "12")]
    assert [run.number for run in find_runs("12", runs, _NOWHERE)] == [12]
    assert [run.number for run in find_runs("main", runs, _NOWHERE)] == [2, 3]
    assert [run.number for run in find_runs("./main", runs, _NOWHERE)] == [7]


def test_a_run_that_is_not_finished_is_meant_by_its_number_and_path_alone(
    tmp_path: Path, project: Path
) -> None:
    """An unfinished run may still grow, or has lost its end: no other reference matches it."""
    commit = _git(project, "rev-parse", "HEAD")
    info = result(tmp_path, "no_reuse", even(3))
    for number, is_finished in enumerate((True, True, False), start=1):
        path = write_run(
            tmp_path,
            [info],
            number,
            f"2026-01-0{number}T00:00:00",
            Commit(id=commit),
            is_finished=is_finished,
        )
    runs = [run for run in read_runs(tmp_path) if isinstance(run, Run)]
    numbers = {
        words: [run.number for run in find_runs(words, runs, project)] for words in ("3", str(path))
    }
    assert numbers == {"3": [3], str(path): [3]}
    for words in ("run", "HEAD", "1..latest", str(tmp_path)):
        assert [run.number for run in find_runs(words, runs, project)] == [1, 2]
    assert [run.number for run in find_runs("latest", runs, project)] == [2]
    for words in ("1..3", "0003_run"):
        with pytest.raises(StorageError, match="there is no run"):
            find_runs(words, runs, project)


def test_paths(tmp_path: Path) -> None:
    """A path names a file, a storage, or a folder with the storages of several boards."""
    for board, number in (("one", 1), ("one", 2), ("two", 3)):
        at = f"2026-01-0{number}T00:00:00"
        path = write_run(
            tmp_path / board, [result(tmp_path / board, "no_reuse", even(3))], number, at
        )
    assert [run.path for run in find_runs(str(path), [], _NOWHERE)] == [path]
    assert [run.number for run in find_runs(str(tmp_path / "one"), [], _NOWHERE)] == [1, 2]
    assert [run.number for run in find_runs(str(tmp_path), [], _NOWHERE)] == [1, 2, 3]


def test_a_damaged_file_of_a_storage_is_named(tmp_path: Path) -> None:
    """A damaged file hides no other run."""
    good = write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
    good.with_name("0002_cut.json").write_text(good.read_text()[:1000])
    bad_files: list[BadFile] = []
    assert [run.path for run in find_runs(str(tmp_path), [], _NOWHERE, bad_files.append)] == [good]
    assert [file.path.name for file in bad_files] == ["0002_cut.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"benchmarks": [', r"0001_x.json: cannot be read .* Name another file"),
        (
            '{"benchmarks": [], "machine_info": {}, "commit_info": {}, "datetime": "2026-01-01"}',
            "it has no results of this project",
        ),
    ],
)
def test_a_file_that_is_named_and_has_no_run(tmp_path: Path, content: str, message: str) -> None:
    """A path to a file without a run is an error with the reason."""
    path = tmp_path / "0001_x.json"
    path.write_text(content)
    with pytest.raises(StorageError, match=message):
        find_runs(str(path), _RUNS, _NOWHERE)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with three commits: the second is tagged v1, the first has a branch."""
    folder = tmp_path_factory.mktemp("project")
    _git(folder, "init", "--quiet", "--initial-branch=trunk")
    for name in ("first", "second", "third"):
        _git(folder, "commit", "--quiet", "--allow-empty", "-m", name)
    _git(folder, "tag", "-a", "-m", "one", "v1", "HEAD~1")
    _git(folder, "branch", "feature/x", "HEAD~2")
    return folder


def _git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def _of_commits(project: Path) -> list[Run]:
    first, second, third = (_git(project, "rev-parse", f"HEAD~{back}") for back in (2, 1, 0))
    commits = [(first, False), (first, True), (second, False), (second, False), (third, True)]
    return [
        _run(number, commit=commit, is_dirty=dirty)
        for number, (commit, dirty) in enumerate(commits, start=1)
    ]


def test_git_revisions(project: Path) -> None:
    """Branches, tags, what git counts from them and the start of a commit; runs of changed files
    are passed over.
    """
    runs = _of_commits(project)
    for words in ("v1", "HEAD~1", _git(project, "rev-parse", "HEAD~1")[:8]):
        assert [run.number for run in find_runs(words, runs, project)] == [3, 4]
    for words in ("feature/x", "trunk~2"):
        assert [run.number for run in find_runs(words, runs, project)] == [1]


def test_a_commit_without_runs_of_its_own(project: Path) -> None:
    """Those of changed files are named; else the commits of which there are runs, the newest
    first.
    """
    runs = _of_commits(project)
    with pytest.raises(
        StorageError, match=r"'HEAD' is the commit \w{10}, .*: 0005_\w+\. Name one of them"
    ):
        find_runs("HEAD", runs, project)
    first, second = (_git(project, "rev-parse", f"HEAD~{back}")[:10] for back in (2, 1))
    with pytest.raises(
        StorageError, match=rf"no run of it is stored; there are runs of {second}, {first}\."
    ):
        find_runs("HEAD", runs[:4], project)
    with pytest.raises(StorageError, match="no run has a commit"):
        find_runs("HEAD", _RUNS, project)


def test_without_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git no reference is a revision; all others work."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(StorageError, match="there is no run 'HEAD'"):
        find_runs("HEAD", _RUNS, project)
    assert find_runs("latest", _RUNS, project)


@pytest.mark.parametrize(
    "words",
    ["99", "latest~5", "1..99", "latest~9..2", "nothing", "--all", "", "a..b", "latest~x", "..99"],
)
def test_words_that_mean_nothing(project: Path, words: str) -> None:
    """The message repeats the reference, or the wrong end of a range, and lists valid ones."""
    unknown = {"1..99": "99", "..99": "99", "latest~9..2": "latest~9"}.get(words, words)
    with pytest.raises(StorageError) as error:
        find_runs(words, _RUNS, project)
    message = str(error.value)
    assert message.startswith(f"there is no run {unknown!r}. Valid: a number, a name, `latest`")
    assert message.endswith("Stored: 5 runs; numbers 1-4, 12; names main")


@pytest.mark.parametrize(
    ("words", "runs", "message"),
    [
        ("4..2", _RUNS, r"'4\.\.2': 2 is older than 4; the older one comes first: 2\.\.4"),
        ("latest~1", _RUNS[:1], r"Stored: 1 run; numbers 1$"),
        ("latest", [], r"Stored: no runs$"),
    ],
)
def test_words_that_do_not_fit_what_is_stored(words: str, runs: list[Run], message: str) -> None:
    """A reversed range is refused; `latest` of no runs is an error."""
    with pytest.raises(StorageError, match=message):
        find_runs(words, runs, _NOWHERE)


def test_a_message_stays_short(project: Path) -> None:
    """Messages are short even with a thousand stored runs."""
    runs = [
        _run(2 * number, f"name{number}", 1, commit=f"{number:010}{0:030}")
        for number in range(1, 1001)
    ]
    for words in ("nothing", "HEAD"):
        with pytest.raises(StorageError) as error:
            find_runs(words, runs, project)
        assert "and 99" in str(error.value)
        assert len(str(error.value)) < 600
