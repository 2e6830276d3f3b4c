"""The compilation of the C programs of native/."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.system.cache import CacheError, cache_root
from reusebench.targets import compilers, programs
from reusebench.targets.compilers import Compiler, compiler_for, find_compiler, missing_package
from reusebench.targets.errors import TargetError
from reusebench.targets.programs import (
    DRIVER,
    PRELOAD,
    UCLIBC,
    Binary,
    NativeProgram,
    uclibc_stand_in,
)
from reusebench.targets.rknn_library import architecture_of, architecture_of_this_python

_OWN = architecture_of_this_python() or ""
_SMALL = NativeProgram(
    "small",
    "the small library",
    "small.so",
    (Binary("small.so", ("small/*.c",), ("-fPIC",), ("-shared",)),),
)
# Read before any test has a cache of its own.
_INSTALLED_DRIVER = DRIVER.path(UCLIBC)

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("own_cache")]


@pytest.fixture
def source(compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only source of the small library."""
    assert compiler
    source = tmp_path / "native" / "small" / "small.c"
    source.parent.mkdir(parents=True)
    source.write_text("int answer;\n")
    monkeypatch.setattr(programs, "NATIVE", tmp_path / "native")
    return source


def test_a_program_is_compiled_once_for_its_sources(source: Path) -> None:
    """A changed source gives another one; the old one stays for processes about to load it."""
    steps: list[str] = []
    assert not _SMALL.is_built(_OWN)
    _SMALL.ensure(_OWN, steps.append)
    assert _SMALL.is_built(_OWN)
    _SMALL.ensure(_OWN, steps.append)
    assert steps == [f"compiling the small library for {_OWN}"]

    library = _SMALL.path(_OWN)
    assert architecture_of(library) == _OWN
    assert list(library.parent.iterdir()) == [library]
    in_cache = sorted(path.name for path in (cache_root() / "vboard").iterdir())
    assert in_cache == [".lock", library.parent.name]

    source.write_text("int changed;\n")
    assert not _SMALL.is_built(_OWN)
    _SMALL.ensure(_OWN, steps.append)
    assert _SMALL.is_built(_OWN)
    assert library.is_file()
    assert _SMALL.path(_OWN) != library


def test_a_source_that_does_not_compile_leaves_nothing(source: Path) -> None:
    """The error has the compiler's last line."""
    source.write_text("#error this is wrong\n")
    with pytest.raises(TargetError, match="could not compile it: "):
        _SMALL.ensure(_OWN, lambda _: None)
    assert [path.name for path in (cache_root() / "vboard").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the folder and the variable."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(
        CacheError, match=r"cannot write /proc/nowhere/reusebench/vboard.*XDG_CACHE_HOME"
    ):
        PRELOAD.ensure(_OWN, lambda _: None)


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_fetched_compiler_compiles_for_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the needed architecture is compiled; for librknnmrt also its stand-in for uClibc."""
    zig = Compiler(
        (str(_program(tmp_path / "zig", 'while [ "$1" != -o ]; do shift; done; touch "$2"')),)
    )
    fetched_for = []

    def compiler(architecture: str, _show_step: object) -> Compiler:
        fetched_for.append(architecture)
        return zig

    monkeypatch.setattr(compilers, "compiler_for", compiler)
    PRELOAD.ensure("aarch64", lambda _: None)
    assert PRELOAD.is_built("aarch64")
    assert not PRELOAD.is_built("armhf")
    assert not uclibc_stand_in("aarch64").exists()
    PRELOAD.ensure("armhf", lambda _: None)
    assert uclibc_stand_in("armhf").is_file()
    assert fetched_for == ["aarch64", "armhf"]


def test_compilers_have_known_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Debian's cross compilers, and any C compiler for this machine's architecture."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler("armhf") is None
    assert find_compiler(_OWN) is None
    for name in ("arm-linux-gnueabihf-gcc", "cc"):
        (tmp_path / name).touch(mode=0o755)
    assert find_compiler("armhf") is not None
    assert find_compiler(_OWN) == Compiler((str(tmp_path / "cc"),))


def test_a_compiler_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error has pip's reason and the package to install instead."""
    python = _program(tmp_path / "python", "echo 'No module named pip' >&2; exit 1")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(compilers, "find_compiler", lambda _: None)
    # Another test may have fetched it in this process.
    monkeypatch.setattr(compilers, "_ziglang", functools.lru_cache(compilers._ziglang.__wrapped__))
    with pytest.raises(
        TargetError,
        match=r"pip could not install ziglang \(No module named pip\)\. Install one \(Debian",
    ):
        compiler_for("aarch64", lambda _: None)
    assert missing_package("armhf") in ("gcc-arm-linux-gnueabihf", "gcc")
    assert not list(tmp_path.glob("cache/reusebench/temporary/*"))


def test_the_driver_for_uclibc(tmp_path: Path) -> None:
    """It needs only uClibc's loader and libc.so.0; its preload library has both symbol tables."""
    compiler = find_compiler("armhf")
    driver = tmp_path / "reusebench-driver"
    if compiler is not None:
        DRIVER.compile(compiler, UCLIBC, tmp_path, "-Werror")
    elif _INSTALLED_DRIVER.is_file():
        shutil.copytree(_INSTALLED_DRIVER.parent, tmp_path, dirs_exist_ok=True)
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
