"""The figures of a result over its repeats: each is the median of the processes' figures.

The live lines of a session, the report and its tables all take them from here.
"""

from __future__ import annotations

from collections.abc import Iterable

from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result
from reusebench.storage.savings import APPLICATION, NPU

__all__ = ["latency", "main_memory", "memory", "model_latencies", "rate"]


def memory(result: Result, name: str) -> Figure | None:
    """Return a figure of storage.result.MemoryFigures; None if no repeat gave it."""
    return Figure.of(getattr(result.memory, name))


def main_memory(result: Result) -> str:
    """Return the memory that the result is judged by: NPU, or APPLICATION without NPU memory."""
    return APPLICATION if memory(result, NPU) is None else NPU


def latency(result: Result) -> Figure | None:
    """Return the latency of an inference, or of a frame, in nanoseconds.

    None if nothing was timed, or if several models have a latency each.
    """
    if result.has_several_latencies:
        return None
    return Figure.of(result.speed.latency_median_ns)


def model_latencies(result: Result) -> list[tuple[str, Figure]]:
    """Return (model, latency of an inference in nanoseconds) for each model that was timed.

    Empty for streams, whose frames are timed, and for several models in runs before each had its
    latency stored.
    """
    if result.plan.schedule:
        return []
    if not result.has_several_latencies:
        return _known([(result.models[0].name, latency(result))])
    repeats = [repeat for repeat in result.speed.model_latency_ns if repeat]
    pairs = []
    for model, values in zip(result.models, zip(*repeats)):
        pairs.append((model.name, Figure.of(values)))
    return _known(pairs)


def rate(result: Result) -> Figure | None:
    """Return the inferences of all contexts, or the frames of all streams, per second."""
    return Figure.of(result.speed.throughput_per_s)


def _known(figures: Iterable[tuple[str, Figure | None]]) -> list[tuple[str, Figure]]:
    return [(name, figure) for name, figure in figures if figure is not None]
