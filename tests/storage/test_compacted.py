"""Compacted files: runs and traces are read in either form, each once, and never too much."""

from __future__ import annotations

import gzip
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.storage import run_file
from reusebench.storage.compacted import decoded, encoded
from reusebench.storage.decoding import MOST_BYTES
from reusebench.storage.references import find_runs
from reusebench.storage.run_file import (
    BadFile,
    StoredRun,
    read_run_file,
    read_storage,
    run_files,
    save_run,
    storages_in,
)
from reusebench.storage.runs import Run, read_runs
from reusebench.storage.trace import Trace, is_trace, read_trace
from tests.reports.stored import even, result, write_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a run's file in a storage, and the path of its first trace inside the storage."""
    storage = tmp_path_factory.mktemp("storage")
    info = result(storage, "no_reuse", even(3))
    trace = info.repeats[0].trace
    assert trace
    return write_run(storage, [info], 7), trace


@pytest.fixture
def run(made: tuple[Path, str], tmp_path: Path) -> Path:
    """Return a copy of the run's file in a storage without traces."""
    path = tmp_path / "storage" / made[0].parent.name / made[0].name
    path.parent.mkdir(parents=True)
    path.write_bytes(made[0].read_bytes())
    return path


def _pack(content: bytes) -> bytes:
    return encoded("x.xz", content)


def _compact(path: Path, keep: bool = False) -> Path:
    other = path.with_name(f"{path.name}.xz")
    other.write_bytes(_pack(path.read_bytes()))
    if not keep:
        path.unlink()
    return other


def _bad(path: Path) -> str:
    file = read_run_file(path)
    assert isinstance(file, BadFile)
    return str(file)


@pytest.mark.process
def test_a_compacted_run_is_the_same_run(run: Path) -> None:
    """Its results, number, name and order stay; each form is named by either form's path, by name
    and by number.
    """
    storage = run.parent.parent
    (before,) = read_runs(storage)
    (stored,) = read_storage(storage)
    path = _compact(run)
    (after,) = read_runs(storage)
    assert isinstance(before, Run)
    assert isinstance(after, Run)
    assert after.path == path
    assert (after.number, after.name, after.order, str(after), after.measured) == (
        before.number,
        before.name,
        before.order,
        str(before),
        before.measured,
    )
    (other,) = read_storage(storage)
    assert isinstance(stored, StoredRun)
    assert isinstance(other, StoredRun)
    assert (other.file_name, other.results) == (stored.file_name, stored.results)
    for words in ("7", run.stem, run.name, path.name, str(run), str(path), str(storage)):
        assert find_runs(words, [after], storage) == [after], words
    for words in (str(run), str(path)):
        assert [found.path for found in find_runs(words, [], storage)] == [path]
    assert storages_in(storage.parent) == [storage]
    assert save_run(storage, {}, "next").name == "0008_next.json"


def test_two_forms_are_one_run(run: Path) -> None:
    """While a file changes its form, the plain one is taken."""
    _compact(run, keep=True)
    (file,) = read_storage(run.parent.parent)
    assert isinstance(file, StoredRun)
    assert file.path == run


def test_a_file_that_changes_its_form_while_the_storage_is_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once, whichever form was listed; one that is removed meanwhile is left out."""
    storage = run.parent.parent
    listed = run_files(storage)
    monkeypatch.setattr(run_file, "run_files", lambda *_: listed)
    path = _compact(run)
    assert [file.path for file in read_storage(storage)] == [path]
    listed[:] = [path]
    run.write_bytes(lzma.decompress(path.read_bytes()))
    path.unlink()
    assert [file.path for file in read_storage(storage)] == [run]
    run.unlink()
    assert list(read_storage(storage)) == []


def test_a_listing_that_misses_a_file(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is listed twice, as a file may change its form between two parts of a listing."""
    listdir = os.listdir
    folders: list[Path] = []

    def swapping(folder: Path) -> list[str]:
        """List the folder as if its file were swapped meanwhile: the first time, neither form."""
        names = listdir(folder)
        folders.append(folder)
        if folder == run.parent and folders.count(folder) == 1:
            _compact(run)
            return []
        return names

    monkeypatch.setattr(os, "listdir", swapping)
    assert [path.name for path in run_files(run.parent.parent)] == [f"{run.name}.xz"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda packed: packed[: len(packed) // 2], "it is cut off"),
        (lambda packed: packed + b"x", "more follows its end"),
        (lambda packed: packed[:200] + bytes(50) + packed[250:], "its compression: "),
        (lambda _: b"{}", "its compression: "),
        (lambda _: b"", "it is cut off"),
        (lambda _: _pack(bytes(MOST_BYTES + 1)), "more than 33,554,432 bytes"),
        (lambda _: lzma.compress(b"{}" * 9, preset=9 | lzma.PRESET_EXTREME), "emory usage"),
    ],
    ids=range(7),
)
def test_damaged_and_bombs(
    run: Path, damage: Callable[[bytes], bytes], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is said; neither content nor memory beyond the limits is unpacked."""
    monkeypatch.setattr(run_file, "MOST_RUN_BYTES", MOST_BYTES)
    path = _compact(run)
    path.write_bytes(damage(path.read_bytes()))
    assert words in _bad(path)


def test_a_python_without_lzma(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compacted file is a bad file with the reason, and all others are read."""
    _compact(run, keep=True).rename(run.with_name("0008_other.json.xz"))
    monkeypatch.setitem(sys.modules, "lzma", None)
    file, bad = read_storage(run.parent.parent)
    assert isinstance(file, StoredRun)
    assert "lzma, which this Python lacks" in str(bad)


def test_traces(made: tuple[Path, str], tmp_path: Path) -> None:
    """A result goes on naming its trace; the compacted one is found and is equal."""
    path, name = made
    trace = read_trace(path.parent.parent, name, Trace)
    assert trace is not None
    content = gzip.decompress((path.parent.parent / name).read_bytes())
    other = tmp_path / name.replace(".gz", ".xz")
    other.parent.mkdir(parents=True)
    other.write_bytes(_pack(content))
    assert read_trace(tmp_path, name, Trace) == trace
    assert is_trace(tmp_path, name.replace(".gz", ".xz"))
    other.write_bytes(_pack(b'{"notes": []}'))
    assert not is_trace(tmp_path, name.replace(".gz", ".xz"))
    other.write_bytes(other.read_bytes()[:20])
    assert read_trace(tmp_path, name, Trace) is None


def test_memory_of_packing_goes_with_the_content() -> None:
    """The window is as large as the content, so that little memory is taken for small files."""
    packed = _pack(b"x" * 100_000)
    assert decoded("x.xz", packed, 100_000) == b"x" * 100_000
    # The size of the window is in the header of the block: 128 KiB for 100,000 bytes.
    assert lzma.LZMADecompressor(memlimit=1 << 20).decompress(packed) == b"x" * 100_000
