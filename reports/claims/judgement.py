"""Judgements on claims: the verdict, its reason, and the rules by which figures decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reusebench.reports.base.formatting import percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts

HOLDS = "holds"
DOES_NOT_HOLD = "does_not_hold"
#: The claim cannot be judged from the measurements of the group.
OPEN = "cannot_be_judged"
CLAIM_VERDICTS = (HOLDS, DOES_NOT_HOLD, OPEN)


@dataclass(frozen=True)
class Phrase:
    """A text by its key, and the values that it fills in."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)

    def in_words(self, texts: Texts) -> str:
        """Return the text; values named scenario, outcome and memory are translated too."""
        translate: dict[str, Callable[[str], str]] = {
            "scenario": texts.scenario,
            "outcome": lambda value: texts(f"outcome_{value}"),
            "memory": lambda value: texts(f"claims_memory_{value}"),
        }
        values = {}
        for name, value in self.values.items():
            translated = translate.get(name, str)
            values[name] = translated(str(value))
        return texts(self.key, **values)


@dataclass(frozen=True)
class Judgement:
    """The judgement on one claim in one group."""

    #: One of CLAIM_VERDICTS.
    verdict: str
    reason: Phrase
    #: The measured figure, in `unit`: "percent", "bytes", "buffers" or "sizes".
    figure: Figure | None = None
    unit: str | None = None
    #: The figure as text, with the figures that it is compared with.
    shown: Phrase | None = None


class CannotBeJudged(Exception):
    """A reason why the measurements do not decide about the claim."""

    def __init__(self, reason: str, **values: object) -> None:
        super().__init__(reason)
        self.reason = reason_phrase(reason, **values)


def reason_phrase(name: str, **values: object) -> Phrase:
    """Return the reason of that name, with its values."""
    return Phrase(f"claims_reason_{name}", values)


def at_least(figure: Figure, claimed_percent: float, between: str) -> tuple[str, Phrase]:
    """Return the verdict on "`claimed_percent` or more", and its reason: the whole range decides.

    The reason is `between` if the claimed share lies within the range.
    """
    claimed = percent(claimed_percent)
    if figure.spread is None:
        return OPEN, reason_phrase("one_repeat")
    if figure.median - figure.spread >= claimed_percent:
        return HOLDS, reason_phrase("reaches", claimed=claimed)
    if figure.median + figure.spread < claimed_percent:
        return DOES_NOT_HOLD, reason_phrase("stays_below", claimed=claimed)
    return OPEN, reason_phrase(between, claimed=claimed)


def at_most(figure: Figure, tolerance_percent: float) -> tuple[str, Phrase]:
    """Return the verdict on "`tolerance_percent` lost or less", and its reason."""
    tolerance = percent(tolerance_percent)
    if figure.spread is None:
        return OPEN, reason_phrase("one_repeat")
    if figure.median + figure.spread <= tolerance_percent:
        return HOLDS, reason_phrase("kept", tolerance=tolerance)
    if figure.median - figure.spread > tolerance_percent:
        return DOES_NOT_HOLD, reason_phrase("lost", tolerance=tolerance)
    return OPEN, reason_phrase("within_spread", claimed=tolerance)


def above_zero(saved: Figure) -> tuple[str, Phrase]:
    """Return the verdict on "something is saved", and its reason."""
    if saved.spread is None:
        return OPEN, reason_phrase("one_repeat")
    if saved.median - saved.spread > 0:
        return HOLDS, reason_phrase("saves")
    if saved.median + saved.spread <= 0:
        return DOES_NOT_HOLD, reason_phrase("saves_nothing")
    return OPEN, reason_phrase("no_difference")


def counted(
    holds: bool,
    *,
    yes: str,
    no: str,
    figure: Figure,
    unit: str,
    shown: Phrase,
) -> Judgement:
    """Return the judgement on a count, for which one repeat is enough.

    The reason is `yes` if the claim holds, otherwise `no`.
    """
    if holds:
        return Judgement(HOLDS, reason_phrase(yes), figure, unit, shown)
    return Judgement(DOES_NOT_HOLD, reason_phrase(no), figure, unit, shown)
