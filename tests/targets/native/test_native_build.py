"""How the driver in C is compiled, and when again; and how it ends where nobody leads it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.runtimes.rknn.library import LIBRARY_VARIABLE
from reusebench.targets.compilers import Compiler, find_compiler
from reusebench.targets.errors import TargetError
from reusebench.targets.native import build
from reusebench.targets.native.build import (
    UCLIBC,
    compile_native,
    ensure_native,
    is_built,
    native_driver,
)
from reusebench.targets.rknn_library import architecture_of, architecture_of_this_python

pytestmark = pytest.mark.process

_OWN = architecture_of_this_python() or ""

Compile = Callable[..., Path]


@pytest.fixture
def source(compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the one source of a program that is quick to compile, in place of the driver's."""
    assert compiler
    source = tmp_path / "sources" / "small.c"
    source.parent.mkdir()
    source.write_text("int main(void) { return 0; }\n")
    monkeypatch.setattr(build, "_SOURCES", source.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return source


def test_the_driver_is_compiled_once_for_its_sources(source: Path) -> None:
    """A changed source gives another one; the one before stays for who is about to start it."""
    steps: list[str] = []
    ensure_native(_OWN, steps.append)
    ensure_native(_OWN, steps.append)
    assert steps == [f"compiling the driver for {_OWN}"]
    driver = native_driver(_OWN)
    assert architecture_of(driver) == _OWN
    source.write_text("int main(void) { return 1; }\n")
    assert not is_built(_OWN)
    ensure_native(_OWN, steps.append)
    assert native_driver(_OWN) != driver
    assert driver.is_file()


def test_a_source_that_does_not_compile_leaves_nothing(source: Path) -> None:
    """The sentence has the compiler's last line."""
    source.write_text("#error this is wrong\n")
    with pytest.raises(TargetError, match="could not compile it: "):
        ensure_native(_OWN, lambda _: None)
    assert not is_built(_OWN)


def test_the_driver_for_uclibc(tmp_path: Path) -> None:
    """It needs uClibc's loader and its libc.so.0 alone, and its preload library hides nothing
    behind newer tables.
    """
    compiler = find_compiler("armhf")
    driver = tmp_path / "reusebench-driver"
    if compiler is not None:
        compile_native(replace(compiler, command=(*compiler.command, "-Werror")), UCLIBC, tmp_path)
    elif (compiled := native_driver(UCLIBC)).is_file():
        shutil.copytree(compiled.parent, tmp_path, dirs_exist_ok=True)
    else:
        pytest.skip("no compiler for armhf (Debian: apt install gcc-arm-linux-gnueabihf)")
    assert architecture_of(driver) == "armhf"
    assert b"/lib/ld-uClibc.so.0\0" in driver.read_bytes()
    assert _needed(driver) == ["libc.so.0"]
    assert "(HASH)" in _dynamic(tmp_path / "reusebench_preload.so")


def _needed(program: Path) -> list[str]:
    lines = [line for line in _dynamic(program).splitlines() if "(NEEDED)" in line]
    return [line.rpartition("[")[2].rstrip("]") for line in lines]


def _dynamic(program: Path) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("no readelf (Debian: apt install binutils)")
    return subprocess.run(
        ["readelf", "-dW", program], capture_output=True, text=True, check=True
    ).stdout


def _run(driver: Path, text: bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [driver], input=text, capture_output=True, env=environment, check=False, timeout=60
    )


def test_it_ends_with_the_harness(native_driver: Path, rknn_double: Compile) -> None:
    """Before a step that is in order; at a barrier, where it waits for a word, it is not."""
    library = str(rknn_double("librknnrt version: 1.6.0 (double)"))
    assert _run(native_driver, b"").returncode == 0
    assert _run(native_driver, b"imported\ngo\n", **{LIBRARY_VARIABLE: library}).returncode == 0
    assert _run(native_driver, b"imported\n", **{LIBRARY_VARIABLE: library}).returncode == 1


def test_a_step_that_it_does_not_know(native_driver: Path) -> None:
    """It says so, and leaves."""
    ended = _run(native_driver, b"dance\twith=me\n")
    assert ended.returncode == 1
    assert b"code=native_unknown_step" in ended.stdout


@pytest.mark.parametrize(("says", "is_failure"), [("hello", False), ("E RKNN: no", True)])
def test_what_the_library_prints_into_a_pipe(
    native_driver: Path, rknn_double: Compile, tmp_path: Path, says: str, is_failure: bool
) -> None:
    """It goes on to standard error, as on a board far away, and not into the messages; error lines
    count there, too.
    """
    model = tmp_path / "model.rknn"
    model.write_text("9000 5000 1 ")
    library = str(rknn_double("librknnrt version: 1.6.0 (double)"))
    steps = f"imported\ngo\ncontext\tmechanism=load\tpath={model}\ngo\nfirst_inference\tcontext=0\ngo\n".encode()
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
    """They were held back when the signal came; the signal still ends the process."""
    model = tmp_path / "model.rknn"
    model.write_text("9000 5000 1 ")
    library = str(rknn_double("librknnrt version: 1.6.0 (double)"))
    steps = f"imported\ngo\ncontext\tmechanism=load\tpath={model}\n".encode()
    limits = {"DOUBLE_MEMORY": "10", "DOUBLE_DIES": "1"}
    ended = _run(native_driver, steps, **{LIBRARY_VARIABLE: library, **limits})
    assert ended.returncode < 0
    assert "double: no memory" in ended.stderr.decode()
