"""Runs are written: whole or not at all, each under a number of its own."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.utils import get_machine_id
from storage.files import StoredFile, read_storage
from storage.writing import RunNameInvalid, run_number, save_run

from storage import writing
from tests.reports.stored import even, result, write_run

_FORK = multiprocessing.get_context("fork")


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """Return a run as pytest-benchmark makes it."""
    path = write_run(tmp_path / "made", [result(tmp_path / "made", "no_reuse", even(3))])
    made: dict[str, Any] = json.loads(path.read_text())
    return made


def _start(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = _FORK.Process(target=work, args=arguments)
    process.start()
    return process


def _save_many(storage: Path, name: str, count: int, document: dict[str, Any]) -> None:
    for _ in range(count):
        save_run(storage, {**document, "writer": name}, name)


def _numbers(storage: Path) -> list[int]:
    return sorted(run_number(path) or 0 for path in storage.glob("*/*.json"))


def test_a_run_is_where_pytest_benchmark_would_put_it(tmp_path: Path, document: dict[str, Any]) -> None:
    """Its folder and its name are those of the plugin, its content comes back, and nothing else is left."""
    path = save_run(tmp_path / "new" / "storage", document, "mine")
    python = get_machine_id()  # type: ignore[no-untyped-call]
    assert path == tmp_path / "new" / "storage" / python / "0001_mine.json"
    assert json.loads(path.read_text()) == document
    assert list((tmp_path / "new" / "storage").iterdir()) == [path.parent]


def test_a_run_is_stored_without_blanks(tmp_path: Path, document: dict[str, Any]) -> None:
    """Indentation would more than double what a storage takes."""
    path = save_run(tmp_path, document, "mine")
    assert path.stat().st_size < len(json.dumps(document))


def test_what_json_has_no_form_for(tmp_path: Path) -> None:
    """A parameter of another test may be anything; it is stored as pytest-benchmark does."""
    path = save_run(tmp_path, {"params": {"of": errno}}, "mine")
    assert json.loads(path.read_text())["params"]["of"].startswith("UNSERIALIZABLE[<module 'errno'")


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "*"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    """It is refused with what is valid, and nothing is written."""
    with pytest.raises(RunNameInvalid, match="cannot be the name of a run; valid: one character or more"):
        save_run(tmp_path, {}, name)
    assert list(tmp_path.iterdir()) == []


def test_numbers_go_on_over_all_pythons_and_past_9999(tmp_path: Path, document: dict[str, Any]) -> None:
    """A number is unique in the storage; pytest-benchmark's own count ends at four digits."""
    write_run(tmp_path, [], 41)
    (tmp_path / "Linux-CPython-3.9-64bit").mkdir()
    for name in ("9999_last.json", "notes.json", "12345.json"):
        (tmp_path / "Linux-CPython-3.9-64bit" / name).write_text("{}")
    assert [save_run(tmp_path, document, "x").name for _ in range(2)] == ["10000_x.json", "10001_x.json"]
    files = [each.path.name for each in read_storage(tmp_path) if isinstance(each, StoredFile)]
    assert files == ["10000_x.json", "10001_x.json"]


def test_runs_are_read_in_the_order_of_their_numbers(tmp_path: Path, document: dict[str, Any]) -> None:
    """Also where one has a digit more."""
    folder = write_run(tmp_path, [], 1).parent
    for number in (9999, 10000, 2):
        (folder / f"{number:04}_x.json").write_text(json.dumps(document))
    assert [each.path.name[:5] for each in read_storage(tmp_path)] == ["0002_", "9999_", "10000"]


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path, document: dict[str, Any]) -> None:
    """Every run is there, under a number of its own, whether the names are the same or not."""
    names = ["same", "same", "other", "third"]
    writers = [_start(_save_many, tmp_path, name, 12, document) for name in names]
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert _numbers(tmp_path) == list(range(1, 49))
    written = [json.loads(path.read_text())["writer"] for path in tmp_path.glob("*/*.json")]
    assert {name: written.count(name) for name in names} == {"same": 24, "other": 12, "third": 12}
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_a_number_that_another_writer_has_just_used(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the storage and the claim another one may begin and end."""
    looks: Iterator[set[int]] = iter([set()])
    look = writing._numbers
    save_run(tmp_path, document, "first")
    monkeypatch.setattr(writing, "_numbers", lambda storage: next(looks, look(storage)))
    assert run_number(save_run(tmp_path, document, "second")) == 2
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_a_writer_that_is_killed_leaves_a_whole_file_or_none(tmp_path: Path, document: dict[str, Any]) -> None:
    """At whatever moment; and the next writer goes on."""
    document["padding"] = ["x" * 1000] * 2000
    for index in range(25):
        writer = _start(_save_many, tmp_path, "killed", 1000, document)
        time.sleep(0.005 + 0.003 * index)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    found = list(read_storage(tmp_path))
    assert found, "every writer was killed before it had written anything"
    assert [each for each in found if not isinstance(each, StoredFile)] == []
    save_run(tmp_path, document, "next")
    numbers = _numbers(tmp_path)
    assert len(set(numbers)) == len(numbers) == len(found) + 1


def test_a_disk_that_is_full(tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the system's, and no half of a file stays behind."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left on device"):
        save_run(tmp_path / "full", document, "mine")
    assert [path for path in (tmp_path / "full").rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_synchronised(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems cannot do it; the run is written all the same."""
    synchronise = os.fsync

    def fail_on_folders(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        synchronise(descriptor)

    monkeypatch.setattr(os, "fsync", fail_on_folders)
    assert save_run(tmp_path, document, "mine").exists()
