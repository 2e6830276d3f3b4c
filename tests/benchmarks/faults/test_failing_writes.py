"""The library that has changes of files fail."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.faults.disk import compile_library
from targets.compilers import find_compiler
from targets.rknn_library import architecture_of_this_python

#: Makes a folder and two files, and prints what went wrong with each.
_WRITES = """
import os, sys
def attempt(change):
    try:
        change()
    except OSError as error:
        print(error.errno)
    else:
        print("ok")
attempt(lambda: os.mkdir("folder"))
for name in ("first", "second"):
    attempt(lambda: os.close(os.open(name, os.O_WRONLY | os.O_CREAT)))
open("/dev/null", "w").close()
"""

Run = Callable[[int, int], list[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return run(at, once): the ends of three changes of which one fails, and perhaps those behind it."""
    if find_compiler(architecture_of_this_python() or "") is None:
        pytest.skip("no C compiler (Debian: apt install gcc)")
    library, counter, folder = compile_library(tmp_path), tmp_path / "counter", tmp_path / "folder"
    folder.mkdir()

    def run(at: int, once: int) -> list[str]:
        counter.write_bytes(bytes(8))
        values = {"FOLDER": folder, "COUNTER": counter, "AT": at, "ERRNO": errno.ENOSPC, "ONCE": once}
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        environment |= {f"FAULTS_{name}": str(value) for name, value in values.items()}
        command = [sys.executable, "-c", _WRITES]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        assert int.from_bytes(counter.read_bytes(), sys.byteorder) == 3
        return done.stdout.split()

    return run


def test_all_changes_are_counted(run: Run) -> None:
    """Without a number none fails; what is changed in other folders does not count."""
    assert run(0, 0) == ["ok", "ok", "ok"]


def test_one_change_fails(run: Run) -> None:
    """The n-th fails with the error that was asked for."""
    assert run(2, 1) == ["ok", str(errno.ENOSPC), "ok"]


def test_the_disk_stays_full(run: Run) -> None:
    """The n-th fails, and all that follow."""
    assert run(2, 0) == ["ok", str(errno.ENOSPC), str(errno.ENOSPC)]
