"""Temperatures and frequencies: files of /sys with one number each, read repeatedly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from reusebench.samplers.host import Host, names_in, read_texts

__all__ = [
    "THERMAL",
    "Gauge",
    "RunningFigures",
    "core_frequencies",
    "device_frequencies",
    "names",
    "number",
    "temperatures",
]

THERMAL = "/sys/class/thermal"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_DEVFREQ = "/sys/class/devfreq"

#: Drivers report THERMAL_TEMP_INVALID (-274000, include/linux/thermal.h) while a sensor is off.
_ABSOLUTE_ZERO_MILLIDEGREES = -273150


class RunningFigures:
    """First, last, lowest, highest and mean of a series of figures, in constant memory.

    Before the first figure they are infinite or NaN.
    """

    __slots__ = ("_sum", "count", "first", "highest", "last", "lowest")

    def __init__(self) -> None:
        self._sum = 0.0
        self.count = 0
        self.first = self.last = math.nan
        self.lowest = math.inf
        self.highest = -math.inf

    def add(self, value: float) -> None:
        """Add one figure."""
        if not self.count:
            self.first = value
        self.last = value
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)
        self._sum += value
        self.count += 1

    @property
    def mean(self) -> float:
        """The mean of all figures."""
        return self._sum / self.count if self.count else math.nan


class Gauge:
    """One number that is read repeatedly.

    A reading that fails (EAGAIN, EINVAL, file gone) is skipped.
    """

    def __init__(self, name: str, path: str, parse: Callable[[str], float | None]) -> None:
        """`parse` returns the figure in the file's text; None or ValueError if there is none."""
        self.name = name
        self.path = path
        self._parse = parse
        self.figures = RunningFigures()

    def take(self, texts: Mapping[str, str]) -> None:
        """Add one reading from `texts`, keyed by path."""
        try:
            figure = self._parse(texts.get(self.path, ""))
        except ValueError:
            return
        if figure is not None:
            self.figures.add(figure)


def temperatures(host: Host) -> list[Gauge]:
    """Return the thermal zones, in degrees Celsius, named by their types: `npu-thermal`."""
    zones = sorted(names_in(host, THERMAL, "thermal_zone"), key=number)
    return [Gauge(name, f"{zone}/temp", _celsius) for zone, name in names(host, THERMAL, zones)]


def core_frequencies(host: Host) -> list[Gauge]:
    """Return the clocks of the cores, in Hz, named by the cores that share them: `cpu0-3`."""
    policies = sorted(names_in(host, _CPUFREQ, "policy"), key=number)
    cores = read_texts(host, [f"{_CPUFREQ}/{policy}/related_cpus" for policy in policies])
    gauges = []
    for policy in policies:
        folder = f"{_CPUFREQ}/{policy}"
        name = _cores(cores.get(f"{folder}/related_cpus", "")) or policy
        gauges.append(Gauge(name, f"{folder}/scaling_cur_freq", _hz_from_khz))
    return gauges


def device_frequencies(host: Host) -> list[Gauge]:
    """Return the clocks of devices, in Hz: `fdab0000.npu`, `fb000000.gpu`, `dmc` (the memory).

    For the NPU devfreq has the rate that was set; the driver's own node would power the NPU on.
    """
    return [
        Gauge(device, f"{_DEVFREQ}/{device}/cur_freq", int) for device in names_in(host, _DEVFREQ)
    ]


def names(host: Host, parent: str, folders: Sequence[str]) -> list[tuple[str, str]]:
    """Return (path, name) of each folder; the name is the content of `type`.

    If several folders have the same type, the name has the folder as well.
    """
    texts = read_texts(host, [f"{parent}/{folder}/type" for folder in folders])
    types = {
        folder: texts.get(f"{parent}/{folder}/type", "").strip() or folder for folder in folders
    }
    counts = Counter(types.values())
    named = []
    for folder, kind in types.items():
        name = kind if counts[kind] == 1 else f"{kind} ({folder})"
        named.append((f"{parent}/{folder}", name))
    return named


def number(name: str) -> int:
    """Return the number in a name of the kernel: `thermal_zone6`."""
    return int("0" + "".join(filter(str.isdigit, name)))


def _celsius(text: str) -> float | None:
    millidegrees = int(text)
    if millidegrees <= _ABSOLUTE_ZERO_MILLIDEGREES:
        return None
    return millidegrees / 1000


def _hz_from_khz(text: str) -> int:
    return int(text) * 1000


def _cores(related: str) -> str:
    """Return the cores that share a clock, in the kernel's notation: `cpu0-3`, `cpu4,6`.

    Empty if there are none.
    """
    runs: list[list[int]] = []
    for core in map(int, related.split()):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    if not runs:
        return ""
    ranges = []
    for run in runs:
        ranges.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return f"cpu{','.join(ranges)}"
