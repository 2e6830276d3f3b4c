"""The answer that opens the page: what saves most, why it is less than promised, and what it costs in speed."""

from __future__ import annotations

from collections.abc import Sequence

from reports.base.formatting import percent
from reports.base.texts import Texts
from reports.explanation.explanation import explain
from reports.results.rows import Group, Row
from reports.sections.speed import Weighed, weighed
from reports.streams.text import growing_parts, opening_part

#: The scenario whose promise everybody repeats.
_PROMISED = "full_dup"


def opening(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[str]:
    """Return five sentences over all groups; fewer where nothing was measured that they could be of."""
    named = list(zip(groups, labels))
    sentences = (_most, _promise, _cost, _streams, _growing)
    said = (sentence(named, texts) for sentence in sentences)
    return [sentence for sentence in said if sentence]


def _most(named: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    best = {label: _best(group) for group, label in named}
    parts = [
        texts(
            "opening_most_of",
            group=label,
            scenario=texts.scenario(row.scenario),
            percent=percent(row.saving_percent.median),
            memory=texts("opening_memory_application" if row.npu_saved is None else "opening_memory_npu"),
        )
        for label, row in best.items()
        if row and row.saving_percent
    ]
    return texts("opening_most", parts=texts.joined(parts)) if parts else None


def _best(group: Group) -> Row | None:
    """Return the row that measurably saves the largest share; of streams there is another sentence."""
    single = (row for row in group.rows if row.schedule is None)
    saving = [row for row in single if (share := row.saving_percent) and share.median > 0 and share.exceeds_spread]
    return max(saving, key=_share, default=None)


def _share(row: Row) -> float:
    return row.saving_percent.median if row.saving_percent else 0.0


def _promise(named: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    """Return where the promise is not kept; that it is, only where it is kept everywhere."""
    kept: dict[bool, list[str]] = {False: [], True: []}
    for group, label in named:
        row = next((row for row in group.rows if row.scenario == _PROMISED and row.saving_percent), None)
        explained = explain(row) if row else None
        if row and row.saving_percent and explained and explained.naive_percent is not None:
            promised, measured = percent(explained.naive_percent), percent(row.saving_percent.median)
            part = texts("opening_promise_of", group=label, promised=promised, measured=measured)
            kept[explained.claim_is_reached].append(part)
    if kept[False]:
        return texts("opening_promise", parts=texts.joined(kept[False]))
    return texts("opening_promise_kept", parts=texts.joined(kept[True])) if kept[True] else None


def _cost(named: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    computing = [(group, label) for group, label in named if group.computes]
    if not computing:
        return texts("opening_no_speed")
    found = [each for group, _ in computing for each in weighed(group)]
    if not found and any(row.schedule for group, _ in computing for row in group.rows):
        # Of streams there is another sentence.
        return None
    if all(each.row.is_disturbed for each in found):
        return texts("opening_disturbed")
    costing = {
        label: [each for each in weighed(group) if each.saves and each.costs_frames] for group, label in computing
    }
    parts = [
        texts("opening_slower_of", group=label, scenarios=_named(found, texts))
        for label, found in costing.items()
        if found
    ]
    return texts("opening_slower", parts=texts.joined(parts)) if parts else texts("opening_as_fast")


def _streams(named: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    """Return how many frames were sustained, and what is saved beside them."""
    parts = [said for group, label in named if (said := opening_part(group, label, texts))]
    return texts("opening_streams", parts=texts.joined(parts)) if parts else None


def _growing(named: Sequence[tuple[Group, str]], texts: Texts) -> str | None:
    """Return the memory that streams left growing; nothing where it did not, or where that cannot be said."""
    parts = [part for group, label in named for part in growing_parts(group, label, texts)]
    return texts("opening_growing", parts=texts.joined(parts)) if parts else None


def _named(found: Sequence[Weighed], texts: Texts) -> str:
    names = (texts.scenario(each.row.scenario) for each in found)
    return texts("opening_and").join(names)
