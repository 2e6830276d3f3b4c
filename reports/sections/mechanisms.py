"""Which runtime has which mechanism, by what was measured: a table, and the reasons where one does not work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.base.formatting import EMPTY, copied_mib, mib, npu_mib, percent
from reports.base.messages import in_words
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import LANGUAGES, Texts, texts_of
from reports.results.labels import group_id
from reports.results.rows import Group, Row
from reports.sections.copies import avoided_bytes
from reports.sections.failures import phase_in_words
from scenarios.catalogue import SCENARIOS
from scenarios.plan import DUP, Plan

_ENGLISH = texts_of(LANGUAGES[0])
#: Scenarios that each show a mechanism.
MECHANISMS = tuple(scenario.name for scenario in SCENARIOS if scenario.baseline and not scenario.is_variant)
#: Of those the ones with several plans: as many mechanisms together as the runtime has.
COMBINING = tuple(scenario.name for scenario in SCENARIOS if len(scenario.lay_outs) > 1)
#: Exported tables name them, so they do not change.
VERDICTS = WORKS, SAVES_NOTHING, NOT_SUPPORTED, FAILS = ("works", "saves_nothing", "not_supported", "fails")
#: Of the exported table; new columns come at the end.
MECHANISM_COLUMNS = (
    "runtime",
    "runtime_version",
    "target",
    "python_version",
    "chip",
    "recorded_at",
    "scenario",
    "verdict",
    "reason",
    "memory",
    "saved_bytes",
    "spread_bytes",
    "whole_bytes",
    "copies_avoided_bytes",
    "combined",
    "streams",
    "contexts",
)


@dataclass(frozen=True)
class Verdict:
    """What a mechanism came to on a runtime."""

    row: Row
    #: One of VERDICTS.
    name: str
    #: Bytes of the memory that was weighed, NPU memory where there is any; None where there is nothing to compare.
    saved: Figure | None = None
    #: What an inference of the baseline copies more; None where that was not counted.
    avoided_bytes: float | None = None

    @property
    def memory(self) -> str:
        """Which memory was weighed: "npu" or "application"."""
        return "npu" if self.row.npu_saved else "application"

    @property
    def combined(self) -> list[str]:
        """Of a scenario that combines mechanisms, those that it did."""
        is_combining = self.saved is not None and self.row.scenario in COMBINING
        return [name for name, is_used in combined_mechanisms(self.row.info.plan).items() if is_used and is_combining]


def verdict_of(row: Row) -> Verdict | None:
    """Return the verdict on a scenario of MECHANISMS; None where its baseline is not stored.

    It works where it saves more than repeats differ by, or where an inference copies less.
    """
    if not row.measured:
        return Verdict(row, FAILS if row.supported else NOT_SUPPORTED)
    if row.baseline is None:
        return None
    if not row.baseline.measured:
        return Verdict(row, FAILS)
    avoided = avoided_bytes(row)
    works = row.memory_change == "less" or (avoided or 0) > 0
    return Verdict(row, WORKS if works else SAVES_NOTHING, row.saved_memory, avoided)


def combined_mechanisms(plan: Plan) -> dict[str, bool]:
    """Return whether the plan uses each of the mechanisms that can be combined, by the scenario that shows it."""
    return {
        "full_dup": any(context.mechanism == DUP for context in plan.contexts),
        "internal_reuse": any(context.internal is not None for context in plan.contexts),
        "zero_copy_io": any(context.zero_copy for context in plan.contexts),
    }


def mechanism_row(group: Group, scenario: str) -> Row | None:
    """Return the group's row of a scenario; of several, with other models, one that can be compared."""
    rows = [row for row in group.rows if row.scenario == scenario]
    return next((row for row in rows if row.saving_percent), rows[0] if rows else None)


