"""The figures that runs are compared by: their names, units, where they are stored, and which way
is worse.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from reusebench.storage.recorded_program import Phase
from reusebench.storage.result import Result

__all__ = [
    "BYTES",
    "METRICS",
    "NANOSECONDS",
    "PERCENT",
    "PER_SECOND",
    "Metric",
    "UnknownMetric",
    "find_metric",
]

BYTES = "bytes"
NANOSECONDS = "ns"
PER_SECOND = "1/s"
PERCENT = "percent"

#: The unit in the name of a column.
_SUFFIXES = {BYTES: "bytes", NANOSECONDS: "ns", PER_SECOND: "per_s", PERCENT: "percent"}
#: A figure that the kernel counts in pages moves by one of them for no reason of ours.
_PAGE_BYTES = 4096
#: So many frames of a run are lost for no reason of ours.
_FRAMES_PERCENT = 0.5


@dataclass(frozen=True)
class Metric:
    """One figure of a result, with one value per repeat."""

    #: As users write it; memory is in bytes.
    name: str
    #: The part of a result, and the key in it.
    part: str
    key: str
    unit: str
    #: The step in which its source counts; 0 where it is exact.
    resolution: float
    #: Whether more is worse.
    less_is_better: bool = True
    #: Another key of the part that is subtracted, repeat by repeat.
    minus: str | None = None
    #: Whether it reads the same where memory is short: buffers of an NPU are never evicted.
    is_pinned: bool = False

    @property
    def column(self) -> str:
        """Its name with its unit, as in tables and data frames: "application_memory_bytes"."""
        return f"{self.name}_{_SUFFIXES[self.unit]}"

    def of_repeats(self, figures: Result | Phase) -> tuple[float | None, ...]:
        """Return a value for each repeat of a stored result, or of a program's phase; None if it
        gave none.

        Empty if no repeat can have one.
        """
        part = getattr(figures, self.part, None)
        whole = getattr(part, self.key, ())
        if self.minus is None:
            return tuple(None if value is None else float(value) for value in whole)
        pairs = zip(whole, getattr(part, self.minus, ()))
        return tuple(
            None if value is None or less is None else float(value - less) for value, less in pairs
        )

    def values(self, figures: Result | Phase) -> tuple[float, ...]:
        """Return the values of the repeats that gave one, of a stored result or of a program's
        phase.
        """
        return tuple(value for value in self.of_repeats(figures) if value is not None)


class UnknownMetric(argparse.ArgumentTypeError):
    """No metric has this name; argparse shows the message as it is."""

    def __init__(self, name: str) -> None:
        names = ", ".join(metric.name for metric in METRICS)
        super().__init__(f"there is no metric {name!r}; valid: {names}")


def _memory(name: str) -> Metric:
    return Metric(name, "memory", f"{name}_bytes", BYTES, _PAGE_BYTES)


def _npu_memory(name: str) -> Metric:
    return Metric(name, "memory", f"{name}_bytes", BYTES, resolution=0, is_pinned=True)


#: In the order of every table. docs/results.md defines those of scenarios, docs/record.md those of
#: programs.
METRICS = (
    _memory("application_memory"),
    _memory("application_memory_over_baseline"),
    _memory("application_memory_trimmed"),
    Metric(
        "application_memory_trimmed_over_baseline",
        "memory",
        "application_memory_trimmed_bytes",
        BYTES,
        _PAGE_BYTES,
        minus="baseline_memory_bytes",
    ),
    Metric("application_memory_median", "medians", "application_memory_bytes", BYTES, _PAGE_BYTES),
    _memory("application_peak_rss"),
    _memory("application_rss"),
    _memory("application_uss"),
    _memory("process_peak_rss"),
    _memory("baseline_memory"),
    _memory("decoder_memory"),
    _memory("residue_memory"),
    _memory("system_memory"),
    _npu_memory("npu_memory"),
    _npu_memory("npu_peak"),
    _npu_memory("npu_left"),
    Metric("latency", "speed", "latency_median_ns", NANOSECONDS, resolution=1),
    Metric("latency_p99", "speed", "latency_p99_ns", NANOSECONDS, resolution=1),
    Metric(
        "throughput", "speed", "throughput_per_s", PER_SECOND, resolution=0, less_is_better=False
    ),
    Metric("frames_lost", "speed", "frames_lost_percent", PERCENT, resolution=_FRAMES_PERCENT),
)


def find_metric(name: str) -> Metric:
    """Return the metric of this name, or raise UnknownMetric."""
    for metric in METRICS:
        if metric.name == name:
            return metric
    raise UnknownMetric(name)
