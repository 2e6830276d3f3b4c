"""The file of Rockchip's library: its path, and what it tells without being loaded."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.rknn import library_file
from reusebench.measured.runtimes.rknn.library_file import (
    LIBRARY_VARIABLE,
    find_library,
    read_library,
    usual_paths,
)

#: e_machine of elf.h.
_MACHINES = {"armhf": 40, "aarch64": 183, "x86_64": 62, "riscv": 243}
_VERSION = b"librknnrt version: 1.6.0 (9a7b5d24c@2023-12-13T17:32:13)"
_PIECE = 1 << 16


def _elf(machine: str, content: bytes = _VERSION, before: int = 500) -> bytes:
    """Return an ELF file with this content `before` bytes after its beginning."""
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HH", 3, _MACHINES[machine])
    return header.ljust(before, b"\0") + content + b"\0" * 300


def _write(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the two usual folders of a machine that is armhf and names no library."""
    folders = (tmp_path / "first", tmp_path / "second")
    monkeypatch.setattr(library_file, "_FOLDERS", tuple(map(str, folders)))
    monkeypatch.setattr(sys, "executable", _write(tmp_path / "python", _elf("armhf")))
    monkeypatch.delenv(LIBRARY_VARIABLE, raising=False)
    return folders


# The content


@pytest.mark.parametrize(
    ("machine", "kind", "version", "build"),
    [
        ("aarch64", "librknnrt", "1.6.0", " (9a7b5d24c@2023-12-13T17:32:13)"),
        ("armhf", "librknnmrt", "2.3.2", " (@2025-04-03T08:26:16)"),
        ("x86_64", "librknnrt", "10.20.30", ""),
    ],
)
def test_a_library_of_any_name(
    tmp_path: Path,
    machine: str,
    kind: str,
    version: str,
    build: str,
) -> None:
    """Kind, architecture and version are in the file, whatever its name."""
    path = _write(
        tmp_path / "my download (2).bin",
        _elf(machine, f"{kind} version: {version}{build}".encode()),
    )
    assert read_library(path) == (path, kind, machine, version, f"{version}{build}")


@pytest.mark.parametrize("inside", [0, 1, 10, 21, 25, 26, 40, len(_VERSION) - 1, len(_VERSION)])
def test_a_version_may_lie_across_two_pieces(tmp_path: Path, inside: int) -> None:
    """The file is read in pieces: a version across two of them, or at the end, is whole."""
    for before in (_PIECE - inside, 3 * _PIECE - inside):
        content = _elf("armhf", before=before)
        for size in (len(content), before + len(_VERSION)):
            path = _write(tmp_path / "library", content[:size])
            assert read_library(path).full_version == "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)"


_NOTHING = "it is no shared library for armhf, aarch64, x86_64"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", _NOTHING),
        (b"\x7fELF\x01\x01\x01", _NOTHING),
        (_elf("armhf")[:19], _NOTHING),
        (b"#!/bin/sh\n" + _VERSION, _NOTHING),
        (_elf("riscv"), _NOTHING),
        (_elf("aarch64", b"libc"), "it is for aarch64 and has no version of RKNN's in it"),
        (_elf("armhf")[:510], "it is for armhf and has no version of RKNN's in it"),
        (
            _elf("armhf", b"librknnrt version: unknown"),
            "it is for armhf and has no version of RKNN's in it",
        ),
    ],
)
def test_a_file_that_is_no_library(tmp_path: Path, content: bytes, words: str) -> None:
    """It is named, with its kind and the kinds that are needed."""
    path = _write(tmp_path / "file", content)
    with pytest.raises(AdapterError) as refusal:
        read_library(path)
    assert (
        str(refusal.value)
        == f"{path}: {words}. Give librknnrt.so or librknnmrt.so of Rockchip's SDK"
    )


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    """A missing file is reported in the system's words, a folder as no file."""
    for path, words in (
        (tmp_path / "none.so", "No such file or directory"),
        (tmp_path, "it is no regular file"),
    ):
        with pytest.raises(AdapterError) as refusal:
            read_library(str(path))
        assert str(refusal.value).startswith(f"{path}: {words}. Give librknnrt.so")


# The path


def test_the_environment_comes_first(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's path is used even if it does not exist, so that a later error reports it."""
    _write(folders[0] / "librknnrt.so", _elf("armhf"))
    monkeypatch.setenv(LIBRARY_VARIABLE, "/nowhere/mine.so")
    assert find_library() == "/nowhere/mine.so"
    monkeypatch.setenv(LIBRARY_VARIABLE, "")
    assert find_library() == str(folders[0] / "librknnrt.so")


def test_usual_paths_are_searched_in_order(folders: tuple[Path, Path]) -> None:
    """Each folder is searched in order, the full runtime before the mini one."""
    assert find_library() is None
    order = [
        folder / name for folder in reversed(folders) for name in ("librknnmrt.so", "librknnrt.so")
    ]
    for path in order:
        _write(path, _elf("armhf"))
        assert find_library() == str(path)
    assert list(usual_paths()) == list(map(str, reversed(order)))


def test_only_a_library_that_can_be_loaded_counts(folders: tuple[Path, Path]) -> None:
    """A library of another architecture, a text and a folder of that name are skipped."""
    _write(folders[0] / "librknnrt.so", _elf("aarch64"))
    _write(folders[0] / "librknnmrt.so", b"not a library at all")
    (folders[1] / "librknnrt.so").mkdir(parents=True)
    assert find_library() is None
    fitting = _write(folders[1] / "librknnmrt.so", _elf("armhf"))
    assert find_library() == fitting


def test_the_interpreter_decides_and_not_the_kernel(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A 32-bit Python on a 64-bit kernel loads 32-bit libraries; a script as Python loads none."""
    first = _write(folders[0] / "librknnrt.so", _elf("aarch64"))
    second = _write(folders[1] / "librknnrt.so", _elf("armhf"))
    assert find_library() == second
    monkeypatch.setattr(sys, "executable", _write(tmp_path / "python64", _elf("aarch64")))
    assert find_library() == first
    monkeypatch.setattr(
        sys, "executable", _write(tmp_path / "python.sh", b"#!/bin/sh\nexec python3 -u\n")
    )
    assert find_library() is None


def test_the_paths_of_boards() -> None:
    """They include the folders of Debian, Buildroot and the camera images."""
    boards = {
        "/usr/lib/librknnrt.so",
        "/usr/lib/aarch64-linux-gnu/librknnrt.so",
        "/oem/usr/lib/librknnmrt.so",
    }
    assert boards <= set(usual_paths())