def mechanisms_table(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Table | None:
    """Return a row for each mechanism that a group was measured with, and a column for each group, so labelled."""
    rows = []
    for name in MECHANISMS:
        of_groups = [mechanism_row(group, name) for group in groups]
        if any(of_groups):
            cells = [Cell(_verdict_in_words(row, texts) if row else EMPTY, False) for row in of_groups]
            rows.append(("ok", [Cell(texts.scenario(name), False), *cells]))
    columns = ["", *map(group_id, range(len(groups)))]
    return Table([texts("column_mechanism_alone"), *labels], rows, columns) if rows else None


def reasons(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[tuple[str, str, str]]:
    """Return (group, mechanisms, reason) where mechanisms do not work, equal reasons of a group once."""
    alike: dict[tuple[str, str], list[Verdict]] = {}
    for group, label in zip(groups, labels):
        for verdict in _verdicts(group):
            if verdict.name != WORKS:
                # By the English words, so that every language has the same reasons.
                alike.setdefault((label, _reason(verdict, _ENGLISH)), []).append(verdict)
    return [
        (label, texts.joined(texts.scenario(verdict.row.scenario) for verdict in verdicts), _reason(verdicts[0], texts))
        for (label, _), verdicts in alike.items()
    ]


def mechanism_rows(group: Group) -> list[dict[str, Any]]:
    """Return a row in MECHANISM_COLUMNS for each mechanism that the group was measured with; reasons are English."""
    rows = []
    for verdict in _verdicts(group):
        info, saved = verdict.row.info, verdict.saved
        whole = verdict.row.memory_without if saved else None
        rows.append(
            {
                **{name: getattr(info, name) for name in ("runtime", "runtime_version", "target", "python_version")},
                **{name: getattr(info, name) for name in ("chip", "scenario", "streams", "contexts")},
                "recorded_at": verdict.row.file.recorded_at,
                "verdict": verdict.name,
                "reason": None if verdict.name == WORKS else _reason(verdict, _ENGLISH),
                "memory": verdict.memory if saved else None,
                "saved_bytes": round(saved.median) if saved else None,
                "spread_bytes": round(saved.spread) if saved and saved.spread is not None else None,
                "whole_bytes": round(whole.median) if whole else None,
                "copies_avoided_bytes": None if verdict.avoided_bytes is None else round(verdict.avoided_bytes),
                "combined": " ".join(verdict.combined) or None,
            }
        )
    return rows


def _verdicts(group: Group) -> list[Verdict]:
    rows = (mechanism_row(group, name) for name in MECHANISMS)
    return [verdict for row in rows if row and (verdict := verdict_of(row))]


def _verdict_in_words(row: Row, texts: Texts) -> str:
    """Return the verdict, with what was measured."""
    verdict = verdict_of(row)
    if verdict is None:
        return texts("not_compared")
    parts = [texts(f"mechanism_{verdict.name}")]
    if verdict.saved and row.memory_change == "less" and row.saving_percent:
        values = {"saved": _mib(verdict, verdict.saved), "memory": texts(f"memory_{verdict.memory}")}
        parts.append(texts("mechanism_saved", percent=percent(row.saving_percent.median), **values))
    if verdict.avoided_bytes:
        parts.append(texts("mechanism_copies", avoided=copied_mib(verdict.avoided_bytes)))
    if verdict.combined:
        parts.append(texts("mechanism_combined", mechanisms=" + ".join(map(texts.scenario, verdict.combined))))
    return texts.joined(parts)


def _reason(verdict: Verdict, texts: Texts) -> str:
    """Return why a mechanism does not work."""
    row = verdict.row
    if verdict.saved is not None:
        if row.memory_change == "more":
            more = Figure(-verdict.saved.median, verdict.saved.spread)
            return texts("mechanism_takes_more", more=_mib(verdict, more))
        return texts("mechanism_takes_as_much", saved=_mib(verdict, verdict.saved))
    if row.measured and row.baseline:
        failure = _failure_in_words(row.baseline, texts)
        return texts("mechanism_baseline_fails", baseline=texts.scenario(row.baseline.scenario), failure=failure)
    return _failure_in_words(row, texts)


def _failure_in_words(row: Row, texts: Texts) -> str:
    failure = row.info.failure
    if failure is None:
        return texts("differs_from_baseline")
    message = in_words(failure.message, texts)
    if not row.supported:
        return message
    phase = phase_in_words(failure.phase, failure.context, texts)
    return texts("mechanism_failure", outcome=texts(f"outcome_{row.outcome}"), phase=phase, message=message)


def _mib(verdict: Verdict, figure: Figure) -> str:
    return npu_mib(figure) if verdict.memory == "npu" else mib(figure)
