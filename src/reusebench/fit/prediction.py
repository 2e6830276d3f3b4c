"""The predicted memory and frames of a layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Optional

from reusebench.fit.layouts import ContextGroup, Layout
from reusebench.storage.measured_figure import Figure

__all__ = ["Prediction", "frames_per_s"]


@dataclass(frozen=True)
class Prediction:
    """Predicted memory in bytes, and frames."""

    #: NPU memory of all contexts by component; None if the runtime has no NPU.
    npu: Optional[Mapping[str, int]]
    #: Peak of NPU memory since the first context was made.
    npu_peak_bytes: Optional[int]
    #: Memory of the process above its do-nothing baseline, as allocated.
    over_baseline: Figure
    #: The same after malloc_trim(0), which is steadier; None if it is not predicted.
    trimmed: Optional[Figure]
    #: The do-nothing baseline: the process with the runtime imported.
    baseline: Figure
    #: All streams together, as fast as they can; None if unknown.
    frames_per_s: Optional[Figure]
    #: Whether other work had CPUs while frames were measured: no layout is refused for such frames.
    is_busy: bool = False

    @property
    def npu_bytes(self) -> int | None:
        """NPU memory of all contexts; None if the runtime has no NPU."""
        if self.npu is None:
            return None
        return sum(self.npu.values())

    @property
    def application(self) -> Figure:
        """Memory of the whole process."""
        return self.baseline + self.over_baseline

    @property
    def steady(self) -> Figure:
        """The figure that layouts are compared by: NPU memory, or the memory of the process."""
        if self.npu_bytes is None:
            return self.application
        return Figure(self.npu_bytes, 0.0)

    @property
    def limited(self) -> Figure:
        """The figure that a limit applies to: the peak of NPU memory, or the process's memory."""
        if self.npu_peak_bytes is None:
            return self.application
        return Figure(self.npu_peak_bytes, 0.0)


def frames_per_s(
    layout: Layout, shares: Mapping[int, float], rates: Mapping[int, Figure], cores: int
) -> Figure | None:
    """Return the frames per second of the layout; `shares` are the models' shares of the frames.

    `rates` are the inferences per second that one core does of each model while all run. A set of
    models cannot get more time than the cores have that run one of them; the tightest set decides,
    as in any flow from models to cores.
    """
    limits = []
    for size in range(1, len(layout.groups) + 1):
        for groups in combinations(layout.groups, size):
            limits.append(_limit_of(groups, shares, rates, cores))
    if not limits:
        return None
    tightest = min(limits, key=lambda limit: limit.median)
    return tightest.scaled(sum(shares.values()))


def _limit_of(
    groups: tuple[ContextGroup, ...],
    shares: Mapping[int, float],
    rates: Mapping[int, Figure],
    cores: int,
) -> Figure:
    """Return the limit that these groups set to the frames per second, per share."""
    lanes = min(Layout(groups).lanes, cores)
    seconds = uncertain_s = 0.0
    for group in groups:
        rate = rates[group.model]
        group_seconds = shares[group.model] / rate.median
        seconds += group_seconds
        uncertain_s += group_seconds * (rate.spread or 0.0) / rate.median
    per_s = lanes / seconds
    return Figure(per_s, per_s * uncertain_s / seconds)
