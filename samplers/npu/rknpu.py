"""What Rockchip's NPU driver says of itself: its version, and the SRAM it gives out.

The nodes are those of drivers/rknpu/rknpu_debugger.c. Of them `freq` is never read: it powers the NPU on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from messages import Message
from samplers.npu.file_source import FileSource, exists, read_text, under

__all__ = ["SRAM", "Sram", "has_npu", "rknpu_driver_version"]

#: `RKNPU driver: v0.9.8`; in /sys/module (which needs no root) the number alone. Drivers whose MODULE_VERSION names its
#: macros instead of numbers say nothing there.
_VERSION = re.compile(r"(?:RKNPU driver: v)?(\d+\.\d+\.\d+)\s*")
_VERSION_NODES = ("/sys/module/rknpu/version", "/proc/rknpu/version", "/sys/kernel/debug/rknpu/version")

#: `SRAM total size: 978944, used: 4096, free: 974848`, the last line (rknpu_mm_dump in drivers/rknpu/rknpu_mm.c).
_SRAM_TOTAL = re.compile(r"^SRAM total size: (\d{1,10}), used: (\d{1,10}), free: \d+\s*\Z", re.MULTILINE)

#: What only a kernel with the NPU driver, or made by Rockchip, has.
_SIGNS = ("/sys/bus/platform/drivers/RKNPU", "/sys/module/rknpu", "/proc/rknpu", "/proc/rk_dmabuf", "/proc/rk_dma_heap")


@dataclass(frozen=True)
class Sram:
    """SRAM of the chip that its device tree gives to the NPU."""

    total_bytes: int
    #: Taken by all processes.
    used_bytes: int


def _sram(path: Path) -> Sram | None:
    """Return the last line's figures; the file is empty where the NPU was given no SRAM."""
    found = _SRAM_TOTAL.search(read_text(path) or "")
    return Sram(int(found[1]), int(found[2])) if found else None


_NO_SRAM = Message("npu_has_no_sram")
SRAM = (
    FileSource("/proc/rknpu/mm", _sram, _NO_SRAM),
    FileSource("/sys/kernel/debug/rknpu/mm", _sram, _NO_SRAM),
)


def has_npu(root: Path = Path("/")) -> bool:
    """Whether this kernel has Rockchip's NPU driver, or is Rockchip's."""
    return any(exists(under(root, sign)) for sign in _SIGNS)


def rknpu_driver_version(root: Path = Path("/")) -> str | None:
    """Return the version of the NPU driver as `0.9.8`; None where no node of it can be read."""
    for node in _VERSION_NODES:
        found = _VERSION.fullmatch(read_text(under(root, node)) or "")
        if found:
            return found[1]
    return None
