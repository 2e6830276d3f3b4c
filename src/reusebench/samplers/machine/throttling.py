"""Whether the machine slows itself down, as far as it reports that, and in what share of the
readings it did.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from reusebench.samplers.host import Host, names_in, read_texts
from reusebench.samplers.machine.gauges import THERMAL, Running, names
from reusebench.samplers.readings import Throttle

__all__ = ["Throttling"]

#: The type of a cooling device that slows down what computes: `thermal-cpufreq-0`, `cpufreq-cpu0`,
#: `thermal-devfreq-1`, `devfreq-fdab0000.npu`, `Processor` (ACPI). Others blow (`pwm-fan`), or are
#: set by hand.
_SLOWING = re.compile(r"(?!.*fan).*(?:cpufreq|devfreq|processor|[gn]pu(?![a-z]))", re.IGNORECASE)

_CPU = "/sys/devices/system/cpu"
_PLATFORM = "/sys/devices/platform"
_CORE = re.compile(r"cpu\d+")
_FIRMWARE = re.compile(r"soc.*:firmware")

#: Events since boot: a core, or its package, reached its limit
#: (drivers/thermal/intel/therm_throt.c).
_COUNTERS = ("core_throttle_count", "package_throttle_count")

#: The present state in the lowest bits of the firmware's answer, in order; what has been since boot
#: is 16 bits higher.
_FIRMWARE_BITS = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")


class _Source(Protocol):
    """Something that may slow the machine down."""

    #: As Throttle.kind.
    kind: str
    paths: list[str]

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        """Return by name whether the machine is slowed now; without what could not be read."""


class Throttling:
    """What slows the machine down; `readable` is whether it reports that at all."""

    def __init__(self, host: Host) -> None:
        """Look for sources there."""
        self._sources = [*_cooling_devices(host), *_counters(host), *_firmware(host)]
        self.readable = bool(self._sources)
        self.paths = [path for source in self._sources for path in source.paths]
        self._percents: dict[tuple[str, str], Running] = {}

    def take(self, texts: Mapping[str, str]) -> None:
        """Take one reading out of what was read of the paths."""
        for source in self._sources:
            for name, slowed in source.slowed(texts).items():
                self._percents.setdefault((name, source.kind), Running()).add(100.0 * slowed)

    def report(self) -> tuple[Throttle, ...] | None:
        """Return what slowed the machine, with the share of its readings; None if nothing could
        be read.
        """
        if not self._percents:
            return None
        shares = [
            Throttle(name, kind, percents.mean) for (name, kind), percents in self._percents.items()
        ]
        return tuple(throttle for throttle in shares if throttle.share_percent)


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
    """Return that of a Raspberry Pi: soc/soc:firmware/get_throttled; on a Pi 5 `soc@107c000000` is
    for `soc`.
    """
    sources: list[_Source] = []
    for soc in names_in(host, _PLATFORM, "soc"):
        folders = [
            name
            for name in names_in(host, f"{_PLATFORM}/{soc}", "soc")
            if _FIRMWARE.fullmatch(name)
        ]
        files = read_texts(
            host, [f"{_PLATFORM}/{soc}/{folder}/get_throttled" for folder in folders]
        )
        sources += [_Firmware(path) for path in files]
    return sources


class _CoolingDevice:
    """Slows the machine down in any state above 0."""

    kind = "cooling_device"

    def __init__(self, name: str, path: str) -> None:
        self.paths = [path]
        self._name = name

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        state = _integer(texts, self.paths[0], 10)
        return {} if state is None else {self._name: state > 0}


class _Firmware:
    """What the firmware of a Raspberry Pi does now; its driver asks it about every two seconds.

    The kernel logs once after each boot that hwmon is the newer way, which has under-voltage alone.
    """

    kind = "firmware"

    def __init__(self, path: str) -> None:
        self.paths = [path]

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        bits = _integer(texts, self.paths[0], 16)
        return (
            {}
            if bits is None
            else {name: bool(bits >> bit & 1) for bit, name in enumerate(_FIRMWARE_BITS)}
        )


class _Counter:
    """Has slowed the machine where the count of any core has grown since the last reading."""

    kind = "thermal_throttle"

    def __init__(self, name: str, paths: list[str]) -> None:
        self.paths = paths
        self._name = name
        self._before: dict[str, int] = {}

    def slowed(self, texts: Mapping[str, str]) -> dict[str, bool]:
        counts = {
            path: count for path in self.paths if (count := _integer(texts, path, 10)) is not None
        }
        grown = [
            count > self._before[path] for path, count in counts.items() if path in self._before
        ]
        self._before = counts
        return {self._name: any(grown)} if grown else {}


def _integer(texts: Mapping[str, str], path: str, base: int) -> int | None:
    try:
        return int(texts.get(path, ""), base)
    except ValueError:
        return None
