"""The machine beside a run: CPU use, NPU load, temperatures, frequencies, and whether it was
throttled.
"""

from __future__ import annotations

from reusebench.samplers.host import Host, read_texts
from reusebench.samplers.machine.cpu import CpuMeter
from reusebench.samplers.machine.gauges import (
    Running,
    core_frequencies,
    device_frequencies,
    temperatures,
)
from reusebench.samplers.machine.throttling import Throttling
from reusebench.samplers.npu.file_source import first_readable
from reusebench.samplers.npu.rknpu import NPU_LOAD
from reusebench.samplers.readings import CpuUse, Frequency, MachineState, NpuLoad, Temperature

__all__ = ["MachineWatch"]


class MachineWatch:
    """Reads the machine about once a second; its memory does not grow with the readings."""

    def __init__(self, host: Host, pid: int) -> None:
        """Take the machine and the measured process; look for what can be read there."""
        self._host = host
        self._cpu = CpuMeter(pid)
        self._temperatures = temperatures(host)
        self._frequencies = [*core_frequencies(host), *device_frequencies(host)]
        self._throttling = Throttling(host)
        self._npu_load = first_readable(NPU_LOAD, host)
        self._npu_percents: list[Running] = []
        gauges = (*self._temperatures, *self._frequencies)
        self._paths = [*self._cpu.paths, *(gauge.path for gauge in gauges), *self._throttling.paths]
        if self._npu_load:
            self._paths.append(self._npu_load.path)

    def read(self) -> None:
        """Take one reading, in two round trips; what cannot be read this time is left out.

        On a PC it costs 0.07 ms with CPU use alone, and 0.3 ms with as many files as an RK3588
        board has (some 25).
        """
        texts = read_texts(self._host, self._paths)
        self._cpu.take(texts, self._host.now_ns())
        for gauge in (*self._temperatures, *self._frequencies):
            gauge.take(texts)
        self._throttling.take(texts)
        loads = self._npu_load.parse(texts.get(self._npu_load.path, "")) if self._npu_load else None
        for core, percent in enumerate(loads or ()):
            if core == len(self._npu_percents):
                self._npu_percents.append(Running())
            self._npu_percents[core].add(percent)

    def cpu(self) -> CpuUse:
        """Return the use of the CPUs from the first reading to the last."""
        return self._cpu.use()

    def machine(self) -> MachineState:
        """Return what was read of temperatures, frequencies, the NPU's load and throttling."""
        temperatures = [
            (gauge.name, gauge.figures) for gauge in self._temperatures if gauge.figures.count
        ]
        frequencies = [
            (gauge.name, gauge.figures) for gauge in self._frequencies if gauge.figures.count
        ]
        loads = [
            NpuLoad(core, percents.mean, percents.highest)
            for core, percents in enumerate(self._npu_percents)
        ]
        return MachineState(
            temperatures=tuple(
                Temperature(name, zone.first, zone.highest, zone.last)
                for name, zone in temperatures
            ),
            frequencies=tuple(
                Frequency(name, clock.lowest, clock.mean, clock.highest)
                for name, clock in frequencies
            ),
            npu_load_percent=tuple(loads) or None,
            throttled=self._throttling.report(),
        )
