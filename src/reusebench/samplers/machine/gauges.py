"""Temperatures and frequencies: files of /sys with one number each, read again and again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from reusebench.samplers.host import Host, names_in, read_texts

__all__ = [
    "THERMAL",
    "Gauge",
    "Running",
    "core_frequencies",
    "device_frequencies",
    "names",
    "number",
    "temperatures",
]

THERMAL = "/sys/class/thermal"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
_DEVFREQ = "/sys/class/devfreq"

#: Drivers give THERMAL_TEMP_INVALID (-274000, include/linux/thermal.h) while a sensor is off.
_ABSOLUTE_ZERO_MILLIDEGREES = -273150


class Running:
    """First, last, lowest, highest and mean of figures that come one by one, in memory that does
    not grow.

    Until the first comes, they are infinite or no numbers.
    """

    __slots__ = ("_sum", "count", "first", "highest", "last", "lowest")

    def __init__(self) -> None:
        self._sum = 0.0
        self.count = 0
        self.first = self.last = math.nan
        self.lowest = math.inf
        self.highest = -math.inf

    def add(self, value: float) -> None:
        """Take one figure in."""
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
    """One number that is read again and again; a reading that fails (EAGAIN, EINVAL, file gone) is
    left out.
    """

    def __init__(self, name: str, path: str, parse: Callable[[str], float | None]) -> None:
        """Take the file, and what makes a figure of its text: None or ValueError if there is
        none in it.
        """
        self.name = name
        self.path = path
        self._parse = parse
        self.figures = Running()

    def take(self, texts: Mapping[str, str]) -> None:
        """Take one reading out of what was read, by path."""
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
        gauges.append(Gauge(name, f"{folder}/scaling_cur_freq", _hz_of_khz))
    return gauges


def device_frequencies(host: Host) -> list[Gauge]:
    """Return the clocks of devices, in Hz: `fdab0000.npu`, `fb000000.gpu`, `dmc` (the memory).

    For the NPU devfreq has the rate that was set; the driver's own node would power the NPU on.
    """
    return [
        Gauge(device, f"{_DEVFREQ}/{device}/cur_freq", int) for device in names_in(host, _DEVFREQ)
    ]


def names(host: Host, parent: str, folders: Sequence[str]) -> list[tuple[str, str]]:
    """Return the folders' paths with the content of their `type`; where several have one, also with
    the folder.
    """
    texts = read_texts(host, [f"{parent}/{folder}/type" for folder in folders])
    types = {
        folder: texts.get(f"{parent}/{folder}/type", "").strip() or folder for folder in folders
    }
    times = Counter(types.values())
    return [
        (f"{parent}/{folder}", kind if times[kind] == 1 else f"{kind} ({folder})")
        for folder, kind in types.items()
    ]


def number(name: str) -> int:
    """Return the number in a name of the kernel: `thermal_zone6`."""
    return int("0" + "".join(filter(str.isdigit, name)))


def _celsius(text: str) -> float | None:
    millidegrees = int(text)
    return millidegrees / 1000 if millidegrees > _ABSOLUTE_ZERO_MILLIDEGREES else None


def _hz_of_khz(text: str) -> int:
    return int(text) * 1000


def _cores(related: str) -> str:
    """Return the cores that share a clock, as the kernel writes lists of them: `cpu0-3`, `cpu4,6`;
    "" of none.
    """
    cores = [int(core) for core in related.split()]
    runs = [
        [core for _, core in run]
        for _, run in groupby(enumerate(cores), lambda pair: pair[1] - pair[0])
    ]
    ranges = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"cpu{ranges}" if ranges else ""
