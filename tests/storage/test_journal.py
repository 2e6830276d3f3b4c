"""The journal: what was kept is on the disk at once, in the way of nobody, and never in the way of the measurement."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.files import run_files, storages_in
from storage.journal import Journal, JournalHeld, abandoned, cut_off_hint, held, journals_in, remove_journal
from storage.maintenance.inventory import take_inventory
from tests.reports.stored import even, result, write_run

_SKELETON = {"machine_info": {}, "commit_info": {}, "datetime": "2026-01-02T03:04:05+00:00"}


def _kept(storage: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(storage.glob("journals/*/result-*.json"))]


def _all(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _leave(storage: Path, run: str = "run1", **entries: Any) -> Path:
    """Return the journal that a session of this run left when it was killed."""
    journal = Journal(storage, run, "mine", _SKELETON)
    for key, entry in entries.items():
        journal.keep(key, entry)
    _die(journal)
    return storage / "journals" / run


def _die(journal: Journal) -> None:
    """Let go of the lock, which is what is seen of a session's death."""
    assert journal._lock is not None
    os.close(journal._lock)


def _failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_what_is_kept_is_there(tmp_path: Path) -> None:
    """Each key's newest entry, in the order in which the keys came, with the run's skeleton; a path may have blanks."""
    storage = tmp_path / "my results"
    journal = Journal(storage, "run1", "mine", _SKELETON)
    for key, entry in (("b", {"at": 1}), ("a[x/y]", {"at": 2}), ("b", {"at": 3})):
        journal.keep(key, entry)
    assert _kept(storage) == [{"at": 3}, {"at": 2}]
    skeleton = json.loads((storage / "journals" / "run1" / "skeleton.json").read_text())
    assert skeleton == {"run": "run1", "name": "mine", "document": _SKELETON}
    assert len(_all(storage)) == 3
    journal.close()


def test_nothing_is_left_of_a_session_that_ended(tmp_path: Path) -> None:
    """The folder of journals goes with the last one."""
    first, second = (Journal(tmp_path, run, "same", _SKELETON) for run in ("run1", "run2"))
    first.keep("a", {})
    first.close()
    assert [path.name for path in journals_in(tmp_path)] == ["run2"]
    second.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_an_entry_is_whole_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, name, folder: whenever the power goes off, the old entry or the new one is there."""
    journal = Journal(tmp_path, "run1", "mine", _SKELETON)
    done: list[str] = []
    rename, synchronise = Path.rename, os.fsync

    def note_rename(path: Path, target: Path) -> Path:
        done.append(f"rename to {target.name}")
        return rename(path, target)

    def note_fsync(descriptor: int) -> None:
        done.append(f"fsync of {Path(f'/proc/self/fd/{descriptor}').resolve().name}")
        synchronise(descriptor)

    monkeypatch.setattr(Path, "rename", note_rename)
    monkeypatch.setattr(os, "fsync", note_fsync)
    journal.keep("a", {})
    name = "result-000001.json"
    assert done == [f"fsync of {name}.unfinished", f"rename to {name}", "fsync of run1"]
    journal.close()


def test_readers_of_runs_pass_over_it(tmp_path: Path) -> None:
    """It is no run, no storage of another board, and no bad file."""
    storage = tmp_path / "board"
    _leave(storage, a={"stats": {}})
    assert run_files(storage) == run_files(tmp_path) == []
    assert storages_in(storage) == [storage]
    assert storages_in(tmp_path) == [tmp_path]
    write_run(storage, [result(storage, "no_reuse", even(3))])
    assert storages_in(tmp_path) == [storage]
    inventory = take_inventory(storage)
    assert (len(inventory.runs), inventory.bad_files, inventory.unfinished) == (1, [], [])


def test_a_living_session_is_told_from_one_that_was_cut_off(tmp_path: Path) -> None:
    """Only the journal that nobody holds is abandoned, and only when it has results."""
    _leave(tmp_path, "empty")
    cut = _leave(tmp_path, "cut", a={})
    living = Journal(tmp_path, "living", "mine", _SKELETON)
    living.keep("a", {})
    assert abandoned(tmp_path) == [cut]
    assert [path.name for path in journals_in(tmp_path)] == ["cut", "empty", "living"]
    with pytest.raises(JournalHeld, match="still running"), held(tmp_path / "journals" / "living"):
        pass
    living.close()


def test_a_journal_that_goes_while_another_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session, or another `recover`, may have stored it between the look and the lock, or before both."""
    journal = _leave(tmp_path, a={})
    flock = fcntl.flock

    def take_late(lock: int, operation: int) -> None:
        remove_journal(journal)
        flock(lock, operation)

    monkeypatch.setattr(fcntl, "flock", take_late)
    for _ in ("between", "before"):
        with pytest.raises(JournalHeld, match="has just been stored"), held(journal):
            pass


