"""The search for the best layout of conversations by predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from reusebench.fit.sessions.layouts import CACHE_TYPE, SessionDemand, SessionLayout, layouts_of
from reusebench.fit.sessions.prediction import SessionCosts, SessionPrediction
from reusebench.fit.sessions.study import DEFAULT

__all__ = ["UNSURE", "SessionCandidate", "SessionChoice", "SessionWish", "choose"]

#: A prediction may be this share too small, of all memory that no account tells to the byte: of a
#: layout whose kind was measured with its options, and of others (benchmarks/session_contract.py).
UNSURE = 0.02
_UNSURE_OF_SUMS = 0.05


@dataclass(frozen=True)
class SessionWish:
    """The requirements of a layout."""

    #: None: no limit.
    limit_bytes: Optional[int] = None
    #: Tokens per second that each conversation generates while all do; None: any speed.
    tokens_per_s: Optional[float] = None


@dataclass(frozen=True)
class SessionCandidate:
    """A layout with its prediction."""

    layout: SessionLayout
    prediction: SessionPrediction

    @property
    def plus_minus_bytes(self) -> float:
        """The uncertainty of the peak: caches are exact."""
        share = UNSURE if self.prediction.is_measured else _UNSURE_OF_SUMS
        return share * (self.prediction.peak_bytes - self.prediction.kv_bytes)

    @property
    def limited_bytes(self) -> float:
        """The bytes that must be within the limit: the peak with its uncertainty."""
        return self.prediction.peak_bytes + self.plus_minus_bytes

    def fits(self, limit_bytes: int | None) -> bool:
        """Whether the peak is within the limit, including its uncertainty."""
        return limit_bytes is None or self.limited_bytes <= limit_bytes


@dataclass(frozen=True)
class SessionChoice:
    """The result of a search."""

    #: The layout of a context for each conversation, with the runtime's defaults.
    today: SessionCandidate
    #: The candidate with the least memory of those with the most exact cache that fit and are fast
    #: enough, those with equal tokens first; if none fits, the one with the least memory of those
    #: that are fast enough. None if none is.
    recommended: Optional[SessionCandidate]
    #: All candidates, by memory.
    candidates: tuple[SessionCandidate, ...]


def choose(
    demand: SessionDemand, costs: SessionCosts, wish: SessionWish, is_busy: bool
) -> SessionChoice:
    """Return the choice, by predictions only.

    Speeds that were measured beside other work (`is_busy`) refuse no layout.
    """
    candidates = []
    for layout in layouts_of(demand):
        if costs.can_predict(layout):
            candidates.append(SessionCandidate(layout, costs.predict(layout)))
    enough = candidates
    if wish.tokens_per_s is not None and not is_busy:
        enough = [one for one in candidates if _is_fast(one, wish.tokens_per_s)]
    fitting = [one for one in enough if one.fits(wish.limit_bytes)]
    ranks = _ranks(demand.options)
    recommended = min(
        fitting,
        key=lambda one: (
            ranks.index(one.layout.cache_type),
            not one.prediction.has_equal_tokens,
            one.prediction.peak_bytes,
        ),
        default=None,
    )
    return SessionChoice(
        today=SessionCandidate(DEFAULT, costs.predict(DEFAULT)),
        recommended=recommended or min(enough, key=_peak, default=None),
        candidates=tuple(sorted(candidates, key=_peak)),
    )


def _is_fast(candidate: SessionCandidate, tokens_per_s: float) -> bool:
    speed = candidate.prediction.tokens_per_s
    return speed is not None and speed >= tokens_per_s


def _peak(candidate: SessionCandidate) -> float:
    return candidate.prediction.peak_bytes


def _ranks(options: Sequence[str]) -> list[str | None]:
    """Return the cache types, the most exact first: the default, then as the runtime lists them."""
    types: list[str | None] = [None]
    for option in options:
        name, _, value = option.partition("=")
        if name == CACHE_TYPE:
            types.append(value)
    return types
