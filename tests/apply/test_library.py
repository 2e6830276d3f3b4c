"""The library for RKNN: who gets it, and that the loader finds one for each architecture."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from reusebench.apply import library, rknn
from reusebench.apply.elf import ElfFile
from reusebench.apply.errors import ApplyError
from reusebench.apply.executable import Executable
from reusebench.apply.library import lay_out, library_path
from reusebench.apply.placeholder import placeholder
from reusebench.apply.rknn import form_for
from reusebench.targets.errors import TargetError
from reusebench.targets.programs import APPLY, UCLIBC
from reusebench.targets.rknn_library import architecture_of_this_python

_GLIBC = "/lib/ld-linux-aarch64.so.1"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _build(form: str) -> None:
    APPLY.path(form).parent.mkdir(parents=True)
    APPLY.path(form).write_text(f"library for {form}")


def _loaded(path: str, platform: str) -> str:
    return Path(path.replace("$PLATFORM", platform)).read_bytes().decode(errors="replace")


def test_each_architecture_of_a_board_has_a_library() -> None:
    """One that is not compiled is a placeholder, until it is."""
    _build("aarch64")
    path = library_path("aarch64", lambda _: None)
    assert _loaded(path, "aarch64") == "library for aarch64"
    assert _loaded(path, "v8l").startswith("\x7fELF")
    assert library_path("aarch64", lambda _: None) == path
    _build("armhf")
    later = library_path("aarch64", lambda _: None)
    assert _loaded(later, "v7l") == _loaded(later, "v8l") == "library for armhf"
    assert _loaded(path, "v8l").startswith("\x7fELF")  # of a program that still runs


def test_the_loader_of_uclibc_gets_the_path_itself() -> None:
    """It replaces nothing."""
    _build(UCLIBC)
    assert library_path(UCLIBC, lambda _: None) == str(APPLY.path(UCLIBC))


def test_what_prevents_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No compiler, or a cache that LD_PRELOAD cannot name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    _build(UCLIBC)
    with pytest.raises(ApplyError, match=r"which has a space or a colon\. Set XDG_CACHE_HOME"):
        library_path(UCLIBC, lambda _: None)

    def fail(*_: object) -> None:
        raise TargetError("no C compiler")

    monkeypatch.setattr(library, "APPLY", type("Failing", (), {"ensure": staticmethod(fail)}))
    with pytest.raises(ApplyError, match="no C compiler"):
        library_path("aarch64", lambda _: None)


@pytest.mark.process
def test_a_placeholder_is_loaded_without_a_word(tmp_path: Path) -> None:
    """A program of the other architecture runs as it would; without one the loader complains."""
    own = architecture_of_this_python()
    assert own is not None
    lay_out(tmp_path / "lib", {})
    assert not (tmp_path / "lib").exists()
    file = tmp_path / "empty.so"
    file.write_bytes(placeholder(own))
    lay_out(tmp_path / "lib", {own: file})

    def errors(path: Path) -> str:
        environment = {**os.environ, "LD_PRELOAD": str(path)}
        done = subprocess.run(
            ["sh", "-c", "true"], env=environment, capture_output=True, text=True, check=True
        )
        return done.stderr

    assert errors(tmp_path / "lib" / "$PLATFORM" / APPLY.main) == ""
    assert "cannot be preloaded" in errors(tmp_path / "none.so")


def _program(loader: str | None, *needed: str, architecture: str = "aarch64") -> Executable:
    file = ElfFile(architecture, loader, needed)
    return Executable(Path("/usr/bin/camera"), ("camera",), file, has_rights=False)


@pytest.mark.parametrize(
    ("program", "form"),
    [
        (_program(_GLIBC, "librknnrt.so"), "aarch64"),
        (_program(_GLIBC), None),
        (_program("/lib/ld-musl-aarch64.so.1", "librknnrt.so"), None),
        (_program(None), None),
        (_program("/lib/ld-uClibc.so.0", architecture="armhf"), UCLIBC),
        (_program("/lib64/ld-linux-x86-64.so.2", "librknnrt.so", architecture="x86_64"), "x86_64"),
        (_program("/lib64/ld-linux-x86-64.so.2", architecture="x86_64"), None),
    ],
)
def test_only_programs_that_may_use_rknn_get_it(
    program: Executable, form: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compiled for others."""
    monkeypatch.setattr(rknn, "_COMPATIBLE", Path("/none"))
    monkeypatch.setattr(rknn, "_has_library", lambda _: False)
    assert form_for(program, {}) == form


def test_a_board_may_use_rknn_in_any_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A script or Python loads the library later, or starts what is linked with it."""
    compatible = tmp_path / "compatible"
    monkeypatch.setattr(rknn, "_COMPATIBLE", compatible)
    monkeypatch.setattr(rknn, "_has_library", lambda _: False)
    program = _program(_GLIBC)
    compatible.write_bytes(b"raspberrypi,4-model-b\0brcm,bcm2711\0")
    assert form_for(program, {}) is None
    compatible.write_bytes(b"radxa,rock-5b\0rockchip,rk3588\0")
    assert form_for(program, {}) == "aarch64"
    compatible.unlink()
    (tmp_path / "librknnrt.so").touch()
    folders: Mapping[str, str] = {"LD_LIBRARY_PATH": f":/none:{tmp_path}"}
    assert form_for(program, folders) == "aarch64"
