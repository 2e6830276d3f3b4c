"""What failed or is not supported, and why: equal reasons once, with all scenarios that they are of."""

from __future__ import annotations

from dataclasses import dataclass

from reports.base.formatting import EMPTY
from reports.base.messages import in_words
from reports.base.texts import Texts
from reports.results.rows import Group, Row


@dataclass(frozen=True)
class Reason:
    """Why scenarios have no figures, in words."""

    scenarios: str
    outcome: str
    #: Empty where it bears on nothing.
    phase: str
    message: str
    #: The end of what the process wrote.
    last_words: str


def failures(group: Group, texts: Texts) -> list[Reason]:
    """Return each reason with its scenarios, in the order of the first of them."""
    alike: dict[tuple[str | int | None, ...], list[Row]] = {}
    for row in group.rows:
        if not row.measured:
            alike.setdefault(_what_happened(row), []).append(row)
    return [_reason(rows, texts) for rows in alike.values()]


def phase_in_words(phase: str, context: int | None, texts: Texts) -> str:
    """Return a phase, with the number of its context where it is of one."""
    name = texts.words.get(f"phase_{phase}", phase)
    return name if context is None else f"{name}, {context + 1}"


def _what_happened(row: Row) -> tuple[str | int | None, ...]:
    """Return what tells two failures apart, the same whatever the language."""
    failure = row.info.failure
    if failure is None:
        return (row.outcome,)
    if not row.supported:
        return row.outcome, str(failure.message)
    return row.outcome, failure.phase, failure.context, str(failure.message), failure.last_words


def _reason(rows: list[Row], texts: Texts) -> Reason:
    first, failure = rows[0], rows[0].info.failure
    phase, message, last_words = EMPTY, texts("differs_from_baseline"), ""
    if failure:
        phase, message = phase_in_words(failure.phase, failure.context, texts), in_words(failure.message, texts)
        last_words = failure.last_words
    if not first.supported:
        # Where the runtime said that it lacks the mechanism, and what it had said before, bear on nothing.
        phase = last_words = ""
    scenarios = texts.joined(texts.scenario(row.scenario) for row in rows)
    return Reason(scenarios, texts(f"outcome_{first.outcome}"), phase, message, last_words)
