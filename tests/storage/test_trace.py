"""Traces beside the results."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.trace import TRACES, read_trace, write_trace

_TRACE = {
    "barriers": [{"phase": "imported", "context": None, "data": {"version": "ä"}}],
    "timeline": {"times_ns": list(range(5000)), "rss_bytes": [2**40] * 5000, "system_memory_bytes": [0] * 5000},
}


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    """Its path is relative to the storage, so that a storage can be moved."""
    relative = write_trace(tmp_path, "run7", "onnxruntime-full_dup-1", _TRACE)
    assert relative == f"{TRACES}/run7/onnxruntime-full_dup-1.json.gz"
    assert read_trace(tmp_path, relative) == _TRACE
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert read_trace(moved, relative) == _TRACE


def test_a_lost_trace(tmp_path: Path) -> None:
    """Tables do not need it."""
    assert read_trace(tmp_path, "traces/run/none.json.gz") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:40] + bytes(byte ^ 0xFF for byte in whole[40:60]) + whole[60:],
        lambda whole: whole[:-6] + b"\0" * 6,
        lambda _: b"not gzip",
        lambda _: gzip.compress(b"not JSON"),
        lambda _: gzip.compress(b"\xff\xfe"),
    ],
    ids=["empty", "cut", "flipped bits", "wrong checksum", "foreign", "no JSON", "no text"],
)
def test_a_damaged_trace(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Damage of any kind is like loss."""
    relative = write_trace(tmp_path, "run", "one", _TRACE)
    path = tmp_path / relative
    path.write_bytes(damage(path.read_bytes()))
    assert read_trace(tmp_path, relative) is None


def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    """The measurement goes on; what is missing is said, and readers find nothing."""
    (tmp_path / TRACES).touch()
    with pytest.warns(UserWarning, match=r"one\.json\.gz cannot be written .*: reports have no timeline of it"):
        relative = write_trace(tmp_path, "run", "one", _TRACE)
    assert read_trace(tmp_path, relative) is None
