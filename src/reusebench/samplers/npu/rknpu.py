"""Figures of Rockchip's NPU driver: its version, the load of the cores, and the SRAM in use.

drivers/rknpu/rknpu_debugger.c has the nodes. Its `freq` is never read: that powers the NPU on.

The driver sums each core's busy time over a second (rknpu_load_show, and RKNPU_LOAD_INTERVAL in
rknpu_drv.h); reading that does not power the NPU on. devfreq's `load` of the NPU is not read:
npu_devfreq_get_dev_status in drivers/rknpu/rknpu_devfreq.c fills nothing in, so it is
`100@1000000000Hz` even at rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reusebench.measured.messages import Message
from reusebench.samplers.host import FileStatus, Host, read_texts
from reusebench.samplers.npu.file_source import FileSource

__all__ = ["NPU_LOAD", "SRAM", "Sram", "has_rknpu", "rknpu_driver_version"]

#: `RKNPU driver: v0.9.8`, or just the number in /sys/module (which needs no root). Drivers whose
#: MODULE_VERSION names its macros instead of numbers have no version there.
_VERSION = re.compile(r"(?:RKNPU driver: v)?(\d+\.\d+\.\d+)\s*")
_VERSION_NODES = (
    "/sys/module/rknpu/version",
    "/proc/rknpu/version",
    "/sys/kernel/debug/rknpu/version",
)

#: `SRAM total size: 978944, used: 4096, free: 974848`, the last line (rknpu_mm_dump in
#: drivers/rknpu/rknpu_mm.c).
_SRAM_TOTAL = re.compile(
    r"^SRAM total size: (\d{1,10}), used: (\d{1,10}), free: \d+\s*\Z", re.MULTILINE
)

#: `NPU load:  Core0:  0%, Core1: 12%, Core2:  0%,`, or `NPU load:  0%` if there is one core.
_LOAD = re.compile(r"NPU load:(?:\s+(?:Core\d+:\s+)?\d{1,3}%,?)+\s*")
_PERCENT = re.compile(r"(\d+)%")

#: Paths that only a kernel with the NPU driver, or Rockchip's kernel, has.
_SIGNS = (
    "/sys/bus/platform/drivers/RKNPU",
    "/sys/module/rknpu",
    "/proc/rknpu",
    "/proc/rk_dmabuf",
    "/proc/rk_dma_heap",
)


@dataclass(frozen=True)
class Sram:
    """SRAM of the chip that the device tree gives to the NPU."""

    total_bytes: int
    #: Taken by all processes.
    used_bytes: int


def _sram(text: str) -> Sram | None:
    """Return the last line's figures; the file is empty if the NPU was given no SRAM."""
    total = _SRAM_TOTAL.search(text)
    return Sram(int(total[1]), int(total[2])) if total else None


_NO_SRAM = Message("npu_has_no_sram")
SRAM = (
    FileSource("/proc/rknpu/mm", _sram, _NO_SRAM),
    FileSource("/sys/kernel/debug/rknpu/mm", _sram, _NO_SRAM),
)


def _cores_percent(text: str) -> list[float] | None:
    if not _LOAD.fullmatch(text):
        return None
    return [float(percent) for percent in _PERCENT.findall(text)]


#: Percent of the last full second, core by core.
NPU_LOAD = (
    FileSource(
        "/proc/rknpu/load",
        _cores_percent,
        Message("kernel_lacks", {"option": "CONFIG_ROCKCHIP_RKNPU_PROC_FS"}),
    ),
    FileSource("/sys/kernel/debug/rknpu/load", _cores_percent, Message("debugfs_missing")),
)


def has_rknpu(host: Host) -> bool:
    """Whether this kernel has Rockchip's NPU driver, or is Rockchip's."""
    return any(isinstance(status, FileStatus) for status in host.statuses(_SIGNS))


def rknpu_driver_version(host: Host) -> str | None:
    """Return the version of the NPU driver as `0.9.8`; None if none of its nodes can be read."""
    for text in read_texts(host, _VERSION_NODES).values():
        version = _VERSION.fullmatch(text)
        if version:
            return version[1]
    return None
