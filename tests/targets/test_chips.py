"""The table of chips."""

from __future__ import annotations

from pathlib import Path

import pytest

from targets.chips import CHIPS, chip_of_this_machine, playable_chips


def test_every_chip_is_under_its_name() -> None:
    """And has at least one core and one architecture."""
    assert all(name == chip.name and chip.npu_cores and chip.architectures for name, chip in CHIPS.items())
    assert set(playable_chips()) < set(CHIPS)


@pytest.mark.parametrize(
    ("compatible", "chip"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588"),
        (b"orangepi,5\0rockchip,rk3588s\0", "rk3588"),
        (b"luckfox,pico\0rockchip,rv1103\0rockchip,rv1106\0", "rv1103"),
        (b"raspberrypi,5-model-b\0brcm,bcm2712\0", None),
        (b"\xff\0", None),
        (b"", None),
    ],
)
def test_the_chip_of_a_board(tmp_path: Path, compatible: bytes, chip: str | None) -> None:
    """From the names that the device tree has for it, the most exact first."""
    (tmp_path / "compatible").write_bytes(compatible)
    assert chip_of_this_machine(tmp_path / "compatible") == chip


def test_a_machine_without_a_device_tree(tmp_path: Path) -> None:
    """A PC has no such chip."""
    assert chip_of_this_machine(tmp_path / "none") is None
