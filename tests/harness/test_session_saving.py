"""What a session has measured is kept, also where its storage does not take it."""

from __future__ import annotations

import re
from pathlib import Path

from storage.files import StoredFile, read_storage
from tests.bench.bench_process import Bench

#: A pytest plugin under which the disk of the storage is full when the run is written.
_FULL = """
import errno, os
from storage import writing

_write = writing._write

def fail(path, content):
    if "storage" in path.parts:
        path.write_bytes(content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    _write(path, content)

writing._write = fail
"""


def test_a_run_that_the_storage_does_not_take(tmp_path: Path, cache: Path, tiny_model: Path) -> None:
    """It is written elsewhere, the words say where and why, pytest-benchmark's table is shown, and the code is 1."""
    bench = Bench(tmp_path, cache)
    (tmp_path / "full.py").write_text(_FULL)
    done = bench.run("--model", tiny_model, "-k", "no_reuse_one_model", "-p", "full", "--benchmark-save=mine")
    assert done.code == 1, done.words
    assert f"the storage {bench.storage} cannot be written (No space left on device)" in done.words
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
