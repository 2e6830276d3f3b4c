"""Files of traces."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.measured.runtimes.base import Allocation
from reusebench.storage.decoding import MOST_BYTES
from reusebench.storage.trace import (
    TRACES,
    FrameTime,
    FrameTimes,
    Timeline,
    Trace,
    is_trace,
    read_trace,
    write_trace,
)
from reusebench.targets.barriers import StepData
from tests.helpers.support import barrier

_DATA = StepData(
    runtime_version="ä", account={"weights_bytes": 7}, allocations=(Allocation("weights", 5, 1),)
)
_FRAMES = FrameTimes([FrameTime(1, 2**50, (5, 0, 7))], [], left_out=0)
_TRACE = Trace(
    [barrier("imported", data=_DATA)],
    Timeline(list(range(5000)), [2**40] * 5000, [0] * 5000),
    start_ns=2**49,
    frames=_FRAMES,
)


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    """Paths are relative to the storage, so that a storage can be moved."""
    relative = write_trace(tmp_path / "one", "run7", "onnxruntime-full_dup-1", _TRACE)
    assert relative == f"{TRACES}/run7/onnxruntime-full_dup-1.json.gz"
    moved = (tmp_path / "one").rename(tmp_path / "moved")
    assert read_trace(moved, relative, Trace) == _TRACE


@pytest.mark.parametrize(
    "damage",
    [
        None,
        lambda _: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:40] + bytes(byte ^ 0xFF for byte in whole[40:60]) + whole[60:],
        lambda whole: whole[:-6] + b"\0" * 6,
        lambda _: b"not gzip",
        lambda _: gzip.compress(b"not JSON"),
        lambda _: gzip.compress(b"\xff\xfe"),
        lambda _: gzip.compress(b'{"barriers": []}'),
    ],
    ids=[
        "lost",
        "empty",
        "cut",
        "flipped bits",
        "wrong checksum",
        "foreign",
        "no JSON",
        "no text",
        "another form",
    ],
)
def test_a_lost_or_damaged_trace(tmp_path: Path, damage: Callable[[bytes], bytes] | None) -> None:
    """Damage of any kind counts as loss: tables do not need traces."""
    relative = write_trace(tmp_path, "run", "one", _TRACE)
    path = tmp_path / relative
    content = path.read_bytes()
    path.unlink()
    if damage:
        path.write_bytes(damage(content))
    assert read_trace(tmp_path, relative, Trace) is None


def test_frames_between_none(tmp_path: Path) -> None:
    """A trace that leaves out frames between none is damaged."""
    relative = write_trace(tmp_path, "run7", "name", _TRACE)
    path = tmp_path / relative
    path.write_bytes(
        gzip.compress(gzip.decompress(path.read_bytes()).replace(b'"left_out":0', b'"left_out":3'))
    )
    assert read_trace(tmp_path, relative, Trace) is None


def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    """The measurement goes on with a warning, and readers have no trace."""
    (tmp_path / TRACES).touch()
    with pytest.warns(
        UserWarning, match=r"one\.json\.gz cannot be written .*: reports will lack its timeline"
    ):
        relative = write_trace(tmp_path, "run", "one", _TRACE)
    assert read_trace(tmp_path, relative, Trace) is None


def test_a_trace_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    """A huge trace counts as damaged, and is never held in memory."""
    relative = write_trace(tmp_path, "run", "one", _TRACE)
    with gzip.open(tmp_path / relative, "wb") as file:
        for _ in range(64):
            file.write(bytes(2**20))
    tracemalloc.start()
    assert read_trace(tmp_path, relative, Trace) is None
    assert tracemalloc.get_traced_memory()[1] < 3 * MOST_BYTES
    tracemalloc.stop()


def test_a_trace_is_read_inside_its_storage_alone(tmp_path: Path) -> None:
    """No path leaves the storage, neither by its parts nor by a link; pipes are not waited for."""
    storage = tmp_path / "storage"
    relative = write_trace(storage, "run", "one", _TRACE)
    outside = (storage / relative).rename(tmp_path / "outside.json.gz")
    (storage / relative).symlink_to(outside)
    (storage / "linked").symlink_to(tmp_path)
    os.mkfifo(storage / "fifo")
    for path in (
        relative,
        "../outside.json.gz",
        str(outside),
        "linked/outside.json.gz",
        "fifo",
        "",
        "\0",
    ):
        assert read_trace(storage, path, Trace) is None
        assert not is_trace(storage, path)


def test_what_is_marked_as_a_trace(tmp_path: Path) -> None:
    """The first packed bytes mark a trace, even if it is cut short; other JSON is not ours."""
    path = tmp_path / write_trace(tmp_path, "run", "one", _TRACE)
    content = path.read_bytes()
    for changed, is_ours in (
        (content, True),
        (content[: len(content) // 2], True),
        (gzip.compress(b'{"notes": []}'), False),
        (b"", False),
    ):
        path.write_bytes(changed)
        assert is_trace(tmp_path, "traces/run/one.json.gz") == is_ours
