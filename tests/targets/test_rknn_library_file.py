"""What a file of Rockchip's runtime is, read from the file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from targets.errors import TargetError
from targets.rknn_library import architecture_of, architecture_of_this_python, read_library
from tests.targets.library_files import write_library


@pytest.mark.parametrize(
    ("kind", "version", "architecture"),
    [("librknnrt", "1.6.0", "armhf"), ("librknnrt", "2.0.0b0", "aarch64"), ("librknnmrt", "2.3.2", "armhf")],
)
def test_kind_version_and_architecture(tmp_path: Path, kind: str, version: str, architecture: str) -> None:
    """The name of the file does not matter."""
    library = read_library(write_library(tmp_path / "any name", kind, version, architecture))
    assert (library.kind, library.version, library.architecture) == (kind, version, architecture)


def test_each_kind_is_for_its_chips(tmp_path: Path) -> None:
    """The mini runtime is for the small chips, the other one for the rest."""
    assert read_library(write_library(tmp_path / "a", "librknnmrt")).chips() == ["rv1103", "rv1106"]
    assert "rk3588" in read_library(write_library(tmp_path / "b", "librknnrt")).chips()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The sentence has the path and the system's reason."""
    with pytest.raises(TargetError, match=r"--rknn-library .*/none: No such file or directory\. Give"):
        read_library(tmp_path / "none")
    with pytest.raises(TargetError, match="Is a directory"):
        read_library(tmp_path)


def test_files_that_are_something_else(tmp_path: Path) -> None:
    """An empty file, a text, a program, and a library for another processor."""
    text = tmp_path / "text"
    text.write_text("librknnrt version: 1.6.0 (", encoding="ascii")
    (tmp_path / "empty").touch()
    for path in (text, tmp_path / "empty", write_library(tmp_path / "other", architecture="mips")):
        with pytest.raises(TargetError, match="it is no shared library for armhf, aarch64, x86_64"):
            read_library(path)
    with pytest.raises(TargetError, match="has no version of RKNN's in it"):
        read_library(Path(sys.executable))


def test_architectures_of_programs(tmp_path: Path) -> None:
    """What is no program has none."""
    assert architecture_of(write_library(tmp_path / "a", architecture="aarch64")) == "aarch64"
    assert architecture_of_this_python() is not None
    assert architecture_of(tmp_path) is None
    assert architecture_of(Path(__file__)) is None