def test_a_journal_is_one_until_nothing_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power may go off while it is removed: what is left can be found, and goes next time."""
    journal = _leave(tmp_path, a={}, b={})
    left: list[list[Path]] = []
    unlink = Path.unlink

    def note(path: Path) -> None:
        left.append(journals_in(tmp_path))
        unlink(path)

    monkeypatch.setattr(Path, "unlink", note)
    remove_journal(journal)
    assert left == [[journal]] * 3


def test_programs_that_a_session_runs_do_not_hold_its_journal(tmp_path: Path) -> None:
    """A measured process that outlives the harness for a moment is not a living session."""
    journal = Journal(tmp_path, "run1", "mine", _SKELETON)
    journal.keep("a", {})
    program = [sys.executable, "-c", "print('up', flush=True); input()"]
    child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
    assert child.stdout is not None
    child.stdout.readline()
    _die(journal)
    assert abandoned(tmp_path) == [tmp_path / "journals" / "run1"]
    child.communicate(b"\n")


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is kept all the same; whether its session lives is not known, so it is left alone."""
    monkeypatch.setattr(fcntl, "flock", _failing(errno.ENOLCK))
    journal = _leave(tmp_path, a={})
    assert abandoned(tmp_path) == []
    with (
        pytest.raises(JournalHeld, match=r"no locks \(No locks available\).*copy the storage to a local"),
        held(journal),
    ):
        pass
    monkeypatch.undo()
    assert abandoned(tmp_path) == [journal]


def test_a_full_disk_is_said_once_and_does_not_stop_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry that there was stays, no half of a new one does, and where there is room again it goes on."""
    journal = Journal(tmp_path, "run1", "mine", _SKELETON)
    journal.keep("a", {"at": 1})
    files = _all(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _failing(errno.ENOSPC))
        with pytest.warns(UserWarning, match="No space left on device.*goes on"):
            journal.keep("a", {"at": 2})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for key in ("a", "b"):
                journal.keep(key, {"at": 3})
    assert (_all(tmp_path), _kept(tmp_path)) == (files, [{"at": 1}])
    journal.keep("b", {"at": 4})
    assert _kept(tmp_path) == [{"at": 1}, {"at": 4}]
    journal.close()


def test_a_storage_that_cannot_be_written_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal begins with the first entry that can be kept."""
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", _failing(errno.EROFS))
        with pytest.warns(UserWarning, match="Read-only file system"):
            journal = Journal(tmp_path, "run1", "mine", _SKELETON)
        journal.keep("a", {"at": 1})
    journal.close()
    assert list(tmp_path.iterdir()) == []
    journal.keep("a", {"at": 2})
    assert _kept(tmp_path) == [{"at": 2}]
    assert len(journals_in(tmp_path)) == 1
    journal.close()


def test_a_journal_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is stored, so it is a warning; `recover` sees that it is stored."""
    journal = Journal(tmp_path, "run1", "mine", _SKELETON)
    monkeypatch.setattr(Path, "unlink", _failing(errno.EACCES))
    with pytest.warns(UserWarning, match="cannot be removed.*its run is stored"):
        journal.close()


def test_the_hint_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the storage as the user would have to write it; without one where it is this board's."""
    monkeypatch.chdir(tmp_path)
    assert cut_off_hint(Path("my results")) is None
    _leave(Path("my results"), "run1", a={})
    said = cut_off_hint(Path("my results"))
    assert said is not None
    assert said.startswith("a session was cut off, and its results are not stored as a run yet; `python -m storage")
    assert said.endswith("recover --storage 'my results'` stores them")
    _leave(Path("my results"), "run2", a={})
    assert str(cut_off_hint(Path("my results"))).startswith("2 sessions were cut off, and their results")
    assert str(cut_off_hint(Path())).startswith("2 sessions"), "the folder of several storages"
    monkeypatch.setattr("storage.journal.board_storage", lambda: Path("my results"))
    assert "`python -m storage recover`" in str(cut_off_hint(Path("my results")))


def test_a_session_that_is_not_cut_off_says_nothing(tmp_path: Path) -> None:
    """No warning where all goes well."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        journal = Journal(tmp_path, "run1", "mine", _SKELETON)
        journal.keep("a", {})
        journal.close()
    assert cut_off_hint(tmp_path) is None
