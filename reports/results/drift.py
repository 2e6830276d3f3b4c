"""The drift of memory and handles if the same is done again and again, in scenarios of cycles."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.measured.plan import INFERENCES, MOST_CYCLES
from reusebench.reports.base.trend import Precision, Trend, trend
from reusebench.reports.results.rows import Row

KIB = 2**10
#: The standard deviation of a size that is known in whole pages.
_PAGES = 4 * KIB / math.sqrt(12)
#: The quantities in bytes, with the error of a reading however little the readings differ. A block
#: of the heap that comes and goes from reading to reading is no growth.
IN_BYTES = {"memory": _PAGES, "heap": 256.0, "npu": _PAGES, "held": _PAGES}
#: The counts: one descriptor or mapping more at some time is no leak. Growth per cycle below the
#: least growth is level.
_COUNTS = {
    "fds": Precision(least_growth=0.1, reading_error=0.5),
    "mappings": Precision(least_growth=0.25, reading_error=1),
    "threads": Precision(least_growth=0.1, reading_error=0.5),
    "children": Precision(least_growth=0.1, reading_error=0.5),
    "zombies": Precision(least_growth=0.1, reading_error=0.5),
}
#: Holes between the blocks of a heap, which malloc_trim cannot give back, become more for many
#: cycles while nothing leaks. Growth of memory by less than this, or than this share of it, proves
#: nothing. Seen in 16 cycles of contexts of ONNX Runtime that were replaced: up to 108 KiB of 25
#: MiB in 40 processes, up to 368 KiB of 59 MiB in ten.
_HOLES_BYTES = 128 * KIB
_HOLES_SHARE = 0.01
#: The quantities that are judged, in the order of tables.
QUANTITIES = (*IN_BYTES, *_COUNTS)
_NOT_GROWING = ("level", "grew_then_level", "falling")
#: The slope leaves out the first cycles, in which runtimes take memory that they keep for later:
#: this share of all cycles, and at least this number.
_WARM_UP_SHARE = 0.2
_LEAST_WARM_UP = 2
#: Fewer cycles have no trend.
_LEAST_CYCLES = 10


@dataclass(frozen=True)
class Drift:
    """The change of a quantity from cycle to cycle or inference to inference: bytes or a count."""

    quantity: str
    #: The reading before the first cycle, then the one after each.
    readings: Sequence[float]
    #: Growth in the first cycles, which the slope leaves out.
    kept: float
    #: Trend per inference if cycles are inferences, otherwise per cycle; None for too few cycles.
    trend: Trend | None
    #: The growth that is level, in the unit of the trend.
    least_growth: float
    #: The number of inferences or cycles in a day.
    times_per_day: float
    #: The inferences or cycles that the slope is of.
    length: int

    @property
    def verdict(self) -> str:
        """The verdict of the trend; "unknown" if there is none, or if holes may explain it."""
        if self.trend is None or self._may_be_holes:
            return "unknown"
        return self.trend.verdict

    @property
    def _may_be_holes(self) -> bool:
        """Whether memory grows by no more than the holes of its heap do."""
        if self.quantity != "memory" or self.trend is None or self.trend.verdict != "growing":
            return False
        return self.trend.low <= 0 or self._growth < self._most_holes

    @property
    def _growth(self) -> float:
        """The growth in the inferences or cycles that the slope is of."""
        return self.trend.slope * self.length if self.trend else 0.0

    @property
    def _most_holes(self) -> float:
        return max(_HOLES_BYTES, _HOLES_SHARE * max(self.readings))

    @property
    def most_per_day(self) -> float | None:
        """The most that it could still grow by in a day; None for too few cycles."""
        return max(self.trend.high, 0.0) * self.times_per_day if self.trend else None

    @property
    def cycles_needed(self) -> int | None:
        """The number of cycles that would show whether it grows; None if it is more than allowed.

        Too few cycles for a trend are taken for half of those that are needed.
        """
        cycles = len(self.readings) - 1
        longer = self.trend.length_needed(self.least_growth) if self.trend else 2.0
        if self._may_be_holes:
            longer = max(longer, self._most_holes / self._growth)
        needed = _rounded_up(max(cycles * longer, cycles + 1, _LEAST_CYCLES))
        return needed if needed <= MOST_CYCLES else None


# A page asks for them several times, and in each language.
@functools.lru_cache(maxsize=1024)
def drifts(row: Row) -> dict[str, Drift]:
    """Return the drift of each quantity that was read, whatever the outcome; empty without cycles.

    Memory is left out under an emulator: the emulator takes most, and keeps some for each mapping
    and each thread that has gone.
    """
    series = row.info.cycles
    if series is None:
        return {}

    memory = series.pss_without_files_bytes or series.pss_bytes
    readings_by_quantity: dict[str, Sequence[float] | None] = {
        "memory": None if row.emulated else memory,
        "heap": series.heap_bytes,
        "npu": series.npu_memory_bytes,
        # A process without such files needs no verdict on them.
        "held": series.held_file_bytes if any(series.held_file_bytes or ()) else None,
        "fds": series.fds,
        "mappings": series.mappings,
        "threads": series.threads,
        "children": series.children,
        "zombies": series.zombies,
    }
    return {
        quantity: _drift(row, quantity, readings)
        for quantity, readings in readings_by_quantity.items()
        if readings
    }


def kept_bytes(row: Row) -> int | None:
    """Return the most by which memory grew more as allocated than as trimmed.

    None if it was not read, or if it includes the emulator's.
    """
    series = row.info.cycles
    memory = drifts(row).get("memory")
    if series is None or memory is None or not series.allocated_bytes:
        return None
    differences = [
        allocated - trimmed for allocated, trimmed in zip(series.allocated_bytes, memory.readings)
    ]
    return round(max(differences) - differences[0])


def cycle_count(row: Row) -> int:
    """Return the number of cycles that were read."""
    for drift in drifts(row).values():
        return len(drift.readings) - 1
    return 0


def is_per_inference(row: Row) -> bool:
    """Whether its drifts are per inference."""
    return row.info.plan.cycles is not None and row.info.plan.cycles.kind == INFERENCES


def growing(row: Row) -> list[Drift]:
    """Return the drifts that grow.

    Memory is left out if the heap and NPU memory explain at least half of its growth.
    """
    drifts_by_name = {
        name: drift for name, drift in drifts(row).items() if drift.verdict == "growing"
    }
    slopes = {name: drift.trend.slope for name, drift in drifts_by_name.items() if drift.trend}
    explained = slopes.get("heap", 0) + slopes.get("npu", 0)
    if "memory" in slopes and explained >= slopes["memory"] / 2:
        del drifts_by_name["memory"]
    return list(drifts_by_name.values())


def unclear(row: Row) -> list[Drift]:
    """Return the judged drifts that may grow or not."""
    return [drift for drift in judged(row).values() if drift.verdict == "unknown"]


def judged(row: Row) -> dict[str, Drift]:
    """Return the drifts by quantity; without memory if only the heap can tell of it.

    The heap of the process says nothing of its children.
    """
    drifts_by_name = dict(drifts(row))
    heap = drifts_by_name.get("heap")
    memory = drifts_by_name.get("memory")
    children = drifts_by_name.get("children")
    has_children = children is not None and any(children.readings)
    heap_tells = heap is not None and heap.verdict in _NOT_GROWING and not has_children
    if memory and memory.verdict == "unknown" and heap_tells:
        del drifts_by_name["memory"]
    return drifts_by_name


def _per_cycle(row: Row) -> int:
    """Return the number of times that a slope counts a cycle."""
    cycles = row.info.plan.cycles
    return cycles.inferences if cycles and is_per_inference(row) else 1


def _warm_up(cycles: int) -> int:
    return max(_LEAST_WARM_UP, int(_WARM_UP_SHARE * cycles))


def _drift(row: Row, quantity: str, readings: Sequence[float]) -> Drift:
    limits = row.leak_limits
    times_per_day = limits.cycles_per_day
    if is_per_inference(row):
        is_turn = row.info.plan.conversation is not None
        times_per_day = limits.turns_per_day if is_turn else limits.inferences_per_day
    return drift_of(quantity, readings, _per_cycle(row), times_per_day, limits.bytes_per_day)


def drift_of(
    quantity: str,
    readings: Sequence[float],
    per_cycle: int,
    times_per_day: float,
    bytes_per_day: float,
) -> Drift:
    """Return the drift of a quantity.

    `per_cycle` is the number of inferences in a cycle, or 1 if slopes are per cycle. Memory that
    grows by less than `bytes_per_day` is level.
    """
    count = len(readings) - 1
    warm_up = _warm_up(count)
    kept = readings[min(warm_up, count)] - readings[0]
    if quantity in IN_BYTES:
        precision = Precision(bytes_per_day / times_per_day, IN_BYTES[quantity])
    else:
        of_cycle = _COUNTS[quantity]
        precision = Precision(of_cycle.least_growth / per_cycle, of_cycle.reading_error)
    times = [per_cycle * number for number in range(warm_up, count + 1)]
    fitted = trend(times, readings[warm_up:], precision)
    return Drift(
        quantity,
        readings,
        kept,
        fitted,
        precision.least_growth,
        times_per_day,
        length=per_cycle * max(0, count - warm_up),
    )


def _rounded_up(number: float) -> int:
    """Return the number with one digit, or with two if the first is 1: 15, 200, 3000."""
    digits = math.floor(math.log10(number))
    unit = int(math.pow(10, max(0, digits - (number < 2 * math.pow(10, digits)))))
    return math.ceil(number / unit) * unit
