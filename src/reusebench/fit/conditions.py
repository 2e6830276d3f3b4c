"""The conditions under which the plans of a study were measured."""

from __future__ import annotations

from reusebench.measured.plan import Plan
from reusebench.storage.fit_answer import FitShortage
from reusebench.storage.result import BUSY_PERCENT, Result

__all__ = ["MeasuredConditions"]


class MeasuredConditions:
    """Shortage of memory, and other work, while the results of a study were measured."""

    results: dict[Plan, Result]

    @property
    def short(self) -> tuple[FitShortage, ...]:
        """The plans that were measured while memory was short."""
        shortages = []
        for result in self.results.values():
            if result.is_short:
                shortages.append(FitShortage(result.scenario, result.shortage_signs))
        return tuple(shortages)

    @property
    def busy_percent(self) -> float:
        """The highest share of the CPUs that other work had before a plan was measured."""
        shares = [0.0]
        for result in self.results.values():
            shares += result.speed.idle_cpu_percent
        return max(shares)

    @property
    def is_busy(self) -> bool:
        """Whether other work had too much of the CPUs for speeds to be relied on."""
        return self.busy_percent > BUSY_PERCENT
