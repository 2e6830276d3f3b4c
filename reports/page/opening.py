"""The answer that opens the page: what saves most, why it is less than promised, and what it costs in speed."""

from __future__ import annotations

from collections.abc import Sequence

from reports.base.formatting import percent
from reports.base.texts import Texts
from reports.explanation.explanation import explain
from reports.results.rows import Group
from reports.results.savings import best_percent
from reports.sections.leaks import opening_leaks
from reports.sections.limit import opening_limit
from reports.sections.speed import speed_comparisons
from reports.streams.text import growing_parts, opening_part
from scenarios.catalogue import LIMIT

#: The scenario whose promise everybody repeats.
_PROMISED = "full_dup"


def opening(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[str]:
    """Return six sentences over all groups, so labelled, and one about the leaks of each.

    There are fewer where nothing was measured that they could be of.
    """
    labelled = list(zip(groups, labels))
    streams = [part for group, label in labelled if (part := opening_part(group, label, texts))]
    limits = [
        part for group, label in labelled if (part := opening_limit(group.questions.get(LIMIT, []), label, texts))
    ]
    growing = [part for group, label in labelled for part in growing_parts(group, label, texts)]
    sentences = [
        _best_savings(labelled, texts),
        _promise(labelled, texts),
        _cost(labelled, texts),
        texts("opening_streams", parts=texts.joined(streams)) if streams else None,
        texts("opening_growing", parts=texts.joined(growing)) if growing else None,
        *(opening_leaks(group, label, texts) for group, label in labelled),
        texts("opening_limit", parts=texts.joined(limits)) if limits else None,
    ]
    return [sentence for sentence in sentences if sentence]


def _best_savings(labelled: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    parts = []
    for group, label in labelled:
        # Of streams there is another sentence.
        rows = [row for row in group.rows if row.is_compared]
        best = max(rows, key=lambda row: best_percent(row.main_saving), default=None)
        saving = best.main_saving if best else None
        if best and saving and best_percent(saving):
            memory = texts("opening_memory_npu" if saving.is_npu else "opening_memory_application")
            values = {"scenario": texts.scenario(best.scenario), "percent": percent(saving.percent), "memory": memory}
            parts.append(texts("opening_most_of", group=label, **values))
    return texts("opening_most", parts=texts.joined(parts)) if parts else None


def _promise(labelled: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    """Return where the promise is not kept; that it is, only where it is kept everywhere."""
    kept: dict[bool, list[str]] = {False: [], True: []}
    for group, label in labelled:
        row = next((row for row in group.rows if row.scenario == _PROMISED and row.main_saving), None)
        explanation = explain(row) if row else None
        saved = row.main_saving.percent if row and row.main_saving else None
        if saved and explanation and explanation.naive_percent is not None:
            promised, measured = percent(explanation.naive_percent), percent(saved)
            part = texts("opening_promise_of", group=label, promised=promised, measured=measured)
            kept[explanation.claim_is_reached].append(part)
    if kept[False]:
        return texts("opening_promise", parts=texts.joined(kept[False]))
    return texts("opening_promise_kept", parts=texts.joined(kept[True])) if kept[True] else None


def _cost(labelled: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    computing = [(group, label) for group, label in labelled if group.computes]
    if not computing:
        return texts("opening_no_speed")
    comparisons = [one for group, _ in computing for one in speed_comparisons(group)]
    if not comparisons and any(not row.is_compared for group, _ in computing for row in group.rows):
        # Of streams there is another sentence, and cycles have no speed.
        return None
    if all(one.row.is_disturbed for one in comparisons):
        return texts("opening_disturbed")
    parts = []
    for group, label in computing:
        costing = [one.row.scenario for one in speed_comparisons(group) if one.saves and one.costs_frames]
        if costing:
            parts.append(texts("opening_slower_of", group=label, scenarios=texts.scenarios(costing)))
    return texts("opening_slower", parts=texts.joined(parts)) if parts else texts("opening_as_fast")
