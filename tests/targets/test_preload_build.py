"""How the preload library is compiled, and when again."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from targets.errors import TargetError
from targets.folders import root
from targets.preload import build
from targets.preload.build import ensure_preload, is_built, preload_library, uclibc_folder
from targets.preload.compilers import Compiler, fetch_compiler, find_compiler, missing_package
from targets.rknn_library import architecture_of, architecture_of_this_python

_OWN = architecture_of_this_python() or ""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is built in the cache of these tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_it_is_compiled_once(compiler: Compiler) -> None:
    """A second time nothing is done, in no time."""
    assert compiler
    said: list[str] = []
    assert not is_built(_OWN)
    ensure_preload(_OWN, said.append)
    assert is_built(_OWN)
    ensure_preload(_OWN, said.append)
    assert said == [f"compiling the preload library for {_OWN}"]
    assert architecture_of(preload_library(_OWN)) == _OWN
    assert sorted(path.name for path in root().iterdir()) == [".lock", "preload"]


def test_a_changed_source_is_another_library(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one before stays, for processes that are about to load it."""
    assert compiler
    shutil.copytree(Path(build.__file__).parent, tmp_path / "sources", ignore=shutil.ignore_patterns("*.py*"))
    monkeypatch.setattr(build, "_SOURCES", tmp_path / "sources")
    build._digest.cache_clear()
    ensure_preload(_OWN, lambda _: None)
    before = preload_library(_OWN)
    with (tmp_path / "sources/ledger.c").open("a") as source:
        source.write("/* changed */\n")
    build._digest.cache_clear()
    assert not is_built(_OWN)
    ensure_preload(_OWN, lambda _: None)
    assert is_built(_OWN)
    assert before.is_file()
    build._digest.cache_clear()


def test_a_source_that_does_not_compile_leaves_nothing(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The sentence has the compiler's last line."""
    assert compiler
    (tmp_path / "bad.c").write_text("#error this is wrong\n", encoding="ascii")
    monkeypatch.setattr(build, "_SOURCES", tmp_path)
    build._digest.cache_clear()
    with pytest.raises(TargetError, match="could not compile the preload library: "):
        ensure_preload(_OWN, lambda _: None)
    assert not is_built(_OWN)
    build._digest.cache_clear()


def test_a_fetched_compiler_compiles_for_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that it need not be fetched again for another architecture."""
    fetched = []
    script = tmp_path / "zig"
    script.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; touch "$2"\n', encoding="ascii")
    script.chmod(0o755)

    def fetch(_folder: Path, _say: object) -> object:
        fetched.append(1)
        return lambda _architecture: Compiler((str(script),))

    monkeypatch.setattr(build, "find_compiler", lambda _: None)
    monkeypatch.setattr(build, "fetch_compiler", fetch)
    for architecture in ("armhf", "aarch64", "x86_64"):
        ensure_preload(architecture, lambda _: None)
    assert fetched == [1]
    assert (uclibc_folder("armhf") / "libc.so.0").is_file()
    assert not uclibc_folder("aarch64").exists()


def test_compilers_are_found_by_their_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n", encoding="ascii")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(
        TargetError, match=r"pip could not install ziglang \(No module named pip\)\. Install one \(Debian"
    ):
        fetch_compiler(tmp_path, lambda _: None)
    assert missing_package("armhf") in ("gcc-arm-linux-gnueabihf", "gcc")
    assert [path.name for path in tmp_path.iterdir()] == ["python"]
