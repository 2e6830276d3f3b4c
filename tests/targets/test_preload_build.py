"""How the preload library is compiled, and when again."""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path

import pytest

from reusebench.system.cache import CacheError
from reusebench.system.package import NATIVE
from reusebench.targets import compilers
from reusebench.targets.compilers import Compiler, compiler_for, find_compiler, missing_package
from reusebench.targets.errors import TargetError
from reusebench.targets.folders import root
from reusebench.targets.preload import build
from reusebench.targets.preload.build import (
    ensure_preload,
    is_built,
    preload_library,
    uclibc_folder,
)
from reusebench.targets.rknn_library import architecture_of, architecture_of_this_python

_OWN = architecture_of_this_python() or ""

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("own_cache")]


@pytest.fixture
def source(compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the one source of a library that is quick to compile, in place of the project's."""
    assert compiler
    source = tmp_path / "sources" / "small.c"
    source.parent.mkdir()
    source.write_text("int answer;\n")
    shutil.copy(NATIVE / "preload" / "uclibc.c", source.parent)
    monkeypatch.setattr(build, "_SOURCES", source.parent)
    return source


def test_a_library_is_compiled_once_for_its_sources(source: Path) -> None:
    """A changed source gives another one; the one before stays, for processes that are about to
    load it.
    """
    steps: list[str] = []
    assert not is_built(_OWN)
    ensure_preload(_OWN, steps.append)
    assert is_built(_OWN)
    ensure_preload(_OWN, steps.append)
    assert steps == [f"compiling the preload library for {_OWN}"]
    library = preload_library(_OWN)
    assert architecture_of(library) == _OWN
    assert sorted(path.name for path in root().iterdir()) == [".lock", "preload"]
    source.write_text("int changed;\n")
    assert not is_built(_OWN)
    ensure_preload(_OWN, steps.append)
    assert is_built(_OWN)
    assert library.is_file()
    assert preload_library(_OWN) != library


def test_a_source_that_does_not_compile_leaves_nothing(source: Path) -> None:
    """The sentence has the compiler's last line."""
    source.write_text("#error this is wrong\n")
    with pytest.raises(TargetError, match="could not compile it: "):
        ensure_preload(_OWN, lambda _: None)
    assert [path.name for path in root().iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the folder and the variable."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(
        CacheError, match=r"cannot write /proc/nowhere/reusebench/vboard.*XDG_CACHE_HOME"
    ):
        ensure_preload(_OWN, lambda _: None)


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_fetched_compiler_compiles_for_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The architecture that is needed, and no other; for librknnmrt its C library too."""
    zig = Compiler(
        (str(_program(tmp_path / "zig", 'while [ "$1" != -o ]; do shift; done; touch "$2"')),)
    )
    fetched_for = []

    def compiler(architecture: str, _show_step: object) -> Compiler:
        fetched_for.append(architecture)
        return zig

    monkeypatch.setattr(build, "compiler_for", compiler)
    ensure_preload("aarch64", lambda _: None)
    assert [is_built(architecture) for architecture in ("armhf", "aarch64", "x86_64")] == [
        False,
        True,
        False,
    ]
    assert not uclibc_folder("aarch64").exists()
    ensure_preload("armhf", lambda _: None)
    assert (uclibc_folder("armhf") / "libc.so.0").is_file()
    assert fetched_for == ["aarch64", "armhf"]


def test_compilers_have_known_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Debian's cross compilers, and any C compiler for this machine's own architecture."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler("armhf") is None
    assert find_compiler(_OWN) is None
    for name in ("arm-linux-gnueabihf-gcc", "cc"):
        (tmp_path / name).touch(mode=0o755)
    assert find_compiler("armhf") is not None
    assert find_compiler(_OWN) == Compiler((str(tmp_path / "cc"),))


def test_a_compiler_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The sentence has pip's reason and the package to install by hand."""
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
