"""What grows when the same is done again and again: of each scenario of cycles the trend of all
that was read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.measured.plan import INFERENCES, INFERENCES_PER_CYCLE
from reusebench.reports.base.trend import Precision, Trend, trend
from reusebench.reports.results.rows import Row

KIB = 2**10
#: What is judged, in the order of tables, and what its readings can show. A trimmed process still
#: wanders by some pages; of the heap in use, malloc counts blocks that it keeps for each thread;
#: one descriptor or mapping more at some time is no leak. Less than the least growth matters to
#: nobody.
QUANTITIES = {
    "memory": Precision(least_growth=40 * KIB, reading_error=128 * KIB),
    "heap": Precision(least_growth=8 * KIB, reading_error=16 * KIB),
    "npu": Precision(least_growth=4 * KIB, reading_error=4 * KIB),
    "fds": Precision(least_growth=0.1, reading_error=0.5),
    "mappings": Precision(least_growth=0.25, reading_error=1),
    "threads": Precision(least_growth=0.1, reading_error=0.5),
}
#: Those in bytes; the others are counts.
IN_BYTES = ("memory", "heap", "npu")
#: The first cycles are left out of the slope, this share of them and so many at least: runtimes
#: keep memory for later.
_WARM_UP_SHARE = 0.2
_LEAST_WARM_UP = 2


@dataclass(frozen=True)
class Drift:
    """How a quantity changes from cycle to cycle, or from inference to inference, in bytes or as a
    count.
    """

    quantity: str
    #: Before the first cycle, then after each.
    readings: Sequence[float]
    #: What the first cycles keep, which the slope is without.
    kept: float
    #: Per inference where cycles are inferences, else per cycle; None of too few cycles.
    trend: Trend | None

    @property
    def verdict(self) -> str:
        """A verdict of a trend; "unknown" too if there is none."""
        return self.trend.verdict if self.trend else "unknown"


# A page asks for them several times, and in each language.
@functools.lru_cache(maxsize=1024)
def drifts(row: Row) -> dict[str, Drift]:
    """Return the drift of each quantity that was read, whatever the outcome; empty without cycles.

    Memory under an emulator is mostly the emulator's, which keeps some for each mapping and each
    thread that has gone.
    """
    series = row.info.cycles
    if series is None:
        return {}
    of_quantities: dict[str, Sequence[float] | None] = {
        "memory": (series.pss_without_files_bytes or series.pss_bytes)
        if not row.emulated
        else None,
        "heap": series.heap_bytes,
        "npu": series.npu_memory_bytes,
        "fds": series.fds,
        "mappings": series.mappings,
        "threads": series.threads,
    }
    known = {quantity: readings for quantity, readings in of_quantities.items() if readings}
    return {quantity: _drift(row, quantity, readings) for quantity, readings in known.items()}


def kept_bytes(row: Row) -> int | None:
    """Return by how much memory as allocated grew more than trimmed, at most.

    None if it was not read, and if it is the emulator's too.
    """
    series = row.info.cycles
    memory = drifts(row).get("memory")
    if series is None or memory is None or not series.allocated_bytes:
        return None
    allocated = series.allocated_bytes
    return round(
        max(
            high - low - (allocated[0] - memory.readings[0])
            for high, low in zip(allocated, memory.readings)
        )
    )


def cycle_count(row: Row) -> int:
    """Return how many cycles were read."""
    drift = next(iter(drifts(row).values()), None)
    return len(drift.readings) - 1 if drift else 0


def is_per_inference(row: Row) -> bool:
    """Whether its drifts are per inference."""
    return row.info.plan.cycles is not None and row.info.plan.cycles.kind == INFERENCES


def growing(row: Row) -> list[Drift]:
    """Return what grows. Memory is left out where the heap, or NPU memory, explains at least half
    of its growth.
    """
    known = {name: drift for name, drift in drifts(row).items() if drift.verdict == "growing"}
    slopes = {name: drift.trend.slope for name, drift in known.items() if drift.trend}
    explained = slopes.get("heap", 0) + slopes.get("npu", 0)
    if "memory" in slopes and explained >= slopes["memory"] / 2:
        del known["memory"]
    return list(known.values())


def unclear(row: Row) -> list[Drift]:
    """Return what may grow for all that is known, but for memory where the heap is level and speaks
    for it.
    """
    known = drifts(row)
    heap = known.get("heap")
    speaks = heap is not None and heap.verdict in ("level", "grew_then_level", "falling")
    return [
        drift
        for name, drift in known.items()
        if drift.verdict == "unknown" and not (name == "memory" and speaks)
    ]


def _drift(row: Row, quantity: str, readings: Sequence[float]) -> Drift:
    count = len(readings) - 1
    warm_up = max(_LEAST_WARM_UP, int(_WARM_UP_SHARE * count))
    inferences = INFERENCES_PER_CYCLE if is_per_inference(row) else 1
    times = [inferences * number for number in range(warm_up, count + 1)]
    precision = QUANTITIES[quantity]
    per_inference = Precision(precision.least_growth / inferences, precision.reading_error)
    kept = readings[min(warm_up, count)] - readings[0]
    return Drift(quantity, readings, kept, trend(times, readings[warm_up:], per_inference))
