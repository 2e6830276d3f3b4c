"""The library that lets changes of files fail."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.faults.disk import FAILING_WRITES, counted
from benchmarks.faults.sandbox import compile_preloaded
from reusebench.targets.compilers import find_compiler
from reusebench.targets.rknn_library import architecture_of_this_python

pytestmark = pytest.mark.process

#: Makes a folder and two files, and prints the error of each.
_WRITES = """
import os, sys
def attempt(change):
    try:
        change()
    except OSError as error:
        print(error.errno, flush=True)
    else:
        print("ok", flush=True)
attempt(lambda: os.mkdir("folder"))
for name in ("first", "second"):
    attempt(lambda: os.close(os.open(name, os.O_WRONLY | os.O_CREAT)))
open("/dev/null", "w").close()
"""

Run = Callable[[int, int], tuple[list[str], int]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return run(at, once), for three changes of which one fails, and perhaps those behind it.

    It returns how each ended, and how many bytes had been printed when the first failed.
    """
    if find_compiler(architecture_of_this_python() or "") is None:
        pytest.skip("no C compiler (Debian: apt install gcc)")
    library = compile_preloaded(FAILING_WRITES, tmp_path)
    counter = tmp_path / "counter"
    folder = tmp_path / "folder"
    output = tmp_path / "output"
    folder.mkdir()

    def run(at: int, once: int) -> tuple[list[str], int]:
        counter.write_bytes(bytes(16))
        values = {
            "FOLDER": folder,
            "COUNTER": counter,
            "OUTPUT": output,
            "AT": at,
            "ONCE": once,
            "ERRNO": errno.ENOSPC,
        }
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        environment |= {f"FAULTS_{name}": str(value) for name, value in values.items()}
        command = [sys.executable, "-c", _WRITES]
        with output.open("wb") as file:
            subprocess.run(command, cwd=folder, env=environment, stdout=file, check=True)
        changes, printed_bytes = counted(counter)
        assert changes == 3
        return output.read_text(encoding="ascii").split(), printed_bytes

    return run


def test_all_changes_are_counted(run: Run) -> None:
    """Without a number no change fails; changes in other folders do not count."""
    assert run(0, 0) == (["ok", "ok", "ok"], 0)


def test_one_change_fails(run: Run) -> None:
    """The n-th change fails with the given error; the output before it is counted."""
    assert run(2, 1) == (["ok", str(errno.ENOSPC), "ok"], len("ok\n"))


def test_the_disk_stays_full(run: Run) -> None:
    """The n-th change fails, and all later ones."""
    assert run(2, 0) == (["ok", str(errno.ENOSPC), str(errno.ENOSPC)], len("ok\n"))
