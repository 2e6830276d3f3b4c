"""What a saving is: what the baseline, which has the same models, takes of one memory more than a
configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.reports.base.formatting import mib
from reusebench.reports.base.statistics import Figure

#: Memories that savings are of, by their names in storage.result.Memory.
APPLICATION = "application_memory_bytes"
OVER_BASELINE = "application_memory_over_baseline_bytes"
NPU = "npu_memory_bytes"
SYSTEM = "system_memory_bytes"
LESS = "less"
SAME = "same"
MORE = "more"


@dataclass(frozen=True)
class Saving:
    """What is saved of one memory, in bytes; below zero it takes more."""

    memory: str
    #: What the baseline takes.
    whole: Figure
    saved: Figure

    @property
    def is_npu(self) -> bool:
        """Whether it is of NPU memory."""
        return self.memory == NPU

    @property
    def percent(self) -> Figure | None:
        """Of the baseline's memory; None if that is nothing."""
        return self.saved.percent_of(self.whole)

    @property
    def exceeds_noise(self) -> bool:
        """Whether it is more than repeats differ by, and more than the last digit that is shown.

        NPU memory is counted, and each of its bytes says something.
        """
        shown = self.is_npu or mib(self.saved, spread=False) != mib(Figure(0), spread=False)
        return self.saved.exceeds_spread and shown

    @property
    def change(self) -> str:
        """Whether the configuration takes LESS, the SAME or MORE memory than the baseline."""
        if not self.exceeds_noise:
            return SAME
        return LESS if self.saved.median > 0 else MORE


def saving_of(memory: str, baseline: Figure | None, own: Figure | None) -> Saving | None:
    """Return what is saved; None if one of the two was not measured."""
    return None if baseline is None or own is None else Saving(memory, baseline, baseline - own)


def best_percent(saving: Saving | None) -> float:
    """Return the percentage that is saved measurably; 0 where nothing is."""
    percent = saving.percent if saving else None
    return percent.median if percent and percent.median > 0 and percent.exceeds_spread else 0.0
