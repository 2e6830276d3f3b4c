"""The gate: which changes break a limit, so that a build fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.compare.changes import Change, Changes, Unmeasured
from reports.compare.difference import HIGHER, LOWER
from storage.limits import Limit


@dataclass(frozen=True)
class Judgement:
    """What the limits make of a comparison."""

    limits: tuple[Limit, ...]
    #: Worse than allowed, and told from noise.
    broken: tuple[tuple[Limit, Change], ...]
    #: Worse than allowed by the figures, but not told from noise: more repeats would tell.
    unsure: tuple[tuple[Limit, Change], ...]
    #: How many changes each limit was held against, in their order, and in how many of them a change of the size that
    #: it allows could not have been told from noise.
    held: tuple[int, ...]
    blind: tuple[int, ...]
    #: Configurations that were measured before and cannot be any more.
    lost: tuple[Unmeasured, ...]

    @property
    def passed(self) -> bool:
        """Whether the build may go on."""
        return not self.broken and not self.lost

    @property
    def is_empty(self) -> bool:
        """Whether a limit was held against nothing: then nothing is known."""
        return not all(self.held)


def judge(changes: Changes, limits: Sequence[Limit]) -> Judgement:
    """Hold every limit against every change of its metric.

    A limit is broken where the change is told from noise and worse than allowed. Both must hold: a threshold alone
    fails builds by chance, significance alone fails them for a page.
    """
    of_limits = [[change for change in changes.rows if change.metric == limit.metric] for limit in limits]
    over = [(limit, change) for limit, own in zip(limits, of_limits) for change in own if _is_over(limit, change)]
    return Judgement(
        limits=tuple(limits),
        broken=tuple((limit, change) for limit, change in over if _is_told(change)),
        unsure=tuple((limit, change) for limit, change in over if not _is_told(change)),
        held=tuple(map(len, of_limits)),
        blind=tuple(sum(_is_blind(limit, change) for change in own) for limit, own in zip(limits, of_limits)),
        lost=tuple(each for each in changes.unmeasured if each.is_broken),
    )


def _is_over(limit: Limit, change: Change) -> bool:
    return _worse(change) > limit.allowed(change.difference.base_mean)


def _is_blind(limit: Limit, change: Change) -> bool:
    error = change.difference.error
    return error is None or error > limit.allowed(change.difference.base_mean)


def _worse(change: Change) -> float:
    """Return by how much the figure got worse, in the metric's unit."""
    return change.difference.change if change.metric.less_is_better else -change.difference.change


def _is_told(change: Change) -> bool:
    return change.verdict == (HIGHER if change.metric.less_is_better else LOWER)
