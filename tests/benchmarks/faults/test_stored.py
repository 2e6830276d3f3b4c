"""The campaign of stored files notices faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import click
import matplotlib.font_manager  # noqa: F401  with another home it would start fc-list
import pytest

from benchmarks.faults import mutants, stored
from benchmarks.faults.mutants import Mutant
from benchmarks.faults.readers import odd_text
from benchmarks.faults.samples import Samples
from benchmarks.faults.stored import Stored
from benchmarks.faults.trial import Answer, Kind, Trial
from reusebench.commands import runs
from reusebench.reports.sections.programs import ProgramsSection
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.maintenance import pruning

#: Index of an input without a page, that is not changed by its schema.
_INDEX = 2
#: Index of an input that is, without figures.
_BY_SCHEMA = 3
_FILE = Path("Linux-CPython-3.11-64bit", "0002_mutant.json")

Try = Callable[[Callable[[Path], None]], Trial]


@pytest.fixture
def try_file(samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Try:
    """Return try_file(write), which lets the campaign try a file with the name `mutant`."""
    for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, "changed by the campaign")

    def try_file(write: Callable[[Path], None]) -> Trial:
        mutant = Mutant("a file", "mutant", lambda storage: write(storage / _FILE))
        monkeypatch.setattr(stored, "make_mutant", lambda *_: mutant)
        return Stored(samples, 0, tmp_path / "kept").try_input(_INDEX, tmp_path / "work")

    return try_file


def _write_damaged(path: Path) -> None:
    path.write_text("{", encoding="utf-8")


def _copy(file: Path, path: Path) -> None:
    path.write_bytes(file.read_bytes())


def _kinds(trial: Trial) -> set[Kind]:
    return {wrong.kind for wrong in trial.wrongs}


def test_a_file_that_is_named_is_refused(try_file: Try) -> None:
    """A damaged file next to a good run is refused, which is no fault."""
    trial = try_file(_write_damaged)
    assert (trial.answer, trial.wrongs) == (Answer.REFUSED, ())
    assert trial.peak_rss_bytes > 0


def test_a_valid_file_survives(try_file: Try, samples: Samples) -> None:
    """An unchanged run is shown."""
    (run,) = samples.storage.glob("*/0*.json")
    trial = try_file(lambda path: _copy(run, path))
    assert (trial.answer, trial.wrongs) == (Answer.SURVIVED, ())


def test_a_traceback_is_noticed_and_its_file_kept(
    try_file: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error is named by the line that raised it, and its input is kept."""
    monkeypatch.setattr(runs, "_cells", lambda *_: [][0])
    trial = try_file(_write_damaged)
    assert Kind.TRACEBACK in _kinds(trial)
    assert any(wrong.place.startswith("IndexError at tests/") for wrong in trial.wrongs)
    kept = tmp_path / "kept" / "stored" / str(_INDEX)
    assert "IndexError" in (kept / "wrong.txt").read_text(encoding="utf-8")
    assert (kept / "storage" / _FILE).read_text(encoding="utf-8") == "{"


def test_a_hang_is_noticed(try_file: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without end is stopped and counts as a hang."""
    monkeypatch.setattr(stored, "_COMMAND_LIMIT_S", 0.2)
    monkeypatch.setattr(StoredRuns, "open", lambda *_, **__: _wait())
    assert Kind.HANG in _kinds(try_file(_write_damaged))


def _wait() -> None:
    while True:
        pass


def test_a_lost_run_is_noticed(try_file: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad file must not hide a good one."""
    open_all = StoredRuns.open

    def without_runs(folders: list[Path], **_: bool) -> StoredRuns:
        stored = open_all(folders)
        stored.runs.clear()
        return stored

    monkeypatch.setattr(StoredRuns, "open", without_runs)
    assert Kind.LOST in _kinds(try_file(_write_damaged))


def test_raw_text_is_noticed(try_file: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control character that reaches the terminal is wrong."""
    monkeypatch.setattr(
        runs, "warn", lambda file: click.echo(f"\x1b[2J{file}", err=True, color=True)
    )
    assert Kind.FALSE in _kinds(try_file(_write_damaged))


def test_a_foreign_file_that_is_removed_is_noticed(
    try_file: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that only shows must not remove files behind a link."""
    monkeypatch.setattr(
        pruning, "_remove_files", lambda *_: (tmp_path / "work" / "foreign" / "file").unlink()
    )
    trial = try_file(_write_damaged)
    assert any("foreign" in wrong.place for wrong in trial.wrongs)


def test_elements_and_formulas_are_noticed(tmp_path: Path) -> None:
    """A stored text must not become an element of a page or a formula; escaped text is fine."""
    page = tmp_path / "index.html"
    table = tmp_path / "runs.csv"
    page.write_text("<html><p>&lt;faultmarker&gt;</p></html>", encoding="utf-8")
    table.write_text("name\n'=faultformula(1)\n", encoding="utf-8")
    assert [*stored.file_wrongs(page), *stored.file_wrongs(table)] == []
    page.write_text("<html><p><faultmarker></p>", encoding="utf-8")
    table.write_text("name\n=faultformula(1)\n", encoding="utf-8")
    assert len([*stored.file_wrongs(page)]) == 2  # it has no end, either
    assert len([*stored.file_wrongs(table)]) == 1


def test_mutants_are_the_same_for_the_same_number(
    samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed and an index make the same file again."""
    monkeypatch.setattr(mutants, "_SHARES", {"run": 1})

    def files(folder: str) -> dict[str, bytes]:
        mutant = mutants.make_mutant(samples, random.Random("stored 0 4"), 4, 0)
        mutant.write(tmp_path / folder)
        paths = (path for path in (tmp_path / folder).rglob("*") if path.is_file())
        return {str(path.relative_to(tmp_path / folder)): path.read_bytes() for path in paths}

    assert files("first") == files("second") != {}


def test_a_page_that_cannot_be_made_is_noticed(
    samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every input that is changed by its schema is made into pages, and their words are read."""
    for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, "changed by the campaign")
    campaign = Stored(samples, 0, tmp_path / "kept")
    assert campaign.try_input(_BY_SCHEMA, tmp_path / "work").wrongs == ()
    monkeypatch.setattr(ProgramsSection, "applies", lambda *_: [][0])
    wrongs = campaign.try_input(_BY_SCHEMA, tmp_path / "work").wrongs
    assert {wrong.kind for wrong in wrongs} == {Kind.TRACEBACK}


def test_values_without_words_are_noticed(tmp_path: Path) -> None:
    """A page may say `nan` in code, and as a part of a word."""
    page = tmp_path / "index.html"
    page.write_text("<p>banana, nan-1</p><pre>nan</pre>", encoding="utf-8")
    assert [*odd_text(page)] == []
    page.write_text("<td>nan</td>", encoding="utf-8")
    assert [wrong.kind for wrong in odd_text(page)] == [Kind.FALSE]
