"""Temperatures and frequencies: files of /sys with one number each, read again and again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from samplers.files import read_text

__all__ = ["Gauge", "Running", "core_frequencies", "device_frequencies", "names", "temperatures"]

#: Drivers give THERMAL_TEMP_INVALID (-274000, include/linux/thermal.h) while a sensor is off.
_ABSOLUTE_ZERO_MILLIDEGREES = -273150


class Running:
    """First, last, lowest, highest and mean of figures that come one by one, in memory that does not grow.

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
    """One number that is read again and again; a reading that fails (EAGAIN, EINVAL, file gone) is left out."""

    def __init__(self, name: str, path: Path, parse: Callable[[str], float | None]) -> None:
        """Take the file, and what makes a figure of its text: None or ValueError where there is none in it."""
        self.name = name
        self._path = path
        self._parse = parse
        self.figures = Running()

    def read(self) -> None:
        """Take one reading."""
        try:
            figure = self._parse(read_text(self._path) or "")
        except ValueError:
            return
        if figure is not None:
            self.figures.add(figure)


def temperatures(root: Path) -> list[Gauge]:
    """Return the thermal zones, in degrees Celsius, named by their types: `npu-thermal`."""
    zones = sorted((root / "sys/class/thermal").glob("thermal_zone*"), key=_number)
    return [Gauge(name, zone / "temp", _celsius) for zone, name in names(zones)]


def core_frequencies(root: Path) -> list[Gauge]:
    """Return the clocks of the cores, in Hz, named by the cores that share them: `cpu0-3`."""
    policies = sorted((root / "sys/devices/system/cpu/cpufreq").glob("policy*"), key=_number)
    return [Gauge(_cores(policy), policy / "scaling_cur_freq", _hz_of_khz) for policy in policies]


def device_frequencies(root: Path) -> list[Gauge]:
    """Return the clocks of devices, in Hz: `fdab0000.npu`, `fb000000.gpu`, `dmc` (the memory).

    For the NPU devfreq has the rate that was set; the driver's own node would power the NPU on.
    """
    devices = sorted((root / "sys/class/devfreq").glob("*"))
    return [Gauge(device.name, device / "cur_freq", int) for device in devices]


def names(folders: Iterable[Path]) -> list[tuple[Path, str]]:
    """Return the folders with the content of their `type`; where several are of one type, also with their own name."""
    types = {folder: (read_text(folder / "type") or "").strip() or folder.name for folder in folders}
    times = Counter(types.values())
    return [(folder, kind if times[kind] == 1 else f"{kind} ({folder.name})") for folder, kind in types.items()]


def _celsius(text: str) -> float | None:
    millidegrees = int(text)
    return millidegrees / 1000 if millidegrees > _ABSOLUTE_ZERO_MILLIDEGREES else None


def _hz_of_khz(text: str) -> int:
    return int(text) * 1000


def _number(folder: Path) -> int:
    return int("".join(filter(str.isdigit, folder.name)))


def _cores(policy: Path) -> str:
    """Return the cores that share a clock, as the kernel writes lists of them: `cpu0-3`, `cpu4,6`."""
    cores = [int(core) for core in (read_text(policy / "related_cpus") or "").split()]
    runs = [[core for _, core in run] for _, run in groupby(enumerate(cores), lambda pair: pair[1] - pair[0])]
    ranges = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"cpu{ranges}" if ranges else policy.name
