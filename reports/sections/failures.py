"""What failed or is not supported, and why: equal reasons once, with all scenarios that they are
of.
"""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values


class FailuresSection(GroupSection):
    """Scenarios that failed or are not supported, and files that could not be read."""

    name = "failures"

    def values(self, page: Page) -> Values:
        """Return the parts, and what is wrong with unreadable files."""
        messages = [page.texts.message(file.message) for file in page.material.bad_files]
        return {**super().values(page), "bad_files": messages}

    def part(self, view: GroupView) -> Values | None:
        """Return the group's failures; None if all scenarios have figures."""
        reasons = failures(view.group, view.texts)
        return {"failures": reasons} if reasons else None


@dataclass(frozen=True)
class Reason:
    """Why scenarios have no figures, in words."""

    scenarios: str
    outcome: str
    #: Empty if it bears on nothing.
    phase: str
    message: str
    #: The end of what the process wrote.
    last_words: str


def failures(group: Group, texts: Texts) -> list[Reason]:
    """Return each reason with its scenarios, in the order of the first of them."""
    alike: dict[tuple[str | int | None, ...], list[Row]] = {}
    for row in group.rows:
        failure = row.info.failure
        if row.measured:
            continue
        # The same whatever the language.
        reason: tuple[str | int | None, ...] = (row.outcome,)
        if failure:
            reason += (str(failure.message),)
            # Of a mechanism that the runtime lacks, phase and last words explain nothing.
            reason += (failure.phase, failure.context, failure.last_words) if row.supported else ()
        alike.setdefault(reason, []).append(row)
    reasons = []
    for rows in alike.values():
        row = rows[0]
        failure = rows[0].info.failure
        scenarios = texts.scenarios(row.scenario for row in rows)
        outcome = texts(f"outcome_{row.outcome}")
        if failure is None:
            reasons.append(Reason(scenarios, outcome, "", texts("differs_from_baseline"), ""))
        elif not row.supported:
            reasons.append(Reason(scenarios, outcome, "", texts.message(failure.message), ""))
        else:
            phase = phase_in_words(failure.phase, failure.context, texts)
            reasons.append(
                Reason(
                    scenarios, outcome, phase, texts.message(failure.message), failure.last_words
                )
            )
    return reasons


def phase_in_words(phase: str, context: int | None, texts: Texts) -> str:
    """Return a phase, with the number of its context where it is of one."""
    name = texts.words.get(f"phase_{phase}", phase)
    return name if context is None else f"{name}, {context + 1}"
