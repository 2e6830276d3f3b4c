"""What a layout is predicted to take and to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Optional

from reusebench.fit.layouts import ContextGroup, Layout
from reusebench.storage.measured_figure import Figure

__all__ = ["Prediction", "frames_per_s"]


@dataclass(frozen=True)
class Prediction:
    """Memory in bytes, and frames."""

    #: NPU memory by component, of all contexts; None: the runtime has no memory of an NPU.
    npu: Optional[Mapping[str, int]]
    #: The most of it at once, from when the first context is made.
    npu_peak_bytes: Optional[int]
    #: Of the process, above its do-nothing baseline, as allocated.
    over_baseline: Figure
    #: The same after malloc_trim(0), which is steadier; None: not predicted.
    trimmed: Optional[Figure]
    #: The do-nothing baseline: the process with the runtime imported.
    baseline: Figure
    #: Of all streams together, as fast as they can; None: not known.
    frames_per_s: Optional[Figure]

    @property
    def npu_bytes(self) -> int | None:
        """NPU memory."""
        return None if self.npu is None else sum(self.npu.values())

    @property
    def application(self) -> Figure:
        """Memory of the whole process."""
        return self.baseline + self.over_baseline

    @property
    def steady(self) -> Figure:
        """What layouts are compared by: NPU memory where there is any, else the memory of the
        process.
        """
        return self.application if self.npu_bytes is None else Figure(self.npu_bytes, 0.0)

    @property
    def limited(self) -> Figure:
        """What must be within a limit: of NPU memory the peak, since a buffer more fails."""
        return self.application if self.npu_peak_bytes is None else Figure(self.npu_peak_bytes, 0.0)


def frames_per_s(
    layout: Layout, shares: Mapping[int, float], rates: Mapping[int, Figure], cores: int
) -> Figure | None:
    """Return how many frames the layout does where models get frames in these shares.

    `rates` are the inferences per second that one core does of each model while all run. No set of
    models can be given more time than the cores have that run one of them; the tightest set
    decides, as in any flow from models to cores.
    """
    limits = []
    for groups in _subsets(layout.groups):
        lanes = min(Layout(groups).lanes, cores)
        seconds = uncertain_s = 0.0
        for group in groups:
            rate = rates[group.model]
            seconds += shares[group.model] / rate.median
            uncertain_s += shares[group.model] / rate.median * (rate.spread or 0.0) / rate.median
        limits.append(Figure(lanes / seconds, lanes / seconds * uncertain_s / seconds))
    return (
        min(limits, key=lambda limit: limit.median).scaled(sum(shares.values())) if limits else None
    )


def _subsets(groups: tuple[ContextGroup, ...]) -> Iterable[tuple[ContextGroup, ...]]:
    for size in range(1, len(groups) + 1):
        yield from combinations(groups, size)
