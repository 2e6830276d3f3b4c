"""Savings: the memory that a configuration takes less than its baseline with the same models."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.storage.formatting import mib
from reusebench.storage.measured_figure import Figure

__all__ = [
    "APPLICATION",
    "LESS",
    "MORE",
    "NPU",
    "SAME",
    "SYSTEM",
    "Saving",
    "best_percent",
    "saving_of",
]

#: Memories of which savings are computed, by their names in storage.result.MemoryFigures.
APPLICATION = "application_memory_bytes"
NPU = "npu_memory_bytes"
SYSTEM = "system_memory_bytes"
LESS = "less"
SAME = "same"
MORE = "more"


@dataclass(frozen=True)
class Saving:
    """The saving of one memory, in bytes; below zero the configuration takes more.

    Its spread is the sum of both sides' spreads.
    """

    memory: str
    #: The memory of the baseline.
    whole: Figure
    saved: Figure

    @property
    def is_npu(self) -> bool:
        """Whether it is of NPU memory."""
        return self.memory == NPU

    @property
    def percent(self) -> Figure | None:
        """The saving in percent of the baseline's memory; None if that is nothing."""
        return self.saved.percent_of(self.whole)

    @property
    def exceeds_noise(self) -> bool:
        """Whether it is more than the spread of repeats and the last digit that is shown.

        NPU memory is counted, so each of its bytes says something.
        """
        if not self.saved.exceeds_spread:
            return False
        if self.is_npu:
            return True
        zero = mib(Figure(0), spread=False)
        return mib(self.saved, spread=False) != zero

    @property
    def change(self) -> str:
        """Whether the configuration takes LESS, the SAME or MORE memory than the baseline."""
        if not self.exceeds_noise:
            return SAME
        return LESS if self.saved.median > 0 else MORE


def saving_of(memory: str, baseline: Figure | None, own: Figure | None) -> Saving | None:
    """Return the saving; None if one of the two was not measured."""
    if baseline is None or own is None:
        return None
    return Saving(memory, baseline, baseline - own)


def best_percent(saving: Saving | None) -> float:
    """Return the percentage that is saved measurably; 0 if nothing is."""
    percent = saving.percent if saving else None
    if percent is None or not percent.exceeds_spread:
        return 0.0
    return max(percent.median, 0.0)
