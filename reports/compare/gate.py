"""The gate: changes that break a limit fail a build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.compare.changes import Change, Changes, Unmeasured
from reusebench.reports.compare.difference import HIGHER, LOWER
from reusebench.storage.limits import GateLimit


@dataclass(frozen=True)
class GateResult:
    """The limits applied to a comparison."""

    limits: tuple[GateLimit, ...]
    #: Changes that are worse than allowed, and more than noise.
    broken: tuple[tuple[GateLimit, Change], ...]
    #: Changes that are worse than allowed, but may be noise: more repeats would show it.
    unsure: tuple[tuple[GateLimit, Change], ...]
    #: Changes that are not judged, since memory was short: evictions hide a rise.
    short: tuple[tuple[GateLimit, Change], ...]
    #: Per limit, the number of changes that it was held against.
    held: tuple[int, ...]
    #: Per limit, the number of these comparisons that could not have distinguished a change of the
    #: allowed size from noise.
    blind: tuple[int, ...]
    #: Configurations that were measured before and now fail.
    lost: tuple[Unmeasured, ...]

    @property
    def passed(self) -> bool:
        """Whether the build may go on."""
        return not self.broken and not self.lost

    @property
    def is_open(self) -> bool:
        """Whether a limit was held against no change, or not against all of them."""
        return bool(self.short) or not all(self.held)


def check_limits(changes: Changes, limits: Sequence[GateLimit]) -> GateResult:
    """Hold every limit against every change of its metric.

    A limit is broken if the change is more than noise and worse than allowed. Both must hold: a
    threshold alone fails builds by chance, significance alone fails them for a page.
    """
    broken: list[tuple[GateLimit, Change]] = []
    unsure: list[tuple[GateLimit, Change]] = []
    short: list[tuple[GateLimit, Change]] = []
    held = []
    blind = []
    for limit in limits:
        held_count = blind_count = 0
        for change in changes.rows:
            if change.metric != limit.metric:
                continue
            if change.is_short:
                short.append((limit, change))
                continue
            held_count += 1
            blind_count += _is_blind(limit, change)
            if _is_worse(limit, change):
                verdict = HIGHER if limit.metric.less_is_better else LOWER
                (broken if change.verdict == verdict else unsure).append((limit, change))
        held.append(held_count)
        blind.append(blind_count)
    return GateResult(
        limits=tuple(limits),
        broken=tuple(broken),
        unsure=tuple(unsure),
        short=tuple(short),
        held=tuple(held),
        blind=tuple(blind),
        lost=tuple(unmeasured for unmeasured in changes.unmeasured if unmeasured.is_broken),
    )


def _is_blind(limit: GateLimit, change: Change) -> bool:
    """Whether a change of the allowed size could not have been distinguished from noise."""
    error = change.difference.error
    return error is None or error > limit.allowed(change.difference.base_mean)


def _is_worse(limit: GateLimit, change: Change) -> bool:
    """Whether the figures changed for the worse by more than the limit allows."""
    difference = change.difference
    rise = difference.change if limit.metric.less_is_better else -difference.change
    return rise > limit.allowed(difference.base_mean)
