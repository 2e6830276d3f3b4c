"""What a layout is predicted to take and to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Optional

from fit.layouts import Group, Layout

__all__ = ["Estimate", "Prediction", "frames_per_s", "middle"]


@dataclass(frozen=True)
class Estimate:
    """A figure and its uncertainty: half the range that measuring again is expected to stay in."""

    value: float
    plus_minus: float = 0.0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.value + other.value, self.plus_minus + other.plus_minus)

    def times(self, factor: float) -> Estimate:
        """Return so many times the figure."""
        return Estimate(self.value * factor, self.plus_minus * abs(factor))


def middle(values: Iterable[Optional[float]]) -> Estimate | None:
    """Return the middle of the values of repeats, and half their range; None where there are none."""
    known = [value for value in values if value is not None]
    return Estimate((max(known) + min(known)) / 2, (max(known) - min(known)) / 2) if known else None


@dataclass(frozen=True)
class Prediction:
    """Memory in bytes, and frames."""

    #: NPU memory by component, of all contexts; None: the runtime has no memory of an NPU.
    npu: Optional[Mapping[str, int]]
    #: The most of it at once, from when the first context is made.
    npu_peak_bytes: Optional[int]
    #: Of the process, above its do-nothing baseline, as allocated.
    over_baseline: Estimate
    #: The same after malloc_trim(0), which is steadier; None: not predicted.
    trimmed: Optional[Estimate]
    #: The do-nothing baseline: the process with the runtime imported.
    baseline: Estimate
    #: Of all streams together, as fast as they can; None: not known.
    frames_per_s: Optional[Estimate]

    @property
    def npu_bytes(self) -> int | None:
        """NPU memory."""
        return None if self.npu is None else sum(self.npu.values())

    @property
    def application(self) -> Estimate:
        """Memory of the whole process."""
        return self.baseline + self.over_baseline

    @property
    def steady(self) -> Estimate:
        """What layouts are compared by: NPU memory where there is any, else the memory of the process."""
        return self.application if self.npu_bytes is None else Estimate(self.npu_bytes)

    @property
    def limited(self) -> Estimate:
        """What must be within a limit: of NPU memory the peak, since a buffer more fails."""
        return self.application if self.npu_peak_bytes is None else Estimate(self.npu_peak_bytes)


def frames_per_s(
    layout: Layout, shares: Mapping[int, float], rates: Mapping[int, Estimate], cores: int
) -> Estimate | None:
    """Return how many frames the layout does where models get frames in these shares.

    `rates` are the inferences per second that one core does of each model while all run. No set of models can be given
    more time than the cores have that run one of them; the tightest set decides, as in any flow from models to cores.
    """
    limits = []
    for groups in _subsets(layout.groups):
        lanes = min(Layout(groups).lanes, cores)
        seconds = sum(shares[group.model] / rates[group.model].value for group in groups)
        spread = sum(
            shares[group.model] / rates[group.model].value * rates[group.model].plus_minus / rates[group.model].value
            for group in groups
        )
        limits.append(Estimate(lanes / seconds, lanes / seconds * spread / seconds))
    return min(limits, key=lambda limit: limit.value).times(sum(shares.values())) if limits else None


def _subsets(groups: tuple[Group, ...]) -> Iterable[tuple[Group, ...]]:
    for size in range(1, len(groups) + 1):
        yield from combinations(groups, size)
