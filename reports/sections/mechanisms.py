"""Mechanisms beside runtimes, by what was measured: which works, what each saves, and why one does
not work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reusebench.reports.base.drawing import (
    INK,
    Draw,
    line,
    named_rows,
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
from reusebench.reports.base.statistics import rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.results.colours import RUNTIME_COLOURS, RUNTIME_MARKERS
from reusebench.reports.results.combined_mechanisms import combined_mechanisms, combines
from reusebench.reports.results.copies import avoided_bytes
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.memory_use import SharedMemory, domain_memories, shared_memories
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import LESS, MORE, Saving, best_percent
from reusebench.reports.sections.failures import phase_in_words
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values
from reusebench.scenarios.catalogue import SCENARIOS

_ENGLISH = texts_of(LANGUAGES[0])
#: Scenarios that each show a mechanism.
MECHANISMS = tuple(
    scenario.name for scenario in SCENARIOS if scenario.baseline and not scenario.is_variant
)
#: Exported tables name them, so they do not change.
MECHANISM_VERDICTS = WORKS, SAVES_NOTHING, NOT_SUPPORTED, FAILS = (
    "works",
    "saves_nothing",
    "not_supported",
    "fails",
)
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
#: The table has what saves less; a figure with it would be as long as the table.
_LEAST_PERCENT = 1.0
#: Pixels of a group's mark, and between two mechanisms.
_MARK_PX = 6
_GAP_PX = 14


class MechanismsSection(GroupSection):
    """Which mechanism works on which runtime, and what contexts share."""

    name = "mechanisms"

    def values(self, page: Page) -> Values:
        """Return the table of verdicts with their reasons, and the parts."""
        groups = page.material.of_scenarios
        labels = page.labels[: len(groups)]
        return {
            **super().values(page),
            "table": mechanisms_table(groups, labels, page.texts),
            "reasons": mechanism_reasons(groups, labels, page.texts),
        }

    def part(self, view: GroupView) -> Values | None:
        """Return the memories that contexts share, and the address spaces of the NPU."""
        return {
            "sharing": sharing_table(view.group, view.texts),
            "domains": domains_table(view.group, view.texts),
        }

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figure of savings."""
        groups = page.material.of_scenarios
        return {"savings": partial(savings_figure, groups, page.labels, page.texts)}


@dataclass(frozen=True)
class MechanismVerdict:
    """What a mechanism came to on a runtime."""

    row: Row
    #: One of MECHANISM_VERDICTS.
    name: str
    #: None if there is nothing to compare.
    saving: Saving | None = None
    #: What an inference of the baseline copies more; None if that was not counted.
    avoided_bytes: float | None = None

    @property
    def memory(self) -> str:
        """Which memory was weighed: "npu" or "application"."""
        return "npu" if self.saving and self.saving.is_npu else "application"

    @property
    def combined(self) -> list[str]:
        """Of a scenario that combines mechanisms, those that it did."""
        return combined_mechanisms(self.row.info.plan) if self.saving and combines(self.row) else []


def verdict_of(row: Row) -> MechanismVerdict | None:
    """Return the verdict on a scenario of MECHANISMS; None if its baseline is not stored.

    It works where it saves more than repeats differ by, or where an inference copies less.
    """
    if not row.measured:
        return MechanismVerdict(row, FAILS if row.supported else NOT_SUPPORTED)
    if row.baseline is None:
        return None
    if not row.baseline.measured:
        return MechanismVerdict(row, FAILS)
    avoided = avoided_bytes(row)
    saving = row.main_saving
    works = (saving and saving.change == LESS) or (avoided or 0) > 0
    return MechanismVerdict(row, WORKS if works else SAVES_NOTHING, saving, avoided)


def mechanisms_table(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts, question: str | None = None
) -> Table | None:
    """Return the verdict on each mechanism, or on those of one question, in each group, so
    labelled.

    None if no group was measured with any.
    """
    lines = []
    for name, rows in _mechanism_rows(groups, question).items():
        cells = [_verdict_in_words(row, texts) if row else EMPTY for row in rows]
        lines.append(("ok", [texts.scenario(name), *cells]))
    looks = ["", *map(group_id, range(len(groups)))]
    words = range(len(groups) + 1)
    heads = [texts("column_mechanism_alone"), *_with_memories(groups, labels, texts)]
    return Table(heads, lines, words, looks) if lines else None


