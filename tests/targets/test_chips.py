"""The table of chips, and the chips of a library file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reusebench.samplers.host import LocalHost
from reusebench.targets.chips import CHIPS, chip_of, runs_models_for
from reusebench.targets.errors import TargetError
from reusebench.targets.rknn_library import (
    architecture_of,
    architecture_of_this_python,
    read_library,
)
from tests.targets.library_files import write_library


def test_the_table_of_chips(tmp_path: Path) -> None:
    """Every chip is under its name; small ones have the mini runtime."""
    assert all(
        name == chip.name and chip.npu_cores and chip.architectures for name, chip in CHIPS.items()
    )
    assert read_library(write_library(tmp_path / "a", "librknnmrt")).chips() == ["rv1103", "rv1106"]


@pytest.mark.parametrize(
    ("version", "later"),
    [("1.6.0", set()), ("2.0.0b0", {"rk3576"}), ("2.3.2", {"rk3576", "rv1126b"})],
)
def test_a_library_does_not_know_chips_that_came_after_it(
    tmp_path: Path, version: str, later: set[str]
) -> None:
    """It crashes on them, so they are not among its chips."""
    chips = set(read_library(write_library(tmp_path / "library", version=version)).chips())
    assert chips & {"rk3576", "rv1126b"} == later
    assert chips >= {"rk3562", "rk3566", "rk3568", "rk3588"}


@pytest.mark.parametrize(
    ("chip", "platform", "runs"),
    [
        ("rk3588", "rk3588", True),
        ("rk3568", "rk3566", True),
        ("rv1103", "rv1106", True),
        ("rk3588", "rk3566", False),
        ("rk3588", "rk3576", False),
        ("rk3576", "rv1126b", False),
        ("rv1106", "rk3562", False),
        # Chips that are not in the table are left to the library.
        ("rv1106", "rv1106b", True),
    ],
)
def test_models_of_other_chips(chip: str, platform: str, runs: bool) -> None:
    """They run if the NPU is the same."""
    assert runs_models_for(chip, platform) == runs


@pytest.mark.parametrize(
    ("compatible", "chip"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588"),
        (b"orangepi,5\0rockchip,rk3588s\0", "rk3588"),
        (b"luckfox,pico\0rockchip,rv1103\0rockchip,rv1106\0", "rv1103"),
        (b"raspberrypi,5-model-b\0brcm,bcm2712\0", None),
        (b"\xff\0", None),
        (b"", None),
        # A PC has no device tree.
        (None, None),
    ],
)
def test_the_chip_of_a_board(tmp_path: Path, compatible: bytes | None, chip: str | None) -> None:
    """It is among the names in the device tree, which has the most exact one first."""
    if compatible is not None:
        (tmp_path / "proc/device-tree").mkdir(parents=True)
        (tmp_path / "proc/device-tree/compatible").write_bytes(compatible)
    assert chip_of(LocalHost(tmp_path)) == chip


@pytest.mark.parametrize(
    ("kind", "version", "architecture"),
    [
        ("librknnrt", "1.6.0", "armhf"),
        ("librknnrt", "2.0.0b0", "aarch64"),
        ("librknnmrt", "2.3.2", "armhf"),
    ],
)
def test_a_library_file(tmp_path: Path, kind: str, version: str, architecture: str) -> None:
    """Kind, version and architecture do not depend on the name of the file."""
    path = write_library(tmp_path / "any name", kind, version, architecture)
    library = read_library(path)
    assert (library.kind, library.version, library.architecture) == (kind, version, architecture)
    assert architecture_of(path) == architecture


def test_files_that_are_no_library(tmp_path: Path) -> None:
    """The error is different for no file, a folder, an empty file, a text and other binaries."""
    text = tmp_path / "text"
    empty = tmp_path / "empty"
    text.write_text("librknnrt version: 1.6.0 (")
    empty.touch()
    no_library = "it is no shared library for armhf, aarch64, x86_64"
    sentences = {
        tmp_path / "none": r"--rknn-library .*/none: it does not exist\. Give",
        tmp_path: "it is a folder; a regular file is needed",
        empty: "the file is empty",
        text: no_library,
        write_library(tmp_path / "other", architecture="mips"): no_library,
        Path(sys.executable): "has no version of RKNN's in it",
    }
    for path, sentence in sentences.items():
        with pytest.raises(TargetError, match=sentence):
            read_library(path)
    assert architecture_of(tmp_path) is None
    assert architecture_of(text) is None
    assert architecture_of_this_python() is not None
