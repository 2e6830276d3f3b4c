"""The drift of memory and handles if the same is done again and again, in scenarios of cycles."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.measured.plan import INFERENCES, INFERENCES_PER_CYCLE
from reusebench.reports.base.trend import Precision, Trend, trend
from reusebench.reports.results.rows import Row

KIB = 2**10
#: The quantities that are judged, in the order of tables, and what their readings can show. A
#: trimmed process still wanders by some pages. The heap in use includes blocks that malloc keeps
#: for each thread. One descriptor or mapping more at some time is no leak. Growth below the least
#: growth matters to nobody.
QUANTITIES = {
    "memory": Precision(least_growth=40 * KIB, reading_error=128 * KIB),
    "heap": Precision(least_growth=8 * KIB, reading_error=16 * KIB),
    "npu": Precision(least_growth=4 * KIB, reading_error=4 * KIB),
    "fds": Precision(least_growth=0.1, reading_error=0.5),
    "mappings": Precision(least_growth=0.25, reading_error=1),
    "threads": Precision(least_growth=0.1, reading_error=0.5),
}
#: The quantities in bytes; the others are counts.
IN_BYTES = ("memory", "heap", "npu")
#: The slope leaves out the first cycles, in which runtimes take memory that they keep for later:
#: this share of all cycles, and at least this number.
_WARM_UP_SHARE = 0.2
_LEAST_WARM_UP = 2


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

    @property
    def verdict(self) -> str:
        """The verdict of the trend; "unknown" if there is none."""
        return self.trend.verdict if self.trend else "unknown"


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
        "fds": series.fds,
        "mappings": series.mappings,
        "threads": series.threads,
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
    """Return the drifts that may grow or not; without memory if the heap is known not to grow."""
    drifts_by_name = {
        name: drift for name, drift in drifts(row).items() if drift.verdict == "unknown"
    }
    heap = drifts(row).get("heap")
    if heap and heap.verdict in ("level", "grew_then_level", "falling"):
        drifts_by_name.pop("memory", None)
    return list(drifts_by_name.values())


def _drift(row: Row, quantity: str, readings: Sequence[float]) -> Drift:
    count = len(readings) - 1
    warm_up = max(_LEAST_WARM_UP, int(_WARM_UP_SHARE * count))
    kept = readings[min(warm_up, count)] - readings[0]

    inferences = INFERENCES_PER_CYCLE if is_per_inference(row) else 1
    times = [inferences * number for number in range(warm_up, count + 1)]
    precision = QUANTITIES[quantity]
    per_inference = Precision(precision.least_growth / inferences, precision.reading_error)
    return Drift(quantity, readings, kept, trend(times, readings[warm_up:], per_inference))
