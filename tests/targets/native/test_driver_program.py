"""The C driver without a harness: its end, and the library's output in it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE

pytestmark = pytest.mark.process

Compile = Callable[..., Path]


def _run(driver: Path, text: bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [driver], input=text, capture_output=True, env=environment, check=False, timeout=60
    )


def test_it_ends_with_the_harness(native_driver: Path, rknn_double: Compile) -> None:
    """The end of input is in order before a step, but not at a barrier, which waits for a word."""
    library = str(rknn_double("librknnrt version: 1.6.0 (double)"))
    assert _run(native_driver, b"").returncode == 0
    assert _run(native_driver, b"imported\ngo\n", **{LIBRARY_VARIABLE: library}).returncode == 0
    assert _run(native_driver, b"imported\n", **{LIBRARY_VARIABLE: library}).returncode == 1


def test_a_step_that_it_does_not_know(native_driver: Path) -> None:
    """It reports this and exits."""
    ended = _run(native_driver, b"dance\twith=me\n")
    assert ended.returncode == 1
    assert b"code=native_unknown_step" in ended.stdout


@pytest.mark.parametrize(("says", "is_failure"), [("hello", False), ("E RKNN: no", True)])
def test_what_the_library_prints_into_a_pipe(
    native_driver: Path, rknn_double: Compile, tmp_path: Path, says: str, is_failure: bool
) -> None:
    """Output goes on to standard error, not into messages, and error lines count."""
    model = tmp_path / "model.rknn"
    model.write_text("9000 5000 1 ")
    library = str(rknn_double("librknnrt version: 1.6.0 (double)"))
    context = f"context\tmechanism=load\tpath={model}"
    steps = f"imported\ngo\n{context}\ngo\nfirst_inference\tcontext=0\ngo\n".encode()
    ended = _run(
        native_driver, steps, **{LIBRARY_VARIABLE: library, "DOUBLE_SAY": f"rknn_run={says}"}
    )
    assert ended.returncode == is_failure
    assert says in ended.stderr.decode().splitlines()
    kinds = [line.split(b"\t")[0] for line in ended.stdout.splitlines()]
    assert kinds == [b"barrier", b"barrier", b"failure" if is_failure else b"barrier"]


def test_last_words_of_a_crash_come_through_a_pipe(
    native_driver: Path, rknn_double: Compile, tmp_path: Path
) -> None:
    """They are passed on when the signal comes, which still ends the process."""
    model = tmp_path / "model.rknn"
    model.write_text("9000 5000 1 ")
    library = str(rknn_double("librknnrt version: 1.6.0 (double)"))
    steps = f"imported\ngo\ncontext\tmechanism=load\tpath={model}\n".encode()
    limits = {"DOUBLE_MEMORY": "10", "DOUBLE_DIES": "1"}
    ended = _run(native_driver, steps, **{LIBRARY_VARIABLE: library, **limits})
    assert ended.returncode < 0
    assert "double: no memory" in ended.stderr.decode()
