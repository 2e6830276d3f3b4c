"""How busy the NPU's cores are, as Rockchip's driver says.

The driver sums up each core's busy time for a second (rknpu_load_show in drivers/rknpu/rknpu_debugger.c,
RKNPU_LOAD_INTERVAL in rknpu_drv.h) and does not power the NPU on to tell it. devfreq's `load` of the NPU is not read:
npu_devfreq_get_dev_status in drivers/rknpu/rknpu_devfreq.c fills nothing in, so it says `100@1000000000Hz` at rest too.
"""

from __future__ import annotations

import re
from pathlib import Path

from messages import Message
from samplers.npu.file_source import FileSource, read_text

__all__ = ["NPU_LOAD"]

#: `NPU load:  Core0:  0%, Core1: 12%, Core2:  0%,`, and `NPU load:  0%` where there is one core.
_LOAD = re.compile(r"NPU load:(?:\s+(?:Core\d+:\s+)?\d{1,3}%,?)+\s*")
_PERCENT = re.compile(r"(\d+)%")


def _cores_percent(path: Path) -> list[float] | None:
    text = read_text(path) or ""
    return [float(percent) for percent in _PERCENT.findall(text)] if _LOAD.fullmatch(text) else None


#: Percent of the last full second, core by core.
NPU_LOAD = (
    FileSource(
        "/proc/rknpu/load", _cores_percent, Message("kernel_lacks", {"option": "CONFIG_ROCKCHIP_RKNPU_PROC_FS"})
    ),
    FileSource("/sys/kernel/debug/rknpu/load", _cores_percent, Message("debugfs_missing")),
)
