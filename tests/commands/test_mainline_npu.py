"""Rows of `reusebench doctor` about an NPU with a driver of mainline Linux."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.commands import doctor
from reusebench.commands.mainline_npu import mainline_parts, not_usable
from reusebench.commands.parts import Part
from reusebench.measured.runtimes.teflon.library_file import USUAL_PATHS
from reusebench.samplers.host import LocalHost

_RELEASE = {"proc/sys/kernel/osrelease": "6.18.3\n"}
_ROCKET = {**_RELEASE, "sys/class/accel/accel0/device/uevent": "MODALIAS=platform:rknn\n"}
_DEBIANS = USUAL_PATHS[0].lstrip("/")


def _package(version: str, status: str = "install ok installed") -> dict[str, str]:
    text = (
        "Package: bash\nStatus: install ok installed\nVersion: 5.2\n\n"
        f"Package: mesa-teflon-delegate\nStatus: {status}\nArchitecture: arm64\n"
        f"Version: {version}\nDescription: delegate\n"
    )
    return {_DEBIANS: "", "var/lib/dpkg/status": text}


def _parts(
    root: Path, tree: dict[str, str], can_open: bool = True, chip: str | None = "rk3588"
) -> dict[str, Part]:
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    parts = mainline_parts(LocalHost(root), lambda _: can_open, USUAL_PATHS, chip)
    return {part.name: part for part in parts}


def test_a_board_with_rocket(tmp_path: Path) -> None:
    """Driver and kernel, the node's rights, and the library with its package."""
    parts = _parts(tmp_path, {**_ROCKET, **_package("26.1.6-1~bpo13+1")})
    assert list(parts.values()) == [
        Part("driver", True, "rocket, in Linux 6.18.3"),
        Part("/dev/accel/accel0", True, "this user may open it"),
        Part("libteflon", True, f"/{_DEBIANS}, mesa-teflon-delegate 26.1.6-1~bpo13+1"),
    ]


def test_a_node_of_others(tmp_path: Path) -> None:
    """The group that may open it, and a rule for a system without that of udev."""
    part = _parts(tmp_path, _ROCKET, can_open=False)["/dev/accel/accel0"]
    assert not part.is_here
    assert "usermod -aG render" in part.remark
    assert "99-accel.rules" in part.remark


@pytest.mark.parametrize(
    ("tree", "is_here", "words"),
    [
        ({}, False, "sudo apt install mesa-teflon-delegate"),
        ({_DEBIANS: ""}, True, "of no package of Debian"),
        (_package("25.0.7-2"), False, "it has no driver for rocket; from 26.1 on"),
        (_package("1:26.1.0-1"), True, "mesa-teflon-delegate 1:26.1.0-1"),
        (_package("26.1.6-1", "deinstall ok config-files"), True, "of no package of Debian"),
    ],
)
def test_the_library(tmp_path: Path, tree: dict[str, str], is_here: bool, words: str) -> None:
    """A missing one, one of no package, and one too old for rocket, each with its remedy."""
    part = _parts(tmp_path, {**_ROCKET, **tree})["libteflon"]
    assert part.is_here is is_here
    assert words in part.remark


def test_a_driver_that_was_never_tried(tmp_path: Path) -> None:
    """It is recognised, and said to be untried."""
    tree = {**_RELEASE, "sys/class/accel/accel0/device/uevent": "DRIVER=ethosu\n"}
    assert "was never tried" in _parts(tmp_path, tree, chip=None)["driver"].remark


def test_a_board_without_the_driver(tmp_path: Path) -> None:
    """An RK3588 with an old mainline kernel says which one has it; another machine says nothing."""
    tree = {"proc/sys/kernel/osrelease": "6.12.43-arm64\n"}
    assert _parts(tmp_path, tree, chip=None) == {}
    (part,) = _parts(tmp_path, tree).values()
    assert (part.name, part.is_here) == ("driver", False)
    assert "mainline Linux has rocket from 6.18 on, and this is 6.12.43-arm64" in part.remark


def test_rights_of_a_node_are_looked_at_alone(tmp_path: Path) -> None:
    """A node that cannot be opened for another reason counts as allowed: nothing opens it."""
    pipe = tmp_path / "pipe"
    assert not doctor._may_open(str(pipe))
    pipe.mkdir()
    assert doctor._may_open(str(pipe))


def test_a_runtime_that_runs_nothing(tmp_path: Path) -> None:
    """Without such an NPU, or with a node that is others', Teflon runs nothing."""
    host = LocalHost(tmp_path)
    assert "no NPU with a driver of mainline" in str(not_usable(host, lambda _: True))
    _parts(tmp_path, _ROCKET)
    assert "usermod -aG render" in str(not_usable(host, lambda _: False))
    assert not_usable(host, lambda _: True) is None
