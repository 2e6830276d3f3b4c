"""Mechanisms by runtime: verdicts, savings, and the reason if one does not work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from reusebench.reports.base.drawing import (
    INK,
    Draw,
    Rows,
    line,
    new_canvas,
    svg_of,
    whiskers,
)
from reusebench.reports.base.formatting import (
    EMPTY,
    component_mib,
    counted_mib,
    mib,
    percent,
    ranges,
)
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.results.colours import group_look
from reusebench.reports.results.combined_mechanisms import combined_mechanisms, combines
from reusebench.reports.results.copies import avoided_bytes
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.memory_use import SharedMemory, domain_memories, shared_memories
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.failures import phase_in_words
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.storage.savings import LESS, MORE, Saving, best_percent

_ENGLISH = texts_of(LANGUAGES[0])
#: Scenarios that each show a mechanism.
MECHANISMS = tuple(
    scenario.name for scenario in SCENARIOS if scenario.baseline and not scenario.is_variant
)
#: Exported tables have these names, so they do not change.
MECHANISM_VERDICTS = WORKS, SAVES_NOTHING, NOT_SUPPORTED, FAILS = (
    "works",
    "saves_nothing",
    "not_supported",
    "fails",
)
#: Columns of the exported table; new ones come at the end.
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
#: Percent; the figure leaves out mechanisms that save less, which the table has.
_LEAST_PERCENT = 1.0
#: Heights in pixels: of a group's mark, and between two mechanisms.
_MARK_PX = 6
_GAP_PX = 14


class MechanismsSection(GroupSection):
    """Verdicts on mechanisms by runtime, and the memory that contexts share."""

    name = "mechanisms"

    def values(self, page: Page) -> Values:
        """Return the table of verdicts with their reasons, and the parts."""
        groups = page.material.of_scenarios
        labels = page.labels[: len(groups)]
        questions = {row.question for row in page.rows if row.scenario in MECHANISMS}
        return {
            **super().values(page),
            "is_told": len(groups) == 1 and len(questions) <= 1,
            "table": mechanisms_table(groups, labels, page.texts),
            "reasons": mechanism_reasons(groups, labels, page.texts),
        }

    def part(self, view: GroupView) -> Values | None:
        """Return the memories that contexts share, and the address spaces of the NPU."""
        return {
            "sharing": sharing_table(view.group, view.texts),
            "domains": domains_table(view.group, view.texts),
            "domains_note": view.texts.of_runtime("domains_note", view.group.info.runtime),
        }

    def is_empty(self, values: Values) -> bool:
        """Whether there are no mechanisms, or one question of one group has it all."""
        is_told = values["table"] is None or values["is_told"]
        return is_told and not any(part["sharing"] or part["domains"] for part in values["parts"])

    def summary(self, page: Page) -> str:
        """Return the number of mechanisms with each verdict."""
        counts: Counter[str] = Counter()
        for group in page.material.of_scenarios:
            counts.update(verdict.name for verdict in _verdicts(group))
        texts = page.texts
        parts = []
        for name in MECHANISM_VERDICTS:
            if counts[name]:
                words = texts(f"mechanism_{name}")
                parts.append(texts("summary_count", count=counts[name], words=words))
        return texts.joined(parts)

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figure of savings."""
        groups = page.material.of_scenarios
        return {"savings": partial(savings_figure, groups, page.labels, page.texts)}


@dataclass(frozen=True)
class MechanismVerdict:
    """The verdict on a mechanism of a runtime."""

    row: Row
    #: One of MECHANISM_VERDICTS.
    name: str
    #: None if there is nothing to compare.
    saving: Saving | None = None
    #: Additional bytes that an inference of the baseline copies; None if they were not counted.
    avoided_bytes: float | None = None

    @property
    def memory(self) -> str:
        """The memory that was compared: "npu" or "application"."""
        return "npu" if self.saving and self.saving.is_npu else "application"

    @property
    def combined(self) -> list[str]:
        """The mechanisms of a scenario that combines several."""
        if not self.saving or not combines(self.row):
            return []
        return combined_mechanisms(self.row.info.plan)


def verdict_of(row: Row) -> MechanismVerdict | None:
    """Return the verdict on a scenario of MECHANISMS; None if its baseline is not stored.

    A mechanism works if it saves more than repeats differ by, or if an inference copies less.
    """
    if not row.supported:
        return MechanismVerdict(row, NOT_SUPPORTED)
    if not row.measured:
        return MechanismVerdict(row, FAILS)
    if row.baseline is None:
        return None
    if not row.baseline.measured:
        return MechanismVerdict(row, FAILS)
    avoided = avoided_bytes(row)
    saving = row.main_saving
    saves = saving is not None and saving.change == LESS
    copies_less = avoided is not None and avoided > 0
    name = WORKS if saves or copies_less else SAVES_NOTHING
    return MechanismVerdict(row, name, saving, avoided)


