"""The figures that runs are compared by: name, unit, place in a result, and better direction."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from reusebench.storage.recorded_program import Phase
from reusebench.storage.result import PSS, Result
from reusebench.system.option_names import nearest

__all__ = [
    "BYTES",
    "FRACTIONAL",
    "LATENCY",
    "METRICS",
    "NANOSECONDS",
    "PERCENT",
    "PER_SECOND",
    "TOKENS_PER_SECOND",
    "Metric",
    "UnknownMetric",
    "find_metric",
]

#: The metric that is measured for each model by itself.
LATENCY = "latency"
BYTES = "bytes"
NANOSECONDS = "ns"
PER_SECOND = "1/s"
TOKENS_PER_SECOND = "tokens/s"
PERCENT = "percent"
#: Units of figures that are no whole numbers.
FRACTIONAL = (PER_SECOND, TOKENS_PER_SECOND, PERCENT)

#: Suffix of a column's name, by unit.
_SUFFIXES = {
    BYTES: "bytes",
    NANOSECONDS: "ns",
    PER_SECOND: "per_s",
    TOKENS_PER_SECOND: "tokens_per_s",
    PERCENT: "percent",
}
#: Keys of the latencies of one model.
_LATENCIES = ("latency_median_ns", "latency_p99_ns")
#: Page of the kernel's counters: a figure may change by one page for no reason of ours.
_PAGE_BYTES = 4096
#: The figure that application memory is in results that count it by PSS.
_PSS_KEY = "application_pss_bytes"
#: Share of a run's frames that may be lost for no reason of ours.
_FRAMES_PERCENT = 0.5


@dataclass(frozen=True)
class Metric:
    """One figure of a result, with one value per repeat."""

    #: The name that users write.
    name: str
    #: The part of a result, and the key in it.
    part: str
    key: str
    unit: str
    #: The step in which its source counts; 0 if it is exact.
    resolution: float
    less_is_better: bool = True
    #: Another key of the part, which is subtracted repeat by repeat.
    minus: str | None = None
    #: Whether a shortage of memory leaves it unchanged: buffers of an NPU are never evicted, and a
    #: runtime's own account has no pages.
    is_pinned: bool = False
    #: Whether it is computed from application memory: results that count that by PSS have none,
    #: since the two are not comparable.
    counts_pages: bool = False

    @property
    def is_latency(self) -> bool:
        """Whether it is a latency, which results with several models do not have as one figure."""
        return self.key in _LATENCIES

    @property
    def column(self) -> str:
        """The name with the unit, as in tables and data frames: "application_memory_bytes"."""
        return f"{self.name}_{_SUFFIXES[self.unit]}"

    def of_repeats(self, figures: Result | Phase) -> tuple[float | None, ...]:
        """Return a value for each repeat; None if a repeat gave none.

        Empty if this kind of result, or phase of a program, has no such metric.
        """
        part = getattr(figures, self.part, None)
        whole = getattr(part, self.key, ())
        if isinstance(figures, Result) and figures.counted_by == PSS:
            if self.counts_pages:
                return ()
            if self.key == _PSS_KEY:
                whole = figures.memory.application_memory_bytes
        if isinstance(figures, Result) and figures.has_several_latencies and self.is_latency:
            return ()
        if self.minus is None:
            return tuple(None if value is None else float(value) for value in whole)

        differences: list[float | None] = []
        for value, less in zip(whole, getattr(part, self.minus, ())):
            is_known = value is not None and less is not None
            differences.append(float(value - less) if is_known else None)
        return tuple(differences)

    def values(self, figures: Result | Phase) -> tuple[float, ...]:
        """Return the values of the repeats that gave one."""
        return tuple(value for value in self.of_repeats(figures) if value is not None)


class UnknownMetric(argparse.ArgumentTypeError):
    """No metric has this name; argparse shows the message as it is."""

    def __init__(self, name: str) -> None:
        near = nearest(name, [metric.name for metric in METRICS])
        proposal = f"the nearest is {near}, and " if near else ""
        super().__init__(f"there is no metric {name!r}; {proposal}`reusebench metrics` lists all")


def _memory(name: str) -> Metric:
    return Metric(name, "memory", f"{name}_bytes", BYTES, _PAGE_BYTES)


def _pages(name: str) -> Metric:
    return Metric(name, "memory", f"{name}_bytes", BYTES, _PAGE_BYTES, counts_pages=True)


def _pinned(name: str) -> Metric:
    return Metric(name, "memory", f"{name}_bytes", BYTES, resolution=0, is_pinned=True)


def _tokens(name: str, key: str) -> Metric:
    return Metric(name, "speed", key, TOKENS_PER_SECOND, resolution=0, less_is_better=False)


#: All metrics, in the order of every table. docs/reference/results.md defines those of scenarios,
#: docs/reference/record.md those of programs.
METRICS = (
    _pages("application_memory"),
    _pages("application_memory_over_baseline"),
    _pages("application_memory_trimmed"),
    Metric(
        "application_memory_trimmed_over_baseline",
        "memory",
        "application_memory_trimmed_bytes",
        BYTES,
        _PAGE_BYTES,
        minus="baseline_memory_bytes",
        counts_pages=True,
    ),
    Metric("application_memory_median", "medians", "application_memory_bytes", BYTES, _PAGE_BYTES),
    _memory("application_peak_rss"),
    _memory("application_rss"),
    _memory("application_pss"),
    _memory("application_uss"),
    _memory("process_peak_rss"),
    _pages("baseline_memory"),
    _pages("decoder_memory"),
    _pages("residue_memory"),
    _memory("hugetlb_memory"),
    _memory("held_memory"),
    _pinned("dmabuf_memory"),
    _memory("system_memory"),
    _pinned("npu_memory"),
    _pinned("npu_peak"),
    _pinned("npu_left"),
    Metric(LATENCY, "speed", "latency_median_ns", NANOSECONDS, resolution=1),
    Metric("latency_p99", "speed", "latency_p99_ns", NANOSECONDS, resolution=1),
    Metric(
        "throughput", "speed", "throughput_per_s", PER_SECOND, resolution=0, less_is_better=False
    ),
    Metric("frames_lost", "speed", "frames_lost_percent", PERCENT, resolution=_FRAMES_PERCENT),
    _pinned("kv_cache"),
    _pinned("scratch"),
    Metric("first_token", "speed", "first_token_ns", NANOSECONDS, resolution=1),
    _tokens("prompt_speed", "prompt_tokens_per_s"),
    _tokens("generation_speed", "generated_tokens_per_s"),
    _tokens("generation_speed_all", "all_generated_tokens_per_s"),
)


def find_metric(name: str) -> Metric:
    """Return the metric of this name, or raise UnknownMetric."""
    for metric in METRICS:
        if metric.name == name:
            return metric
    raise UnknownMetric(name)
