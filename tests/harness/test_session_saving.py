"""What a session has measured is kept, also where its storage does not take it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from storage.files import StoredFile, read_storage
from storage.writing import python_folder

from harness.session import choose_board_storage
from tests.bench.bench_process import Bench

#: A pytest plugin under which the disk of the storage is full: for traces from the start, then for the run.
_FULL = """
import errno, os
from storage import trace, writing

_write = writing.write_synced

def fail(path, content):
    if "storage" in path.parts:
        path.write_bytes(content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    _write(path, content)

class Gzip:
    def open(*_, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

writing.write_synced = fail
trace.gzip = Gzip
"""


def test_a_run_that_the_storage_does_not_take(tmp_path: Path, cache: Path, tiny_model: Path) -> None:
    """It is written elsewhere, the words say where and why, pytest-benchmark's table is shown, and the code is 1."""
    bench = Bench(tmp_path, cache)
    (tmp_path / "full.py").write_text(_FULL)
    done = bench.run("--model", tiny_model, "-k", "no_reuse_one_model", "-p", "full", "--benchmark-save=mine")
    assert done.code == 1, done.words
    assert f"the storage {bench.storage} cannot be written (No space left on device)" in done.words
    assert re.search(r"no_reuse_one_model-1.json.gz cannot be written \(No space left on device\)", done.words)
    assert re.search(r"the journal \S+ cannot be written \(No space left on device\)", done.words)
    assert "Traceback" not in done.words
    assert "benchmark 'dup': 1 tests" in done.words
    saved = re.search(r"Saved benchmark data in: (\S+)", done.words)
    assert saved is not None
    path = Path(saved[1])
    assert path.name == "0001_mine.json"
    (found,) = read_storage(path.parent.parent)
    assert isinstance(found, StoredFile)
    assert not list(bench.storage.glob("*/*.json"))
    path.unlink()
    path.parent.rmdir()
    path.parent.parent.rmdir()


@pytest.mark.parametrize(
    ("numbers", "asked", "loaded"),
    [
        ((1, 9999, 10000), True, "10000_"),
        ((1, 2), True, "0002_"),
        ((), True, True),
        ((1, 2), "0001", "0001"),
        ((1, 2), None, None),
    ],
)
def test_the_run_that_benchmark_compare_alone_means(tmp_path: Path, numbers: Any, asked: Any, loaded: Any) -> None:
    """It is the newest of this Python, past 9999 too, and it alone is read; what the user names stays."""
    (tmp_path / python_folder()).mkdir()
    for number in numbers:
        (tmp_path / python_folder() / f"{number:04}_x.json").touch()
    option = argparse.Namespace(benchmark_storage=str(tmp_path), benchmark_compare=asked)
    config: Any = SimpleNamespace(option=option)
    choose_board_storage(config)
    assert option.benchmark_compare == loaded
