"""The verdict on a whole comparison in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.base.formatting import level_amount
from reusebench.reports.compare.changes import Change, Changes, Unmeasured
from reusebench.reports.compare.gate import NOT_HELD, UNDECIDED, WITHIN, WORSE, GateResult

GOOD = "good"
BAD = "bad"
OPEN = "open"


@dataclass(frozen=True)
class Headline:
    """One line, and how it is meant."""

    #: GOOD, BAD or OPEN.
    tone: str
    text: str


def headline(changes: Changes, result: GateResult | None) -> Headline:
    """Return the verdict of the gate; without one, what got worse and better."""
    if result is None or not result.limits:
        return _without_limits(changes)
    failed = _failed(result)
    if failed:
        return Headline(BAD, failed)
    unknown = _not_judged(changes, result) or _undecided(result)
    if unknown:
        return Headline(OPEN, unknown)
    within = _figures(len(result.of(WITHIN)))
    return Headline(GOOD, f"Within the limits: {within}{_best(changes)}")


def _failed(result: GateResult) -> str:
    """Return the worst of what fails the build; empty if nothing does."""
    broken = result.of(WORSE)
    if result.lost:
        return _fails_now(result.lost, len(broken))
    if broken:
        return f"Worse than allowed: {change_in_short(broken[0].change)}{_more(len(broken) - 1)}"
    return ""


def _fails_now(lost: Sequence[Unmeasured], others: int) -> str:
    return f"{lost[0].subject} fails now: {lost[0].head}{_more(len(lost) + others - 1)}"


def _not_judged(changes: Changes, result: GateResult) -> str:
    not_held = result.of(NOT_HELD)
    if not_held:
        return f"Not judged: memory was short while {_figures(len(not_held))} was measured"
    if result.unused:
        names = ", ".join(limit.text for limit in result.unused)
        return f"Not judged: no figure to hold {names} against"
    if result.is_partial:
        count = len(changes.differing)
        return f"Not judged: {count} configurations were measured under other conditions"
    return ""


def _undecided(result: GateResult) -> str:
    undecided = result.of(UNDECIDED)
    if not undecided:
        return ""
    count = len(undecided) + len(result.of(WITHIN))
    worst = change_in_short(undecided[0].change)
    return (
        f"Undecided: {_figures(len(undecided))} of {count} may be worse than allowed:"
        f" {worst}{_more(len(undecided) - 1)}"
    )


def change_in_short(change: Change) -> str:
    """Return configuration, figure, both medians and the percentage."""
    difference = change.difference
    percent = "" if difference.percent is None else f" ({difference.percent:+.1f} %)"
    name = change.subject.named(change.subject.configuration.name)
    return (
        f"{change.metric.name.replace('_', ' ')} of {name}:"
        f" {level_amount(difference.base_median, change.metric)} →"
        f" {level_amount(difference.head_median, change.metric)}{percent}"
    )


def _without_limits(changes: Changes) -> Headline:
    worse = sorted(
        (change for change in changes.rows if change.is_worse),
        key=lambda change: -abs(change.difference.percent or 0),
    )
    lost = [each for each in changes.unmeasured if each.is_broken]
    if lost:
        return Headline(BAD, _fails_now(lost, len(worse)))
    if worse:
        return Headline(BAD, f"Worse: {change_in_short(worse[0])}{_more(len(worse) - 1)}")
    if not changes.rows:
        return Headline(OPEN, "Nothing in common to compare")
    best = _best(changes)
    if best:
        return Headline(GOOD, f"Nothing got worse{best}")
    return Headline(GOOD, f"No change that could be shown in {_figures(len(changes.rows))}")


def _best(changes: Changes) -> str:
    """Return the best improvement, and the number of others; empty if there is none."""
    better = sorted(
        (change for change in changes.rows if change.is_better),
        key=lambda change: -abs(change.difference.percent or 0),
    )
    if not better:
        return ""
    return f"; better: {change_in_short(better[0])}{_more(len(better) - 1)}"


def _more(count: int) -> str:
    return f", and {count} more" if count > 0 else ""


def _figures(count: int) -> str:
    return "1 figure" if count == 1 else f"{count} figures"
