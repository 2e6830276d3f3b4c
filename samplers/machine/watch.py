"""The machine beside a run: CPU use, NPU load, temperatures, frequencies, and whether it was throttled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samplers.machine.cpu import CpuUse
from samplers.machine.gauges import Gauge, core_frequencies, device_frequencies, temperatures
from samplers.machine.running_figure import Running
from samplers.machine.throttling import Throttling
from samplers.npu.file_source import first_readable
from samplers.npu.load import NPU_LOAD

__all__ = ["MachineWatch"]


class MachineWatch:
    """Reads the machine about once a second; its memory does not grow with the readings."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        """Take the measured process, and the tree in which proc/ and sys/ stand; find what can be read here."""
        self._root = root
        self._cpu = CpuUse(pid, root)
        self._temperatures = temperatures(root)
        self._frequencies = [*core_frequencies(root), *device_frequencies(root)]
        self._throttling = Throttling(root)
        self._npu_load = first_readable(NPU_LOAD, root)
        self._npu_percents: list[Running] = []

    def read(self) -> None:
        """Take one reading; what cannot be read this time is left out.

        On a PC it costs 0.07 ms with CPU use alone, and 0.3 ms with as many files as an RK3588 board has (some 25).
        """
        self._cpu.read()
        for gauge in (*self._temperatures, *self._frequencies):
            gauge.read()
        self._throttling.read()
        self._read_npu()

    def cpu(self) -> dict[str, Any]:
        """Return means from the first reading to the last, in percent; 100 is one core."""
        return {
            "cores_percent": self._cpu.cores_percent,
            "process_percent": self._cpu.process_percent,
            "harness_percent": self._cpu.harness_percent,
        }

    def machine(self) -> dict[str, Any]:
        """Return temperatures, frequencies, NPU load (None: not readable) and throttling (None: not said) as stored."""
        return {
            "temperatures": [_temperature(gauge) for gauge in self._temperatures if gauge.figures.count],
            "frequencies": [_frequency(gauge) for gauge in self._frequencies if gauge.figures.count],
            "npu_load_percent": self._npu_load_percent(),
            "throttled": self._throttling.report(),
        }

    def _read_npu(self) -> None:
        percents = self._npu_load.read(self._root) if self._npu_load else None
        for core, percent in enumerate(percents or ()):
            if core == len(self._npu_percents):
                self._npu_percents.append(Running())
            self._npu_percents[core].add(percent)

    def _npu_load_percent(self) -> list[dict[str, Any]] | None:
        loads = [
            {"core": core, "mean": percents.mean, "highest": percents.highest}
            for core, percents in enumerate(self._npu_percents)
        ]
        return loads or None


def _temperature(gauge: Gauge) -> dict[str, Any]:
    figures = gauge.figures
    return {
        "name": gauge.name,
        "first_celsius": figures.first,
        "highest_celsius": figures.highest,
        "last_celsius": figures.last,
    }


def _frequency(gauge: Gauge) -> dict[str, Any]:
    figures = gauge.figures
    return {
        "name": gauge.name,
        "lowest_hz": figures.lowest,
        "mean_hz": figures.mean,
        "highest_hz": figures.highest,
    }