def savings_figure(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> str | None:
    """Draw a row for each mechanism that measurably saves in some group, with a mark for each
    group.

    None if none does.
    """
    shown = {
        name: rows
        for name, rows in _mechanism_rows(groups).items()
        if any(row and best_percent(row.main_saving) >= _LEAST_PERCENT for row in rows)
    }
    if not shown:
        return None
    row_px = _MARK_PX * len(groups) + _GAP_PX
    canvas = new_canvas(row_px * len(shown) + 50)
    axes = canvas.add_subplot()
    legend = []
    for number, name in enumerate(_with_memories(groups, labels, texts)):
        colour = RUNTIME_COLOURS[number % len(RUNTIME_COLOURS)]
        look: dict[str, Any] = {
            "marker": RUNTIME_MARKERS[number % len(RUNTIME_MARKERS)],
            "linestyle": "none",
        }
        ends = []
        for index, rows in enumerate(shown.values()):
            row = rows[number]
            figure = row.main_saving.percent if row and row.main_saving else None
            if figure:
                # One above the other, so that none hides another.
                ends.append(
                    (
                        figure.median,
                        index * row_px + _GAP_PX / 2 + (number + 0.5) * _MARK_PX,
                        figure.spread,
                    )
                )
        whiskers(axes, ends)
        axes.plot(
            [end for end, _, _ in ends],
            [middle for _, middle, _ in ends],
            color=colour,
            markersize=6,
            **look,
        )
        legend.append(line(name, colour, markersize=6, **look))
    middles = [(index + 0.5) * row_px for index in range(len(shown))]
    named_rows(axes, [texts.scenario(name) for name in shown], middles, len(shown) * row_px)
    for index in range(1, len(shown)):
        axes.axhline(index * row_px, color=INK, linewidth=0.4, alpha=0.3)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(texts("axis_saved_percent"))
    return svg_of(canvas, legend)


def mechanism_reasons(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts
) -> list[tuple[str, str, str]]:
    """Return (group, mechanisms, reason) where mechanisms do not work, equal reasons of a group
    once.
    """
    alike: dict[tuple[str, str], list[MechanismVerdict]] = {}
    for group, name in zip(groups, labels):
        for verdict in _verdicts(group):
            if verdict.name != WORKS:
                # By the English words, so that every language has the same reasons.
                alike.setdefault((name, _reason(verdict, _ENGLISH)), []).append(verdict)
    return [
        (
            name,
            texts.scenarios(verdict.row.scenario for verdict in verdicts),
            _reason(verdicts[0], texts),
        )
        for (name, _), verdicts in alike.items()
    ]


def mechanism_records(group: Group) -> list[dict[str, Any]]:
    """Return a row in MECHANISM_COLUMNS for each mechanism that the group was measured with;
    reasons are English.
    """
    records = []
    for verdict in _verdicts(group):
        info = verdict.row.info
        saving = verdict.saving
        records.append(
            {
                **{
                    name: getattr(info, name)
                    for name in ("runtime", "runtime_version", "target", "python_version")
                },
                **{
                    name: getattr(info, name)
                    for name in ("chip", "scenario", "streams", "contexts")
                },
                "recorded_at": verdict.row.file.recorded_at,
                "verdict": verdict.name,
                "reason": None if verdict.name == WORKS else _reason(verdict, _ENGLISH),
                "memory": verdict.memory if saving else None,
                "saved_bytes": rounded(saving.saved) if saving else None,
                "spread_bytes": rounded_spread(saving.saved) if saving else None,
                "whole_bytes": rounded(saving.whole) if saving else None,
                "copies_avoided_bytes": rounded(verdict.avoided_bytes),
                "combined": " ".join(verdict.combined) or None,
            }
        )
    return records


def _mechanism_rows(
    groups: Sequence[Group], question: str | None = None
) -> dict[str, list[Row | None]]:
    """Return the mechanisms that any group was measured with, or those of one question, with the
    row of every group.

    If all of these are copies, the mechanism stands there already under another name.
    """
    rows = {name: [_mechanism_row(group, name) for group in groups] for name in MECHANISMS}
    return {
        name: of_groups
        for name, of_groups in rows.items()
        if any(_shows(row, question) for row in of_groups)
    }


def _shows(row: Row | None, question: str | None) -> bool:
    """Whether a table of all mechanisms, or of those of one question, shows something by this row
    alone.
    """
    if row is None:
        return False
    return (
        row.original is None
        if question is None
        else row.question == question and not row.is_left_out
    )


def _mechanism_row(group: Group, scenario: str) -> Row | None:
    """Return the group's row of a scenario; of several, with other models, one that can be
    compared.
    """
    rows = group.named(scenario)
    comparable = (row for row in rows if row.main_saving and row.main_saving.percent)
    return next(comparable, rows[0] if rows else None)


def _verdicts(group: Group) -> Iterator[MechanismVerdict]:
    for name in MECHANISMS:
        row = _mechanism_row(group, name)
        verdict = verdict_of(row) if row and row.original is None else None
        if verdict:
            yield verdict


def _with_memories(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[str]:
    """Return the groups' labels with the memory that savings are of."""
    memories = [
        texts("memory_npu" if group.has_npu_memory else "memory_application") for group in groups
    ]
    return [
        texts("savings_of", group=name, memory=memory) for name, memory in zip(labels, memories)
    ]


def _verdict_in_words(row: Row, texts: Texts) -> str:
    """Return what was measured where it works, else the verdict: short, since many groups stand
    beside each other.
    """
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
    """Return why a mechanism does not work."""
    row = verdict.row
    saving = verdict.saving
    if saving:
        if saving.change == MORE:
            return texts("mechanism_takes_more", more=mib(-saving.saved, saving.is_npu))
        return texts("mechanism_takes_as_much", saved=mib(saving.saved, saving.is_npu))
    if row.measured and row.baseline:
        failure = _failure_in_words(row.baseline, texts)
        return texts(
            "mechanism_baseline_fails",
            baseline=texts.scenario(row.baseline.scenario),
            failure=failure,
        )
    return _failure_in_words(row, texts)


def _failure_in_words(row: Row, texts: Texts) -> str:
    failure = row.info.failure
    if failure is None:
        return texts("differs_from_baseline")
    message = texts.message(failure.message)
    if not row.supported:
        return message
    phase = phase_in_words(failure.phase, failure.context, texts)
    return texts(
        "mechanism_failure", outcome=texts(f"outcome_{row.outcome}"), phase=phase, message=message
    )


def sharing_table(group: Group, texts: Texts) -> Table | None:
    """Return each memory that contexts share; None if no plan shares any, or none has an
    account.
    """
    lines = []
    for row in group.rows:
        for shared in shared_memories(row):
            size = component_mib(shared.size)
            component = texts(f"component_{shared.component}")
            cells = [
                texts.scenario(row.scenario),
                component,
                size,
                str(shared.owner),
                ranges(shared.readers),
            ]
            lines.append((row.outcome, [*cells, _verified(shared, texts)]))
    heads = heads_of(
        (f"column_{name}" for name in ("scenario", "shared", "owner", "readers", "verified")), texts
    )
    heads.insert(2, texts("column_in_mib", name=texts("column_size")))
    return Table(heads, lines, words=(0, 1, 3, 4, 5)) if lines else None


def domains_table(group: Group, texts: Texts) -> Table | None:
    """Return how full each domain of the NPU's IOMMU was; None if no ledger tells."""
    lines = []
    for row in group.rows:
        for memory in domain_memories(row):
            sizes = [component_mib(memory.peak), component_mib(memory.left)]
            lines.append(
                (
                    row.outcome,
                    [
                        texts.scenario(row.scenario),
                        str(memory.domain),
                        *sizes,
                        ranges(memory.contexts),
                    ],
                )
            )
    heads = heads_of(
        (f"column_{name}" for name in ("scenario", "domain", "taken", "left", "domain_contexts")),
        texts,
    )
    for column in (2, 3):
        heads[column] = texts("column_in_mib", name=heads[column])
    return Table(heads, lines, words=(0, 1, 4)) if lines else None


def _verified(shared: SharedMemory, texts: Texts) -> str:
    if shared.seen is None:
        return texts("verified_unknown")
    readers = len(shared.readers)
    kind = {0: "verified_none", readers: "verified_all"}.get(shared.seen, "verified_some")
    return texts(kind, seen=shared.seen, readers=readers)
