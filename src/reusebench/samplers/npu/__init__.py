"""NPU memory on a board: of the process, of the system, and the kernel's files that show it."""

from __future__ import annotations

from reusebench.samplers.npu.memory import NpuSources, find_npu_sources
from reusebench.samplers.npu.rknpu import has_npu, rknpu_driver_version

__all__ = ["NpuSources", "find_npu_sources", "has_npu", "rknpu_driver_version"]
