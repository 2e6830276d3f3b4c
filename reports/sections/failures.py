"""Failures and missing mechanisms, and their reasons; equal reasons stand once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values
from reusebench.storage.run_file import NO_END, RUNNING


class FailuresSection(GroupSection):
    """Scenarios that failed or are not supported, and files that could not be read."""

    name = "failures"

    def values(self, page: Page) -> Values:
        """Return the parts, and what is wrong with unreadable files."""
        messages = [page.texts.message(file.message) for file in page.material.bad_files]
        return {**super().values(page), "bad_files": messages}

    def is_empty(self, values: Values) -> bool:
        """Whether nothing failed, all is supported, and every file could be read."""
        return super().is_empty(values) and not values["bad_files"]

    def part_summary(self, view: GroupView) -> str | None:
        """Return the number of scenarios with each outcome, of those without figures."""
        counts = Counter(row.outcome for row in view.group.rows if not row.measured)
        texts = view.texts
        return texts.joined(
            texts("summary_count", count=count, words=texts(f"outcome_{outcome}"))
            for outcome, count in counts.items()
        )

    def part(self, view: GroupView) -> Values | None:
        """Return the group's failures; None if all scenarios have figures."""
        reasons = failures(view.group, view.texts)
        return {"failures": reasons} if reasons else None


@dataclass(frozen=True)
class Reason:
    """Scenarios without figures, and the reason."""

    scenarios: str
    outcome: str
    #: Empty if the reason has nothing to do with a phase.
    phase: str
    message: str
    #: The end of the process's output.
    last_words: str


def failures(group: Group, texts: Texts) -> list[Reason]:
    """Return each reason with its scenarios, in the order of the rows."""
    alike: dict[tuple[str | int | None, ...], list[Row]] = {}
    for row in group.rows:
        if not row.measured:
            alike.setdefault(_key(row), []).append(row)
    return [_reason(rows, texts) for rows in alike.values()]


def _key(row: Row) -> tuple[str | int | None, ...]:
    """Return the reason as stored, which is the same in every language."""
    failure = row.info.failure
    if failure is None:
        return (row.outcome,)
    if not row.supported:
        # Phase and last words do not explain a mechanism that the runtime lacks.
        return (row.outcome, str(failure.message))
    return (
        row.outcome,
        str(failure.message),
        failure.phase,
        failure.context,
        failure.last_words,
    )


def _reason(rows: Sequence[Row], texts: Texts) -> Reason:
    """Return the reason that these rows have in common."""
    first = rows[0]
    failure = first.info.failure
    scenarios = texts.scenarios(row.scenario for row in rows)
    outcome = texts(f"outcome_{first.outcome}")
    if failure is None:
        return Reason(scenarios, outcome, "", texts("differs_from_baseline"), "")
    message = texts.message(failure.message)
    if first.outcome in (RUNNING, NO_END):
        message = texts(f"end_{first.outcome}")
    if not first.supported:
        return Reason(scenarios, outcome, "", message, "")
    phase = phase_in_words(failure.phase, failure.context, texts)
    return Reason(scenarios, outcome, phase, message, failure.last_words)


def phase_in_words(phase: str, context: int | None, texts: Texts) -> str:
    """Return the name of a phase, with the number of its context if it has one."""
    name = texts.words.get(f"phase_{phase}", phase)
    return name if context is None else f"{name}, {context + 1}"