def mechanisms_table(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts, question: str | None = None
) -> Table | None:
    """Return the verdict on each mechanism in each group, or on the mechanisms of one question.

    None if no group was measured with any.
    """
    lines = []
    for name, rows in _mechanism_rows(groups, question).items():
        cells = [_verdict_in_words(row, texts) if row else EMPTY for row in rows]
        lines.append(("ok", [texts.scenario(name), *cells]))
    if not lines:
        return None
    heads = [texts("column_mechanism_alone"), *_with_memories(groups, labels, texts)]
    looks = ["", *map(group_id, range(len(groups)))]
    return Table(heads, lines, words=range(len(heads)), looks=looks, exported="mechanisms")


def savings_figure(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts, paper: Paper = WIDE
) -> str | None:
    """Draw a row for each mechanism that saves in any group, with a mark for each group.

    None if no mechanism saves.
    """
    shown = {}
    for name, rows in _mechanism_rows(groups).items():
        savings = [best_percent(row.main_saving) for row in rows if row]
        if max(savings, default=0.0) >= _LEAST_PERCENT:
            shown[name] = rows
    if not shown:
        return None
    row_px = _MARK_PX * len(groups) + _GAP_PX
    lanes = Rows(paper)
    tops_px = [lanes.add(texts.scenario(name), row_px) for name in shown]
    canvas = new_canvas(lanes.end_px + 50, paper)
    axes = canvas.add_subplot()
    legend = []
    for number, label in enumerate(_with_memories(groups, labels, texts)):
        look = {**group_look(number), "linestyle": "none"}
        rows = [rows[number] for rows in shown.values()]
        # The marks of a mechanism stand one above the other, so that none hides another.
        below_px = _GAP_PX / 2 + (number + 0.5) * _MARK_PX
        _draw_marks(axes, rows, [top_px + below_px for top_px in tops_px], **look)
        legend.append(line(label, **look))
    lanes.draw_names(axes)
    for top_px in tops_px[:-1]:
        axes.axhline(top_px + row_px, color=INK, linewidth=0.4, alpha=0.3)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(texts("axis_saved_percent"))
    return svg_of(canvas, legend)


def _draw_marks(
    axes: Axes, rows: Sequence[Row | None], middles_px: Sequence[float], **look: Any
) -> None:
    """Draw the savings of one group, each at its height, with their spreads."""
    x: list[float] = []
    y: list[float] = []
    spreads = []
    for row, middle_px in zip(rows, middles_px):
        figure = row.main_saving.percent if row and row.main_saving else None
        if figure:
            x.append(figure.median)
            y.append(middle_px)
            spreads.append(figure.spread)
    whiskers(axes, list(zip(x, y, spreads)), cap_px=0)
    axes.plot(x, y, **look)


def mechanism_reasons(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts
) -> list[tuple[str, str, str]]:
    """Return (group, mechanisms, reason) for mechanisms that do not work.

    Mechanisms of a group with the same reason stand together.
    """
    alike: dict[tuple[str, str], list[MechanismVerdict]] = {}
    for group, label in zip(groups, labels):
        for verdict in _verdicts(group):
            if verdict.name != WORKS:
                # English words as the key, so that every language has the same reasons.
                alike.setdefault((label, _reason(verdict, _ENGLISH)), []).append(verdict)
    reasons = []
    for (label, _), verdicts in alike.items():
        mechanisms = texts.scenarios(verdict.row.scenario for verdict in verdicts)
        reasons.append((label, mechanisms, _reason(verdicts[0], texts)))
    return reasons


def mechanism_records(group: Group) -> list[dict[str, Any]]:
    """Return a record in MECHANISM_COLUMNS for each mechanism; reasons are in English."""
    records = []
    for verdict in _verdicts(group):
        info = verdict.row.info
        saving = verdict.saving
        record: dict[str, Any] = {
            **dict.fromkeys(MECHANISM_COLUMNS),
            "runtime": info.runtime,
            "runtime_version": info.runtime_version,
            "target": info.target,
            "python_version": info.python_version,
            "chip": info.chip,
            "recorded_at": verdict.row.file.recorded_at,
            "scenario": info.scenario,
            "verdict": verdict.name,
            "reason": None if verdict.name == WORKS else _reason(verdict, _ENGLISH),
            "copies_avoided_bytes": rounded(verdict.avoided_bytes),
            "combined": " ".join(verdict.combined) or None,
            "streams": info.streams,
            "contexts": info.contexts,
        }
        if saving:
            record["memory"] = verdict.memory
            record["saved_bytes"] = rounded(saving.saved)
            record["spread_bytes"] = rounded_spread(saving.saved)
            record["whole_bytes"] = rounded(saving.whole)
        records.append(record)
    return records


