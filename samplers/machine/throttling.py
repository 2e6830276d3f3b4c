"""Whether the machine slows itself down, as far as it reports that, and in what share of the readings it did."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from samplers.files import read_text
from samplers.machine.gauges import Running, names
from samplers.readings import Throttle

__all__ = ["Throttling"]

#: The type of a cooling device that slows down what computes: `thermal-cpufreq-0`, `cpufreq-cpu0`,
#: `thermal-devfreq-1`, `devfreq-fdab0000.npu`, `Processor` (ACPI). Others blow (`pwm-fan`), or are set by hand.
_SLOWING = re.compile(r"(?!.*fan).*(?:cpufreq|devfreq|processor|[gn]pu(?![a-z]))", re.IGNORECASE)

#: Events since boot: a core, or its package, reached its limit (drivers/thermal/intel/therm_throt.c).
_COUNTERS = ("core_throttle_count", "package_throttle_count")

#: The present state in the lowest bits of the firmware's answer, in order; what has been since boot is 16 bits higher.
_FIRMWARE_BITS = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")

#: Returns by name whether the machine is slowed now; without what cannot be read now.
_Source = Callable[[], Mapping[str, bool]]


class Throttling:
    """What slows the machine down; `readable` is whether it reports that at all."""

    def __init__(self, root: Path) -> None:
        """Look for sources in the tree that has sys/."""
        self._sources: list[tuple[str, _Source]] = []
        for folder, name in names(sorted((root / "sys/class/thermal").glob("cooling_device*"))):
            if _SLOWING.match(name):
                self._sources.append(("cooling_device", partial(_cooling_state, name, folder / "cur_state")))
        for name in _COUNTERS:
            files = sorted((root / "sys/devices/system/cpu").glob(f"cpu[0-9]*/thermal_throttle/{name}"))
            if files:
                self._sources.append(("thermal_throttle", _Counter(name, files)))
        for file in (root / "sys/devices/platform").glob("soc*/soc*:firmware/get_throttled"):
            self._sources.append(("firmware", partial(_firmware_state, file)))
        self.readable = bool(self._sources)
        self._percents: dict[tuple[str, str], Running] = {}

    def read(self) -> None:
        """Take one reading."""
        for kind, source in self._sources:
            for name, slowed in source().items():
                self._percents.setdefault((name, kind), Running()).add(100.0 * slowed)

    def report(self) -> tuple[Throttle, ...] | None:
        """Return what slowed the machine, with the share of its readings; None where nothing could be read."""
        if not self._percents:
            return None
        shares = [Throttle(name, kind, percents.mean) for (name, kind), percents in self._percents.items()]
        return tuple(throttle for throttle in shares if throttle.share_percent)


def _cooling_state(name: str, file: Path) -> dict[str, bool]:
    """A cooling device slows the machine in any state above 0."""
    state = _integer(file, 10)
    return {} if state is None else {name: state > 0}


def _firmware_state(file: Path) -> dict[str, bool]:
    """Return what the firmware of a Raspberry Pi does now; its driver asks it about every two seconds.

    The kernel logs once after each boot that hwmon is the newer way, which has under-voltage alone.
    """
    bits = _integer(file, 16)
    return {} if bits is None else {name: bool(bits >> bit & 1) for bit, name in enumerate(_FIRMWARE_BITS)}


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


def _integer(file: Path, base: int) -> int | None:
    try:
        return int(read_text(file) or "", base)
    except ValueError:
        return None
