"""What a session has measured is kept, also where its storage does not take it."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.session import choose_board_storage
from storage.run_file import StoredRun, python_folder, read_run_file
from tests.bench.bench_process import Bench, Done

#: A pytest plugin under which the disk of the storage is full: for traces from the start, for the run as long as
#: `is_full` says of the session's so-manieth configuration.
_FULL = """
import errno, os
from storage import run_file, trace

fsync = os.fsync
writes = 0

def fail(descriptor):
    global writes
    path = os.readlink(f"/proc/self/fd/{{descriptor}}")
    if path.endswith(".unfinished") and "/storage/" in path:
        writes += 1
        if {is_full}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    fsync(descriptor)

class Gzip:
    def open(*_, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

run_file.os.fsync = fail
trace.gzip = Gzip
"""


def _run_on_full_disk(folder: Path, cache: Path, model: Path, is_full: str) -> Done:
    bench = Bench(folder, cache)
    full = bench.plugin("full", _FULL.format(is_full=is_full))
    chosen = "no_reuse_one_model or shared_context or full_dup_internal_reuse"
    return bench.run("--model", model, "-k", chosen, *full, "--benchmark-save=mine")


def test_a_run_that_the_storage_does_not_take(tmp_path: Path, cache: Path, tiny_model: Path) -> None:
    """It is written elsewhere, the words say where and why, pytest-benchmark's table is shown, and the code is 1."""
    done = _run_on_full_disk(tmp_path, cache, tiny_model, is_full="True")
    assert done.code == 1, done.words
    assert done.words.count("(No space left on device): the measurement goes on") == 1
    assert re.search(r"no_reuse_one_model-1.json.gz cannot be written \(No space left on device\)", done.words)
    assert "Traceback" not in done.words
    assert "benchmark 'dup': 3 tests" in done.words
    saved = re.search(r"Saved benchmark data in: (\S+)", done.words)
    assert saved is not None
    path = Path(saved[1])
    assert f"The run is in {path}. When there is room, move it to {tmp_path / 'storage'}" in done.words
    assert path.name == "0001_mine.json"
    run = read_run_file(path)
    assert isinstance(run, StoredRun)
    assert len(run.results) == 3
    assert done.runs() == []
    shutil.rmtree(path.parent.parent)


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, cache: Path, tiny_model: Path) -> None:
    """It is said once, the measurement goes on, and the run is whole in the end."""
    done = _run_on_full_disk(tmp_path, cache, tiny_model, is_full="writes in (2, 3)")
    assert done.code == 0, done.words
    assert done.words.count("(No space left on device): the measurement goes on") == 1
    assert list(done.outcomes().values()) == ["ok"] * 3
    assert done.runs()[0].is_finished


@pytest.mark.parametrize(
    ("numbers", "option_value", "loaded"),
    [
        ((1, 9999, 10000), True, "10000_"),
        ((1, 2), True, "0002_"),
        ((), True, True),
        ((1, 2), "0001", "0001"),
        ((1, 2), None, None),
    ],
)
def test_the_run_that_benchmark_compare_alone_means(
    tmp_path: Path, numbers: Any, option_value: Any, loaded: Any
) -> None:
    """It is the newest of this Python, past 9999 too, and it alone is read; what the user names stays."""
    (tmp_path / python_folder()).mkdir()
    for number in numbers:
        (tmp_path / python_folder() / f"{number:04}_x.json").touch()
    option = argparse.Namespace(benchmark_storage=str(tmp_path), benchmark_compare=option_value)
    config: Any = SimpleNamespace(option=option)
    choose_board_storage(config)
    assert option.benchmark_compare == loaded