def sharing_table(group: Group, texts: Texts) -> Table | None:
    """Return each memory that contexts share; None if none do, or no row has an account."""
    lines = []
    for row in group.rows:
        for shared in shared_memories(row):
            cells = [
                texts.scenario(row.scenario),
                texts(f"component_{shared.component}"),
                component_mib(shared.size),
                str(shared.owner),
                ranges(shared.readers),
                _verified(shared, texts),
            ]
            lines.append((row.outcome, cells))
    if not lines:
        return None
    size = texts("column_in_mib", name=texts("column_size"))
    heads = [
        *heads_of(("column_scenario", "column_shared"), texts),
        size,
        *heads_of(("column_owner", "column_readers", "column_verified"), texts),
    ]
    return Table(heads, lines, words=(0, 1, 3, 4, 5))


def domains_table(group: Group, texts: Texts) -> Table | None:
    """Return the use of each domain of the NPU's IOMMU; None if no ledger recorded it."""
    lines = []
    for row in group.rows:
        for memory in domain_memories(row):
            cells = [
                texts.scenario(row.scenario),
                str(memory.domain),
                component_mib(memory.peak),
                component_mib(memory.left),
                ranges(memory.contexts),
            ]
            lines.append((row.outcome, cells))
    if not lines:
        return None
    heads = [
        texts("column_scenario"),
        texts("column_domain"),
        texts("column_in_mib", name=texts("column_taken")),
        texts("column_in_mib", name=texts("column_left")),
        texts("column_domain_contexts"),
    ]
    return Table(heads, lines, words=(0, 1, 4))


def _mechanism_rows(
    groups: Sequence[Group], question: str | None = None
) -> dict[str, list[Row | None]]:
    """Return the rows of all groups by mechanism: all, or of one question.

    A mechanism is left out if all its rows are copies: another mechanism has the rows already.
    """
    rows_by_name = {}
    for name in MECHANISMS:
        rows = [_mechanism_row(group, name) for group in groups]
        if any(row and _is_shown(row, question) for row in rows):
            rows_by_name[name] = rows
    return rows_by_name


def _is_shown(row: Row, question: str | None) -> bool:
    """Whether this row alone gives its mechanism a line in a table."""
    if question is None:
        return row.original is None
    return row.question == question and not row.is_left_out


def _mechanism_row(group: Group, scenario: str) -> Row | None:
    """Return the group's row of a scenario; if there are several, one that can be compared."""
    rows = group.named(scenario)
    for row in rows:
        if row.main_saving and row.main_saving.percent:
            return row
    return rows[0] if rows else None


def _verdicts(group: Group) -> Iterator[MechanismVerdict]:
    for name in MECHANISMS:
        row = _mechanism_row(group, name)
        if row and row.original is None:
            verdict = verdict_of(row)
            if verdict:
                yield verdict


def _with_memories(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[str]:
    """Return the groups' labels with the memory whose savings are shown."""
    names = []
    for group, label in zip(groups, labels):
        memory = texts("memory_npu" if group.has_npu_memory else "memory_application")
        names.append(texts("savings_of", group=label, memory=memory))
    return names


def _verdict_in_words(row: Row, texts: Texts) -> str:
    """Return the saving if the mechanism works, otherwise the verdict, in a few words."""
    verdict = verdict_of(row)
    if verdict is None:
        return texts("not_compared")
    if verdict.name != WORKS:
        return texts(f"mechanism_{verdict.name}")
    parts = []
    saving = verdict.saving
    if saving and saving.change == LESS and saving.percent:
        parts.append(texts("mechanism_saved", percent=percent(saving.percent)))
    if verdict.avoided_bytes:
        parts.append(texts("mechanism_copies", avoided=counted_mib(verdict.avoided_bytes)))
    return texts.joined(parts) or texts("mechanism_works")


def _reason(verdict: MechanismVerdict, texts: Texts) -> str:
    """Return the reason why a mechanism does not work."""
    row = verdict.row
    saving = verdict.saving
    if saving:
        if saving.change == MORE:
            return texts("mechanism_takes_more", more=mib(-saving.saved, saving.is_npu))
        return texts("mechanism_takes_as_much", saved=mib(saving.saved, saving.is_npu))
    if row.measured and row.baseline:
        baseline = texts.scenario(row.baseline.scenario)
        failure = _failure_in_words(row.baseline, texts)
        return texts("mechanism_baseline_fails", baseline=baseline, failure=failure)
    return _failure_in_words(row, texts)


def _failure_in_words(row: Row, texts: Texts) -> str:
    failure = row.info.failure
    if failure is None:
        return texts("differs_from_baseline")
    message = texts.message(failure.message)
    if not row.supported:
        return message
    outcome = texts(f"outcome_{row.outcome}")
    phase = phase_in_words(failure.phase, failure.context, texts)
    return texts("mechanism_failure", outcome=outcome, phase=phase, message=message)


def _verified(shared: SharedMemory, texts: Texts) -> str:
    """Return the number of readers that the ledger has seen at the owner's memory."""
    if shared.seen is None:
        return texts("verified_unknown")
    readers = len(shared.readers)
    if shared.seen == readers:
        key = "verified_all"
    elif shared.seen == 0:
        key = "verified_none"
    else:
        key = "verified_some"
    return texts(key, seen=shared.seen, readers=readers)
