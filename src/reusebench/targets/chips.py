"""Rockchip's chips with an NPU that RKNN uses, and the facts about them that targets need."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.samplers.host import Host

__all__ = ["CHIPS", "MINI_RUNTIME", "RUNTIME", "Chip", "chip_of", "runs_models_for"]

RUNTIME = "librknnrt"
MINI_RUNTIME = "librknnmrt"


@dataclass(frozen=True)
class Chip:
    """A chip and its NPU."""

    name: str
    npu_cores: int
    #: Library that runs its models: RUNTIME or MINI_RUNTIME.
    runtime: str
    #: Architectures of the Linux systems for it, the usual one first.
    architectures: tuple[str, ...]
    #: Whether its NPU has an IOMMU; without one, buffers are physically contiguous.
    iommu: bool
    #: Version of the hardware as the NPU's driver reports it; librknnrt tells chips apart by it.
    hardware_version: int
    #: First version of the library that knows the chip.
    since: tuple[int, ...] = ()


_64_BIT = ("aarch64", "armhf")
_32_BIT = ("armhf",)

#: Cores and IOMMU: the kernel's rknpu_drv.c (num_irqs of each chip's configuration) and device
#: trees (iommus of the NPU's node). Runtimes: Rockchip's RKNN SDK. Hardware versions: determined by
#: trying with librknnrt 1.4.0 to 2.3.2, which print the chip's name ("current platform is ...") and
#: accept its models; native/preload/settings.c has the same ones. First versions:
#: rknn-toolkit2's CHANGELOG; librknnrt 1.6.0 crashes on both chips that have one here.
_CHIPS = (
    Chip("rk3562", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0x54524549),
    Chip("rk3566", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0),
    Chip("rk3568", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0),
    Chip("rk3576", 2, RUNTIME, _64_BIT, iommu=True, hardware_version=0x46495247, since=(2, 0, 0)),
    Chip("rk3588", 3, RUNTIME, _64_BIT, iommu=True, hardware_version=0x46495245),
    Chip("rv1103", 1, MINI_RUNTIME, _32_BIT, iommu=False, hardware_version=0x54524548),
    Chip("rv1106", 1, MINI_RUNTIME, _32_BIT, iommu=False, hardware_version=0x54524548),
    Chip("rv1126b", 1, RUNTIME, _64_BIT, iommu=True, hardware_version=0x46495248, since=(2, 3, 2)),
)
CHIPS: dict[str, Chip] = {chip.name: chip for chip in _CHIPS}

_COMPATIBLE = "/proc/device-tree/compatible"


def runs_models_for(chip: str, platform: str) -> bool:
    """Whether `chip` runs models for `platform`: their NPUs are equal, or one is unknown here."""
    if chip == platform or chip not in CHIPS or platform not in CHIPS:
        return True
    return CHIPS[chip].hardware_version == CHIPS[platform].hardware_version


def chip_of(host: Host) -> str | None:
    """Return the name of the chip that the host's Linux reports, or None if it is not in CHIPS."""
    try:
        names = host.read(_COMPATIBLE).split(b"\0")
    except OSError:
        return None
    for name in names:
        chip = name.rpartition(b",")[2].decode("ascii", "replace")
        if chip in CHIPS:
            return chip
        # RK3588S and the like have the NPU of the chip without the letter.
        if chip[:-1] in CHIPS:
            return chip[:-1]
    return None
