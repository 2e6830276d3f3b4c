"""NPU memory on a board: of the process, of the system, and the kernel's files that show it."""

from __future__ import annotations

from reusebench.samplers.npu.mainline import mainline_npus
from reusebench.samplers.npu.memory import NpuSources, find_npu_sources, has_npu
from reusebench.samplers.npu.rknpu import has_rknpu, rknpu_driver_version

__all__ = [
    "NpuSources",
    "find_npu_sources",
    "has_npu",
    "has_rknpu",
    "mainline_npus",
    "rknpu_driver_version",
]
