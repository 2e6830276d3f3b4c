"""The gate: limits on how much worse a figure may get, held against the changes between two sides.

A change is known with an interval. It breaks its limit if it is beyond the limit and more than
noise, and is within the limit if the whole interval is. Otherwise the measurements do not decide: a
threshold alone would fail builds by chance, or pass what could never be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reusebench.reports.compare.changes import Change, Changes, Unmeasured
from reusebench.storage.limits import GateLimit

#: The whole interval of the change is allowed.
WITHIN = "within"
#: The change is larger than the limit allows, and than noise.
WORSE = "worse"
#: A change beyond the limit may be noise, or noise may hide one; or the interval is not known.
UNDECIDED = "undecided"
#: Memory was short: evictions hide a rise.
NOT_HELD = "not held"


@dataclass(frozen=True)
class Held:
    """A limit that is held against a change."""

    limit: GateLimit
    change: Change

    @property
    def allowed(self) -> float:
        """The allowed change for the worse, in the metric's unit."""
        return self.limit.allowed(self.change.difference.base_mean)

    @property
    def outcome(self) -> str:
        """WITHIN, WORSE, UNDECIDED or NOT_HELD."""
        if self.change.is_short:
            return NOT_HELD
        error = self.change.difference.error
        if error is None or self.change.is_disturbed:
            return UNDECIDED
        if self.change.worsening > self.allowed and self.change.is_worse:
            return WORSE
        if self.change.worsening + error <= self.allowed:
            return WITHIN
        return UNDECIDED

    @property
    def excess(self) -> float:
        """The change beyond the limit as a share of the base; below 0 if it is within."""
        excess = self.change.worsening - self.allowed
        return excess / (abs(self.change.difference.base_mean) or 1)


@dataclass(frozen=True)
class GateResult:
    """The limits held against a comparison."""

    limits: tuple[GateLimit, ...]
    #: The worst first.
    held: tuple[Held, ...]
    #: Configurations that were measured before and now fail.
    lost: tuple[Unmeasured, ...]
    #: Whether configurations were not compared, as their conditions differ.
    is_partial: bool
    #: Whether it fails if the measurements do not decide.
    strict: bool = False

    def of(self, outcome: str, limit: GateLimit | None = None) -> list[Held]:
        """Return the changes with this outcome; under one limit, or under all."""
        found = [held for held in self.held if held.outcome == outcome]
        return found if limit is None else [held for held in found if held.limit == limit]

    def on(self, change: Change) -> list[Held]:
        """Return the limits that are held against this change."""
        return self._by_change.get(id(change), [])

    @cached_property
    def _by_change(self) -> dict[int, list[Held]]:
        limits: dict[int, list[Held]] = {}
        for held in self.held:
            limits.setdefault(id(held.change), []).append(held)
        return limits

    @property
    def unused(self) -> list[GateLimit]:
        """The limits that were held against no change."""
        used = {held.limit for held in self.held}
        return [limit for limit in self.limits if limit not in used]

    @property
    def exit_code(self) -> int:
        """0: the build may go on; 1: something got worse; 2: it cannot be judged."""
        if self.of(WORSE) or self.lost:
            return 1
        if self.of(NOT_HELD) or self.unused or self.is_partial:
            return 2
        return 2 if self.strict and self.of(UNDECIDED) else 0


def check_limits(changes: Changes, limits: Sequence[GateLimit], strict: bool = False) -> GateResult:
    """Hold every limit against every change of its metric."""
    held = []
    limits = list(dict.fromkeys(limits))
    for limit in limits:
        for change in changes.rows:
            if change.metric == limit.metric:
                held.append(Held(limit, change))
    return GateResult(
        limits=tuple(limits),
        held=tuple(sorted(held, key=lambda each: -each.excess)),
        lost=tuple(unmeasured for unmeasured in changes.unmeasured if unmeasured.is_broken),
        is_partial=bool(changes.differing),
        strict=strict,
    )
