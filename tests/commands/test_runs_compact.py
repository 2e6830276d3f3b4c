"""`reusebench runs compact` and `expand`: what they choose, change and say."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.support import Reusebench
from tests.reports.stored import even, result, write_run

_Words = Callable[..., str]
_MIB = 2**20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of three runs, of which the last is unfinished; it is only copied."""
    storage = tmp_path_factory.mktemp("runs")
    for number in (1, 2, 3):
        info = result(storage, "no_reuse", even(3, 1), run=f"{number:012x}")
        moment = f"2026-01-{number:02}T10:00:00"
        write_run(storage, [info], number, moment, is_finished=number != 3)
    return storage


@pytest.fixture
def storage(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the storage."""
    return Path(shutil.copytree(made, tmp_path / "storage"))


@pytest.fixture
def words(storage: Path, reusebench: Reusebench) -> _Words:
    """Return words(arguments.., code=0): what the command prints, standard error last."""

    def run(*arguments: str, code: int = 0) -> str:
        done = reusebench("runs", *arguments, "--storage", storage)
        assert done.exit_code == code, done
        return done.out + done.err

    return run


def _sizes(storage: Path, of: str) -> dict[str, int]:
    """Return the sizes of the files of these runs, by their digits, and their traces."""
    sizes = {}
    for path in storage.rglob("*"):
        number = path.name[:4] if path.suffix != ".gz" else f"000{path.parent.name[-1]}"
        if path.is_file() and number[-1] in of:
            sizes[path.relative_to(storage).as_posix()] = path.stat().st_size
    return sizes


def _compacted(storage: Path) -> list[int]:
    return sorted(int(path.name[:4]) for path in storage.glob("*/*.json.xz"))


def test_a_dry_run_counts_what_is_saved(storage: Path, words: _Words) -> None:
    """It compresses in memory, changes nothing, and says the sizes that the command then gets."""
    before = {path: path.read_bytes() for path in storage.rglob("*.*") if path.is_file()}
    dry = words("compact", "--dry-run")
    assert {path: path.read_bytes() for path in storage.rglob("*.*") if path.is_file()} == before
    old_bytes = sum(len(content) for content in before.values())
    printed = words("compact")
    new_bytes = sum(path.stat().st_size for path in storage.rglob("*.*") if path.is_file())
    assert printed == dry.replace("would be compacted", "compacted")
    assert "kept: 1 run (0003_run) without an end" in printed
    assert "2 runs compacted, 4 files with traces: " in printed
    result = json.loads(words("expand", "--dry-run", "--json").partition("\n/")[0])["result"]
    assert result["after_bytes"] - result["before_bytes"] == pytest.approx(
        old_bytes - new_bytes, abs=100
    )


def test_runs_are_chosen_by_age_and_number(storage: Path, words: _Words) -> None:
    """An age or a date, and all but each board's newest; `expand` takes references."""
    words("compact", "--before", "2026-01-02")
    assert _compacted(storage) == [1]
    words("expand", "1")
    assert _compacted(storage) == []
    words("compact", "--keep", "2")
    assert _compacted(storage) == [1]
    words("compact", "--older", "1d")
    assert _compacted(storage) == [1, 2]
    assert "0 runs compacted, 0 files" in words("compact")
    words("expand")
    assert _compacted(storage) == []


def test_commands_read_what_is_compacted(storage: Path, words: _Words) -> None:
    """The list is the same but for sizes; a run goes with its compacted traces."""
    before = words("list")
    words("compact")
    after = words("list")
    assert [line.split()[:-1] for line in after.splitlines()[:-1]] == [
        line.split()[:-1] for line in before.splitlines()[:-1]
    ]
    size = int(float(after.splitlines()[-1].split()[2]) * _MIB)
    assert size == pytest.approx(
        sum(path.stat().st_size for path in storage.rglob("*.*") if path.is_file()), abs=_MIB / 100
    )
    words("prune", "--keep", "1", "--named")
    assert _compacted(storage) == []
    assert [path.name for path in (storage / "traces").iterdir()] == [f"{3:012x}"]


def test_links_and_files_without_rights(
    storage: Path, words: _Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linked runs are named and stay; a full or closed storage is an error with its remedy."""
    (first, *_) = sorted(storage.glob("*/*.json"))
    first.rename(tmp_path / "moved.json")
    first.symlink_to(tmp_path / "moved.json")
    for number, remedy in (
        (errno.ENOSPC, "Free as much space as its largest file has; the same command goes on"),
        (errno.EROFS, "Give this user the right to write there; the same command goes on"),
    ):

        def refuse(*_: object, number: int = number, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", refuse)
            refusal = words("compact", code=2)
        assert f"cannot be written ({os.strerror(number)}), and no run is lost. {remedy}" in refusal
    assert "kept: 1 run (0001_run) behind links, which are not followed" in words("compact")
    assert first.is_symlink()
    assert _compacted(storage) == [2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compact", "--older", "soon"], "'soon' is not an age; valid: a number with h, d, w, y"),
        (
            ["compact", "--older", "1d", "--before", "2026-01-01"],
            "--older and --before are one rule: leave one of them out",
        ),
        (["expand", "99..100"], "there is no run '99'"),
    ],
)
def test_mistakes(arguments: list[str], sentence: str, words: _Words) -> None:
    """They end with exit code 2 and what is valid."""
    assert sentence in words(*arguments, code=2)
