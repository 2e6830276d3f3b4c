"""Rockchip's chips with an NPU of this kind: what a target must know of them."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.samplers.host import Host

__all__ = ["CHIPS", "MINI_RUNTIME", "RUNTIME", "Chip", "chip_of", "runs_models_for"]

RUNTIME = "librknnrt"
MINI_RUNTIME = "librknnmrt"


@dataclass(frozen=True)
class Chip:
    """One chip."""

    name: str
    npu_cores: int
    #: The library that runs its models.
    runtime: str
    #: Architectures of the Linux systems on it, the usual one first.
    architectures: tuple[str, ...]
    #: Whether its NPU has an IOMMU; without one, buffers are physically contiguous.
    iommu: bool
    #: What its NPU's driver answers when asked for the hardware's version, by which librknnrt knows
    #: the chip.
    hardware_version: int
    #: The first version of the library that knows it.
    since: tuple[int, ...] = ()


_64_BIT = ("aarch64", "armhf")
_32_BIT = ("armhf",)

#: Cores and IOMMU: the kernel's rknpu_drv.c (num_irqs of each chip's configuration) and device
#: trees (iommus of the NPU's node). Runtimes: Rockchip's RKNN SDK. Hardware versions: determined by
#: trying with librknnrt 1.4.0 to 2.3.2, which name the chip of each ("current platform is ...") and
#: take its models there; the C source native/preload/settings.c has the same ones. First versions:
#: rknn-toolkit2's CHANGELOG; librknnrt 1.6.0 crashes on both chips.
CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip("rk3562", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0x54524549),
        Chip("rk3566", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0),
        Chip("rk3568", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0),
        Chip(
            "rk3576", 2, RUNTIME, _64_BIT, iommu=True, hardware_version=0x46495247, since=(2, 0, 0)
        ),
        Chip("rk3588", 3, RUNTIME, _64_BIT, iommu=True, hardware_version=0x46495245),
        Chip("rv1103", 1, MINI_RUNTIME, _32_BIT, iommu=False, hardware_version=0x54524548),
        Chip("rv1106", 1, MINI_RUNTIME, _32_BIT, iommu=False, hardware_version=0x54524548),
        Chip(
            "rv1126b", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0x46495248, since=(2, 3, 2)
        ),
    )
}

_COMPATIBLE = "/proc/device-tree/compatible"


def runs_models_for(chip: str, platform: str) -> bool:
    """Whether the chip runs models for another one, which has an equal NPU; yes where one of them
    is not known here.
    """
    if chip == platform or chip not in CHIPS or platform not in CHIPS:
        return True
    return CHIPS[chip].hardware_version == CHIPS[platform].hardware_version


def chip_of(host: Host) -> str | None:
    """Return the name of the chip that the host's Linux reports, or None if it is none of
    these.
    """
    try:
        names = host.read(_COMPATIBLE).split(b"\0")
    except OSError:
        return None
    # RK3588S and the like have the NPU of the chip without the letter, and are named after it.
    for name in names:
        chip = name.rpartition(b",")[2].decode("ascii", "replace")
        if chip in CHIPS or chip[:-1] in CHIPS:
            return chip if chip in CHIPS else chip[:-1]
    return None
