"""Whether the machine slows itself down, as far as it says so, and in what share of the readings it did."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from samplers.machine.gauges import names
from samplers.machine.running_figure import Running
from samplers.npu.file_source import read_text
from samplers.readings import Throttle

__all__ = ["Throttling"]

#: The type of a cooling device that slows down what computes: `thermal-cpufreq-0`, `cpufreq-cpu0`,
#: `thermal-devfreq-1`, `devfreq-fdab0000.npu`, `Processor` (ACPI). Others blow (`pwm-fan`), or are set by hand.
_SLOWING = re.compile(r"(?!.*fan).*(?:cpufreq|devfreq|processor|[gn]pu(?![a-z]))", re.IGNORECASE)

#: Events since boot: a core, or its package, reached its limit (drivers/thermal/intel/therm_throt.c).
_COUNTERS = ("core_throttle_count", "package_throttle_count")

#: The present state in the lowest bits of the firmware's answer, in order; what has been since boot is 16 bits higher.
_FIRMWARE_BITS = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")

#: Says by name whether the machine is slowed now; what does not say it now is left out.
_Source = Callable[[], Mapping[str, bool]]


class Throttling:
    """What slows the machine down; `readable` says whether any source of it was found."""

    def __init__(self, root: Path) -> None:
        """Look for sources in the tree in which sys/ stands."""
        self._sources = [
            *(("cooling_device", source) for source in _cooling_devices(root)),
            *(("thermal_throttle", source) for source in _counters(root)),
            *(("firmware", source) for source in _firmware(root)),
        ]
        self._percents: dict[tuple[str, str], Running] = {}

    @property
    def readable(self) -> bool:
        """Whether this machine says anything of it."""
        return bool(self._sources)

    def read(self) -> None:
        """Take one reading."""
        for kind, source in self._sources:
            for name, slowed in source().items():
                self._percents.setdefault((name, kind), Running()).add(100.0 * slowed)

    def report(self) -> tuple[Throttle, ...] | None:
        """Return what slowed the machine, with the share of its readings; None where nothing said anything."""
        if not self._percents:
            return None
        shares = [Throttle(name, kind, percents.mean) for (name, kind), percents in self._percents.items()]
        return tuple(throttle for throttle in shares if throttle.share_percent)


def _cooling_devices(root: Path) -> Iterator[_Source]:
    devices = sorted((root / "sys/class/thermal").glob("cooling_device*"))
    for folder, name in names(devices):
        if _SLOWING.match(name):
            yield _CoolingDevice(name, folder / "cur_state")


def _counters(root: Path) -> Iterator[_Source]:
    for name in _COUNTERS:
        files = sorted((root / "sys/devices/system/cpu").glob(f"cpu[0-9]*/thermal_throttle/{name}"))
        if files:
            yield _Counter(name, files)


def _firmware(root: Path) -> Iterator[_Source]:
    for file in (root / "sys/devices/platform").glob("soc*/soc*:firmware/get_throttled"):
        yield _Firmware(file)


class _CoolingDevice:
    """Slows the machine in any state above 0."""

    def __init__(self, name: str, file: Path) -> None:
        self._name = name
        self._file = file

    def __call__(self) -> dict[str, bool]:
        state = _integer(self._file, 10)
        return {} if state is None else {self._name: state > 0}


class _Counter:
    """Has slowed the machine where the count of any core has grown since the last reading."""

    def __init__(self, name: str, files: list[Path]) -> None:
        self._name = name
        self._files = files
        self._before: dict[Path, int] = {}

    def __call__(self) -> dict[str, bool]:
        counts = {file: count for file in self._files if (count := _integer(file, 10)) is not None}
        grown = [count > self._before[file] for file, count in counts.items() if file in self._before]
        self._before = counts
        return {self._name: any(grown)} if grown else {}


class _Firmware:
    """What the firmware of a Raspberry Pi does now; its driver asks it about every two seconds.

    The kernel logs once after each boot that hwmon is the newer way, which tells under-voltage alone.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self) -> dict[str, bool]:
        bits = _integer(self._file, 16)
        return {} if bits is None else {name: bool(bits >> place & 1) for place, name in enumerate(_FIRMWARE_BITS)}


def _integer(file: Path, base: int) -> int | None:
    try:
        return int(read_text(file) or "", base)
    except ValueError:
        return None
