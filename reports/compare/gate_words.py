"""The result of the gate in sentences, for every form of output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reusebench.reports.base.formatting import (
    level_amount,
    metric_amount,
    metric_level,
    metric_number,
    metric_unit,
)
from reusebench.reports.compare.changes import Change, Unmeasured
from reusebench.reports.compare.gate import (
    NOT_HELD,
    UNDECIDED,
    WITHIN,
    WORSE,
    GateResult,
    Held,
)
from reusebench.storage.limits import GateLimit

#: The word before a sentence, by outcome.
_OPENINGS = {WORSE: "FAILED", UNDECIDED: "UNDECIDED", NOT_HELD: "NOT HELD"}
#: Undecided changes of a limit that are told one by one; the others are counted.
_MOST_UNDECIDED = 5


@dataclass(frozen=True)
class LimitWords:
    """One limit's outcome for all changes together, the worst of them, and what there is to say."""

    limit: GateLimit
    outcome: str
    sentences: tuple[str, ...]


def limit_words(result: GateResult) -> Iterator[LimitWords]:
    """Yield each limit with its sentences."""
    for limit in result.limits:
        held = {
            outcome: result.of(outcome, limit) for outcome in (WORSE, NOT_HELD, UNDECIDED, WITHIN)
        }
        if not any(held.values()):
            yield LimitWords(limit, NOT_HELD, (f"NOTHING to hold {limit.text} against",))
            continue
        sentences = [_told(each) for each in held[WORSE]]
        sentences += [f"{_told(each)}; {remedy(each)}" for each in held[NOT_HELD]]
        sentences += [_told(each) for each in held[UNDECIDED][:_MOST_UNDECIDED]]
        more = len(held[UNDECIDED]) - _MOST_UNDECIDED
        if more > 0:
            sentences.append(f"UNDECIDED {limit.text}: and {more} more like these")
        outcome = next(outcome for outcome, each in held.items() if each)
        if outcome in (WITHIN, UNDECIDED):
            sentences.append(_summary(limit, held, result.strict))
        yield LimitWords(limit, outcome, tuple(sentences))


def gate_lines(result: GateResult) -> Iterator[str]:
    """Yield all sentences of the gate."""
    for lost in result.lost:
        yield f"FAILED {lost_words(lost)}"
    for words in limit_words(result):
        yield from words.sentences


def lost_words(lost: Unmeasured) -> str:
    """Return the sentence on a configuration that fails now."""
    return f"{lost.subject}: it was measured in the base, and here it is: {lost.head}"


def held_words(held: Held) -> str:
    """Return the change, and the allowed one."""
    return (
        f"{held.change.subject}: {change_words(held.change)}; allowed"
        f" {metric_amount(held.allowed, held.limit.metric)}"
    )


def remedy(held: Held) -> str:
    """Return the reason why a change is not judged, and the way to a decision."""
    if held.outcome == NOT_HELD:
        return (
            "memory was short while it was measured: free memory, or measure fewer contexts, and"
            " measure again"
        )
    error = held.change.difference.error
    if held.change.is_disturbed:
        return "the machine was busy with other work: measure again"
    if error is None:
        return "one repeat shows no spread: measure with --repeats 3 or more"
    ways = "more repeats (--repeats), 5 runs in the base or a wider limit would decide"
    if error > held.allowed:
        return f"noise is larger than the limit: {ways}"
    return f"noise may hide a change beyond the limit: {ways}"


def change_words(change: Change) -> str:
    """Return both medians, and the change with its interval and its percentage."""
    difference = change.difference
    metric = change.metric
    return (
        f"{metric_level(difference.base_median, metric)} ->"
        f" {level_amount(difference.head_median, metric)}, {size_words(change)}"
    )


def size_words(change: Change) -> str:
    """Return the change with its interval, its unit and its percentage."""
    difference = change.difference
    metric = change.metric
    error = "" if difference.error is None else f" ±{metric_number(difference.error, metric)}"
    percent = "" if difference.percent is None else f" ({difference.percent:+.1f} %)"
    return (
        f"{metric_number(difference.change, metric, sign=True)}{error} {metric_unit(metric)}"
        f"{percent}"
    )


def _told(held: Held) -> str:
    return f"{_OPENINGS[held.outcome]} {held.limit.text}: {held_words(held)}"


def _summary(limit: GateLimit, held: dict[str, list[Held]], strict: bool) -> str:
    """Return the sentence on a limit that is not broken."""
    undecided = len(held[UNDECIDED])
    count = len(held[WITHIN]) + undecided
    better = [each.change for each in held[WITHIN] if each.change.is_better]
    words = f"passed {limit.text}: {count} compared"
    if undecided:
        words += f", {undecided} of them undecided, which proves nothing"
        if strict:
            words = f"NOT PASSED {limit.text}: {undecided} of {count} undecided"
        words += f"; {remedy(held[UNDECIDED][0])}"
    if better:
        best = min(better, key=lambda change: change.difference.percent or 0)
        words += f"; {len(better)} better, such as {best.subject}: {size_words(best)}"
    return words
