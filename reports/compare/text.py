"""A comparison of two sides in words: for a terminal, a CI log, and as Markdown for its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from reports.base.units import amount, number, shown_unit
from reports.compare.changes import CONFIDENCE, DISTURBED, Change, Changes, Differing, Unmeasured
from reports.compare.difference import HIGHER, LOWER, NO_CHANGE, TOO_FEW
from reports.compare.gate import Judgement
from reports.compare.names import common_words, short_names
from storage.limits import Limit
from storage.metrics import Metric
from storage.runs import Configuration, Run

HEADS = ("configuration", "base", "head", "change", "interval", "%", "smallest", "verdict")
_NONE = "-"
#: How verdicts are counted.
_COUNTED = {
    HIGHER: "higher",
    LOWER: "lower",
    NO_CHANGE: "without a change that could be shown",
    TOO_FEW: "with too few repeats to tell",
    DISTURBED: "of speed on a busy machine, without a verdict",
}
#: Beyond so many, rows of a list are counted.
_MOST_LISTED = 20


def opening_lines(changes: Changes) -> list[str]:
    """Return what is compared with what."""
    lines = [f"base: {_side(changes.base)}", f"head: {_side(changes.head)}"]
    common = common_words([change.configuration for change in changes.rows])
    return lines + ([f"all: {common}"] if common else [])


def change_tables(changes: Changes) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return a table for each metric: its title, and its rows of cells as HEADS names them."""
    metrics = dict.fromkeys(change.metric for change in changes.rows)
    names = short_names([change.configuration for change in changes.rows])
    return [(f"{metric.name}, {shown_unit(metric)}", _rows(changes, metric, names)) for metric in metrics]


def cells(change: Change, name: str) -> tuple[str, ...]:
    """Return the row of a change."""
    metric, found = change.metric, change.difference
    interval, smallest = _NONE, _NONE
    if found.error is not None:
        low, high = (number(found.change + sign * found.error, metric, sign=True) for sign in (-1, 1))
        interval, smallest = f"{low} .. {high}", number(found.error, metric)
    return (
        name,
        f"{number(found.base_median, metric)} ({found.base_count})",
        f"{number(found.head_median, metric)} ({found.head_count})",
        number(found.change, metric, sign=True),
        interval,
        _NONE if found.percent is None else f"{found.percent:+.1f}",
        smallest,
        change.verdict,
    )


def remarks(changes: Changes) -> Iterator[str]:
    """Yield what must be known beside the tables: what they say, and what is not in them."""
    if changes.rows:
        yield (
            "base, head: median (repeats). change: of the means. interval: "
            f"{CONFIDENCE:.0%} for all {len(changes.rows)} rows together. smallest: the smallest change that these "
            "repeats could have shown."
        )
        yield _noise_remark(changes.rows)
    for each in changes.across:
        yield f"compared although they differ: {each.configuration}: {_conditions(each)}"
    yield from _listed([f"not compared: {each.configuration}: {_conditions(each)}" for each in changes.differing])
    if changes.differing:
        options = " ".join(f"--across {name}" for name in _conditions_that_differ(changes.differing))
        yield f"To compare them all the same: {options}"
    yield from _listed([_unmeasured(each) for each in changes.unmeasured])


def verdict_lines(changes: Changes, judgement: Judgement | None) -> Iterator[str]:
    """Yield what came of it: the changes that were seen, and what the limits make of them."""
    verdicts = Counter(change.verdict for change in changes.rows)
    counts = [f"{verdicts[verdict]} {said}" for verdict, said in _COUNTED.items() if verdicts[verdict]]
    yield f"{len(changes.rows)} compared: {', '.join(counts)}"
    if judgement is None:
        return
    for limit, change in judgement.broken:
        yield f"FAILED {limit.text}: {_sentence(limit, change)}"
    for lost in judgement.lost:
        yield f"FAILED {lost.configuration}: it was measured in the base, and here it is: {lost.head}"
    for limit, change in judgement.unsure:
        yield f"unsure {limit.text}: {_sentence(limit, change)}; {_remedy(change)}"
    broken = [limit for limit, _ in judgement.broken]
    for limit, held, blind in zip(judgement.limits, judgement.held, judgement.blind):
        if limit not in broken:
            yield _passed(limit, held, blind) if held else f"NOTHING to hold {limit.text} against"


def _side(runs: Sequence[Run]) -> str:
    """Return the runs' names, and the commit and date of the newest."""
    newest = max(runs, key=lambda run: run.recorded_at)
    names = ", ".join(map(str, runs[:3])) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
    commit = f", commit {newest.short_commit}" if newest.commit else ""
    return f"{names}, {newest.moment}{commit}, board {newest.board}"


def _rows(changes: Changes, metric: Metric, names: Mapping[Configuration, str]) -> list[tuple[str, ...]]:
    return [cells(change, names[change.configuration]) for change in changes.rows if change.metric == metric]


def _noise_remark(rows: Sequence[Change]) -> str:
    """Return where the noise is known from, which decides what can be shown."""
    runs = [change.difference.noise.runs for change in rows]
    if not any(runs):
        return (
            "The noise is known from these runs alone, with what is known of each figure in general: 5 earlier runs of "
            "the same configuration in the storage would show smaller changes."
        )
    alone = f"; in {runs.count(0)} rows from these runs alone" if 0 in runs else ""
    least, most = min(filter(None, runs)), max(runs)
    return f"The noise is known from {most if least == most else f'{least} to {most}'} earlier runs{alone}."


def _conditions(each: Differing) -> str:
    return "; ".join(
        f"{name} {base or 'unknown'} -> {head or 'unknown'}" for name, (base, head) in each.conditions.items()
    )


def _conditions_that_differ(differing: Sequence[Differing]) -> list[str]:
    return list(dict.fromkeys(name for each in differing for name in each.conditions))


def _unmeasured(each: Unmeasured) -> str:
    if each.base == "ok":
        return f"only in the base: {each.configuration}: " + (each.head or "not measured in the head")
    return f"only in the head: {each.configuration}: " + (f"{each.base} in the base" if each.base else "new")


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LISTED]
    if len(lines) > _MOST_LISTED:
        yield f"and {len(lines) - _MOST_LISTED} more like these"


def _passed(limit: Limit, held: int, blind: int) -> str:
    if not blind:
        return f"passed {limit.text}: {held} compared"
    return (
        f"passed {limit.text}: {held} compared; in {blind} of them a change as large as the limit could not have been "
        "told from noise: more repeats (--repeats) or earlier runs would tell it"
    )


def _sentence(limit: Limit, change: Change) -> str:
    found, metric = change.difference, change.metric
    error = "" if found.error is None else f" ±{number(found.error, metric)}"
    share = "" if found.percent is None else f" ({found.percent:+.1f} %)"
    return (
        f"{change.configuration}: {number(found.base_median, metric)} -> {amount(found.head_median, metric)}, "
        f"{number(found.change, metric, sign=True)}{error} {shown_unit(metric)}{share}; "
        f"allowed {amount(limit.allowed(found.base_mean), metric)}"
    )


def _remedy(change: Change) -> str:
    if change.is_disturbed:
        return "the machine was busy with other work: measure again"
    if change.difference.error is None:
        return "one repeat shows no spread: measure with --repeats 3 or more"
    return "too little to be told from noise: more repeats (--repeats), or more runs in the base, would tell"
