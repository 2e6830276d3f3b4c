"""Throttling, as far as the machine reports it, and its share of the readings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from reusebench.samplers.host import Host, names_in, read_texts
from reusebench.samplers.machine.gauges import THERMAL, RunningFigures, names
from reusebench.samplers.readings import Throttle

__all__ = ["Throttling"]

#: Types of cooling devices that slow down a processor: `thermal-cpufreq-0`, `cpufreq-cpu0`,
#: `thermal-devfreq-1`, `devfreq-fdab0000.npu`, `Processor` (ACPI). Other devices blow (`pwm-fan`),
#: or are set by hand.
_SLOWING = re.compile(r"(?!.*fan).*(?:cpufreq|devfreq|processor|[gn]pu(?![a-z]))", re.IGNORECASE)

_CPU = "/sys/devices/system/cpu"
_PLATFORM = "/sys/devices/platform"
_CORE = re.compile(r"cpu\d+")
_FIRMWARE = re.compile(r"soc.*:firmware")

#: Counters since boot: a core, or its package, reached its limit
#: (drivers/thermal/intel/therm_throt.c).
_COUNTERS = ("core_throttle_count", "package_throttle_count")

#: Lowest bits of the firmware's answer, in order: the current state. Bits 16 higher have the states
#: since boot.
_FIRMWARE_BITS = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")


class _Source(Protocol):
    """A source that tells whether the machine is slowed down."""

    #: Kind of the source, as in Throttle.kind.
    kind: str
    paths: list[str]

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        """Return, by name, whether the machine is slowed now; unreadable states are skipped."""


class Throttling:
    """All sources of throttling; `readable` is whether the machine has any."""

    def __init__(self, host: Host) -> None:
        """Look for the host's sources."""
        self._sources = [*_cooling_devices(host), *_counters(host), *_firmware(host)]
        self.readable = bool(self._sources)
        self.paths: list[str] = []
        for source in self._sources:
            self.paths += source.paths
        self._percents: dict[tuple[str, str], RunningFigures] = {}

    def take(self, texts: Mapping[str, str]) -> None:
        """Add one reading from `texts`, keyed by path."""
        for source in self._sources:
            for name, slowed in source.slowed(texts).items():
                percents = self._percents.setdefault((name, source.kind), RunningFigures())
                percents.add(100.0 if slowed else 0.0)

    def report(self) -> tuple[Throttle, ...] | None:
        """Return the causes of throttling, with their shares of the readings.

        None if nothing could be read.
        """
        if not self._percents:
            return None
        throttles = []
        for (name, kind), percents in self._percents.items():
            if percents.mean:
                throttles.append(Throttle(name, kind, percents.mean))
        return tuple(throttles)


def _cooling_devices(host: Host) -> list[_Source]:
    devices = names(host, THERMAL, names_in(host, THERMAL, "cooling_device"))
    return [
        _CoolingDevice(name, f"{folder}/cur_state")
        for folder, name in devices
        if _SLOWING.match(name)
    ]


def _counters(host: Host) -> list[_Source]:
    cores = [core for core in names_in(host, _CPU) if _CORE.fullmatch(core)]
    counters: list[_Source] = []
    for name in _COUNTERS:
        paths = list(read_texts(host, [f"{_CPU}/{core}/thermal_throttle/{name}" for core in cores]))
        if paths:
            counters.append(_Counter(name, paths))
    return counters


def _firmware(host: Host) -> list[_Source]:
    """Return a Raspberry Pi's firmware: soc/soc:firmware/get_throttled.

    On a Pi 5 `soc` is called `soc@107c000000`.
    """
    sources: list[_Source] = []
    for soc in names_in(host, _PLATFORM, "soc"):
        folder = f"{_PLATFORM}/{soc}"
        firmwares = filter(_FIRMWARE.fullmatch, names_in(host, folder, "soc"))
        paths = [f"{folder}/{firmware}/get_throttled" for firmware in firmwares]
        sources += [_Firmware(path) for path in read_texts(host, paths)]
    return sources


class _CoolingDevice:
    """A cooling device, which slows the machine down in any state above 0."""

    kind = "cooling_device"

    def __init__(self, name: str, path: str) -> None:
        self.paths = [path]
        self._name = name

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        state = _integer(texts, self.paths[0], 10)
        if state is None:
            return {}
        return {self._name: state > 0}


class _Firmware:
    """The firmware of a Raspberry Pi, which its driver asks about every two seconds.

    The kernel logs once after each boot that hwmon is the newer way; hwmon has only under-voltage.
    """

    kind = "firmware"

    def __init__(self, path: str) -> None:
        self.paths = [path]

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        bits = _integer(texts, self.paths[0], 16)
        if bits is None:
            return {}
        return {name: bool(bits >> bit & 1) for bit, name in enumerate(_FIRMWARE_BITS)}


class _Counter:
    """A counter, which has grown since the last reading if the machine was slowed down."""

    kind = "thermal_throttle"

    def __init__(self, name: str, paths: list[str]) -> None:
        self.paths = paths
        self._name = name
        self._before: dict[str, int] = {}

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        counts: dict[str, int] = {}
        grown: list[bool] = []
        for path in self.paths:
            count = _integer(texts, path, 10)
            if count is None:
                continue
            counts[path] = count
            if path in self._before:
                grown.append(count > self._before[path])
        self._before = counts
        return {self._name: any(grown)} if grown else {}


def _integer(texts: Mapping[str, str], path: str, base: int) -> int | None:
    try:
        return int(texts.get(path, ""), base)
    except ValueError:
        return None
