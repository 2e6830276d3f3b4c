"""Compaction: no figure is lost, whatever ends it, and whoever reads or removes meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.storage.compacted import encoded
from reusebench.storage.maintenance import compaction
from reusebench.storage.maintenance.compaction import FormChange
from reusebench.storage.run_file import StoredRun, read_storage, run_files
from reusebench.storage.trace import Trace, read_trace
from tests.reports.stored import even, result, write_run
from tests.storage.maintenance.killing import is_killed

_ID = f"{1:012x}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of a run with one trace; it is only copied."""
    storage = tmp_path_factory.mktemp("made") / "storage"
    write_run(storage, [result(storage, "no_reuse", even(3, 1), run=_ID)])
    return storage


@pytest.fixture
def storage(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the storage."""
    return Path(shutil.copytree(made, tmp_path / "storage"))


def _figures(storage: Path) -> list[Any]:
    """Return all that the storage has, by what is read: each run once, with its traces."""
    figures = []
    for file in read_storage(storage):
        assert isinstance(file, StoredRun), file
        traces = []
        for stored in file.results:
            for repeat in stored.info.repeats:
                assert repeat.trace
                traces.append(read_trace(storage, repeat.trace, Trace))
        assert None not in traces
        figures.append((file.file_name, file.order, msgspec.to_builtins(file.results), traces))
    return figures


def _names(storage: Path) -> set[str]:
    return {path.relative_to(storage).as_posix() for path in storage.rglob("*") if path.is_file()}


def _contents(storage: Path) -> dict[str, bytes]:
    return {name: (storage / name).read_bytes() for name in _names(storage)}


def _change(storage: Path, is_compaction: bool = True) -> FormChange:
    change = FormChange(storage, is_compaction)
    for path in run_files(storage):
        change.change(path)
    return change


def test_there_and_back(storage: Path) -> None:
    """The figures are equal in both forms; the run is bit-equal when it is expanded, with its time
    and rights.
    """
    (path,) = run_files(storage)
    path.chmod(0o640)
    os.utime(path, ns=(7, 1_700_000_000_123_456_789))
    before, content, status = _figures(storage), path.read_bytes(), path.stat()
    assert _change(storage).left == {}
    assert all(name.endswith(".json.xz") for name in _names(storage))
    assert _figures(storage) == before
    (compacted,) = run_files(storage)
    assert compacted.stat().st_size < status.st_size / 4
    assert compacted.stat().st_mtime_ns == status.st_mtime_ns
    _change(storage, is_compaction=False)
    assert _figures(storage) == before
    assert path.read_bytes() == content
    assert (path.stat().st_mode, path.stat().st_mtime_ns) == (status.st_mode, status.st_mtime_ns)
    assert not any(name.endswith(".xz") for name in _names(storage))


@pytest.mark.process
@pytest.mark.parametrize("is_compaction", [True, False])
def test_killed_at_every_step(made: Path, tmp_path: Path, is_compaction: bool) -> None:
    """Every figure can be read after a kill before each call that changes a file, each run once;
    the same command goes on to the same files as one that was never killed.
    """
    first = Path(shutil.copytree(made, tmp_path / "first"))
    before = _figures(first)
    if not is_compaction:
        _change(first)
    whole = Path(shutil.copytree(first, tmp_path / "whole"))
    _change(whole, is_compaction)
    number = 0
    while True:
        number += 1
        storage = Path(shutil.copytree(first, tmp_path / str(number)))
        if not is_killed(number, lambda: _change(storage, is_compaction)):  # noqa: B023
            break
        assert _figures(storage) == before, number
        assert _change(storage, is_compaction).left == {}
        assert _contents(storage) == _contents(whole), number
        shutil.rmtree(storage)
    # Each of two files is opened, written beside, read back, renamed and removed.
    assert number > 2 * 8


def test_two_forms_that_differ(storage: Path) -> None:
    """Neither is removed: one of them may be the only copy of its figures."""
    (path,) = run_files(storage)
    other = path.with_name(f"{path.name}.xz")
    for content in (b"other", encoded(other.name, b"{}")):
        other.write_bytes(content)
        change = _change(storage)
        assert list(change.left) == [path]
        assert f"{other.name} is beside it and differs" in change.left[path]
        assert (other.read_bytes(), path.exists()) == (content, True)


def test_a_damaged_trace_stays(storage: Path) -> None:
    """It is named with the reason, and the rest is compacted."""
    trace = sorted((storage / "traces" / _ID).iterdir())[0]
    trace.write_bytes(trace.read_bytes()[:-30])
    change = _change(storage)
    assert change.left == {trace: "its compression: it is cut off"}
    assert trace.exists()
    assert [name.endswith(".xz") for name in sorted(_names(storage))] == [True, False]


def test_a_run_that_changes_meanwhile(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another has replaced or removed since it was read is neither changed nor made
    again.
    """
    (path,) = run_files(storage)
    content = path.read_bytes()

    def replaced(name: str, plain: bytes) -> bytes:
        if name == f"{path.name}.xz":
            path.unlink()
            path.write_bytes(content + b"\n")
        return encoded(name, plain)

    monkeypatch.setattr(compaction, "encoded", replaced)
    assert _change(storage).left == {path: "it was changed meanwhile"}
    assert path.read_bytes() == content + b"\n"

    def removed(name: str, plain: bytes) -> bytes:
        path.unlink()
        return encoded(name, plain)

    monkeypatch.setattr(compaction, "encoded", removed)
    assert _change(storage).left == {}
    assert run_files(storage) == []


def test_a_full_disk(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the system's; nothing is lost or left behind, and one file's space is enough."""
    before = _figures(storage)
    largest = 0

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    names = _names(storage)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            _change(storage)
    assert (_names(storage), _figures(storage)) == (names, before)

    rename = os.rename

    def measured(*arguments: Any, **options: Any) -> None:
        nonlocal largest
        largest = max(largest, len(_names(storage)))
        rename(*arguments, **options)

    monkeypatch.setattr(os, "rename", measured)
    _change(storage)
    assert largest == len(names) + 1


def test_links_are_not_followed(storage: Path, tmp_path: Path) -> None:
    """A trace, or a folder of traces, that is a link stays one, and its target stays as it is."""
    folder = storage / "traces" / _ID
    trace = sorted(folder.iterdir())[0]
    trace.rename(tmp_path / "trace.json.gz")
    trace.symlink_to(tmp_path / "trace.json.gz")
    _change(storage)
    assert trace.is_symlink()
    _change(storage, is_compaction=False)
    folder.rename(tmp_path / "folder")
    folder.symlink_to(tmp_path / "folder")
    content = _contents(tmp_path / "folder")
    _change(storage)
    assert _contents(tmp_path / "folder") == content
