"""A comparison of two sides in words: for a terminal, a CI log, and as Markdown for its summary;
and as records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from reusebench.reports.base.formatting import EMPTY, metric_amount, metric_number, metric_unit
from reusebench.reports.base.table import csv, markdown
from reusebench.reports.compare.changes import (
    CONFIDENCE,
    DISTURBED,
    SHORT,
    Change,
    Changes,
    Differing,
)
from reusebench.reports.compare.difference import HIGHER, LOWER, NO_CHANGE, TOO_FEW
from reusebench.reports.compare.gate import GateResult
from reusebench.reports.compare.names import common_words, short_names
from reusebench.storage.limits import GateLimit
from reusebench.storage.runs import Run

#: Of each table; numbers are to the right, what they are of and the verdict to the left.
_HEADS = ("configuration", "base", "head", "change", "interval", "%", "smallest", "verdict")
_NUMBERS = range(1, len(_HEADS) - 1)
#: How verdicts are counted.
_COUNTED = {
    HIGHER: "higher",
    LOWER: "lower",
    NO_CHANGE: "without a change that could be shown",
    TOO_FEW: "with too few repeats to tell",
    DISTURBED: "of speed on a busy machine, without a verdict",
    SHORT: "measured while memory was short, without a verdict",
}
#: Beyond so many, rows of a list are counted.
_MOST_LISTED = 20
#: Of the records; new ones come at the end.
COMPARISON_COLUMNS = (
    "runtime",
    "target",
    "name",
    "detail",
    "models",
    "metric",
    "unit",
    "base_median",
    "base_repeats",
    "head_median",
    "head_repeats",
    "change",
    "change_low",
    "change_high",
    "change_percent",
    "smallest_change",
    "verdict",
    "noise_runs",
)


def as_text(changes: Changes, result: GateResult | None) -> str:
    """Return the comparison for a terminal; rows are as long as they must be, however narrow it
    is.
    """
    lines = _opening_lines(changes)
    alignment = ["right" if index in _NUMBERS else "left" for index in range(len(_HEADS))]
    for title, rows in _tables(changes):
        table = tabulate(rows, _HEADS, tablefmt="plain", disable_numparse=True, colalign=alignment)
        lines += ["", title, table]
    return "\n".join([*lines, "", *_remarks(changes), "", *_verdict_lines(changes, result)])


def as_markdown(changes: Changes, result: GateResult | None) -> str:
    """Return the comparison for the summary of a CI job: the verdict first."""
    lines = [f"- {line}" for line in (*_verdict_lines(changes, result), *_opening_lines(changes))]
    for title, rows in _tables(changes):
        lines += ["", f"**{title}**", "", markdown(_HEADS, rows, _NUMBERS).rstrip()]
    return "\n".join([*lines, "", *(f"- {line}" for line in _remarks(changes))])


def as_csv(changes: Changes) -> str:
    """Return the rows as CSV in COMPARISON_COLUMNS."""
    return csv(COMPARISON_COLUMNS, map(_record, changes.rows)).rstrip("\n")


def as_json(changes: Changes) -> str:
    """Return both sides' runs, the rows, and what was not compared and why."""
    document = {
        "base": [str(run) for run in changes.base],
        "head": [str(run) for run in changes.head],
        "changes": [_record(change) for change in changes.rows],
        "not_compared": [
            {"configuration": str(one.configuration), "differs": one.conditions}
            for one in changes.differing
        ],
        "on_one_side": [
            {"configuration": str(one.configuration), "base": one.base, "head": one.head}
            for one in changes.unmeasured
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=1)


def _opening_lines(changes: Changes) -> list[str]:
    """Return what is compared with what."""
    lines = [f"base: {_side(changes.base)}", f"head: {_side(changes.head)}"]
    common = common_words([change.configuration for change in changes.rows])
    return lines + ([f"all: {common}"] if common else [])


def _side(runs: Sequence[Run]) -> str:
    """Return the runs' names, and the commit and date of the newest."""
    newest = max(runs, key=lambda run: run.order)
    names = ", ".join(map(str, runs[:3])) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
    commit = f", commit {newest.short_commit}" if newest.commit else ""
    return f"{names}, {newest.moment}{commit}, board {newest.board}"


def _tables(changes: Changes) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield a table for each metric: its title, and its rows of cells as _HEADS names them."""
    names = short_names([change.configuration for change in changes.rows])
    for metric in dict.fromkeys(change.metric for change in changes.rows):
        rows = []
        for change in changes.rows:
            if change.metric != metric:
                continue
            difference = change.difference
            interval = EMPTY
            smallest = EMPTY
            if difference.error is not None:
                ends = (difference.change - difference.error, difference.change + difference.error)
                interval = " .. ".join(metric_number(end, metric, sign=True) for end in ends)
                smallest = metric_number(difference.error, metric)
            cells = [
                names[change.configuration],
                f"{metric_number(difference.base_median, metric)} ({difference.base_count})",
                f"{metric_number(difference.head_median, metric)} ({difference.head_count})",
                metric_number(difference.change, metric, sign=True),
                interval,
                EMPTY if difference.percent is None else f"{difference.percent:+.1f}",
                smallest,
                change.verdict,
            ]
            rows.append(cells)
        yield f"{metric.name}, {metric_unit(metric)}", rows


def _remarks(changes: Changes) -> Iterator[str]:
    """Yield what must be known beside the tables: what they say, and what is not in them."""
    if changes.rows:
        yield (
            f"base, head: median (repeats). change: of the means. interval: {CONFIDENCE:.0%} for"
            f" all {len(changes.rows)} rows together. smallest: the smallest change that these"
            " repeats could have shown."
        )
        yield _noise_remark(changes.rows)
    yield from _listed(
        [
            f"memory was short, so that figures are too small: {configuration}:"
            f" {'; '.join(map(str, signs))}"
            for configuration, signs in changes.short.items()
        ]
    )
    for one in changes.across:
        yield f"compared although they differ: {one.configuration}: {_conditions(one)}"
    yield from _listed(
        [f"not compared: {one.configuration}: {_conditions(one)}" for one in changes.differing]
    )
    if changes.differing:
        names = dict.fromkeys(name for one in changes.differing for name in one.conditions)
        yield f"To compare them all the same: {' '.join(f'--across {name}' for name in names)}"
    lines = []
    for unmeasured in changes.unmeasured:
        if unmeasured.base == "ok":
            lines.append(
                f"only in the base: {unmeasured.configuration}:"
                f" {unmeasured.head or 'not measured in the head'}"
            )
        else:
            before = f"{unmeasured.base} in the base" if unmeasured.base else "new"
            lines.append(f"only in the head: {unmeasured.configuration}: {before}")
    yield from _listed(lines)


def _noise_remark(rows: Sequence[Change]) -> str:
    """Return where the noise is known from, which decides what can be shown."""
    runs = [change.difference.noise.runs for change in rows]
    if not any(runs):
        return (
            "The noise is known from these runs alone, with what is known of each figure in"
            " general: 5 earlier runs of the same configuration in the storage would show smaller"
            " changes."
        )
    alone = f"; in {runs.count(0)} rows from these runs alone" if 0 in runs else ""
    least = min(filter(None, runs))
    most = max(runs)
    return (
        f"The noise is known from {most if least == most else f'{least} to {most}'} earlier"
        f" runs{alone}."
    )


def _conditions(differing: Differing) -> str:
    pairs = differing.conditions.items()
    return "; ".join(
        f"{name} {base or 'unknown'} -> {head or 'unknown'}" for name, (base, head) in pairs
    )


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LISTED]
    if len(lines) > _MOST_LISTED:
        yield f"and {len(lines) - _MOST_LISTED} more like these"


def _verdict_lines(changes: Changes, result: GateResult | None) -> Iterator[str]:
    """Yield what came of it: the changes that were seen, and what the limits make of them."""
    verdicts = Counter(change.verdict for change in changes.rows)
    counts = [
        f"{verdicts[verdict]} {words}" for verdict, words in _COUNTED.items() if verdicts[verdict]
    ]
    yield f"{len(changes.rows)} compared: {', '.join(counts)}"
    if result is None:
        return
    for limit, change in result.broken:
        yield f"FAILED {limit.text}: {_against_limit(limit, change)}"
    for lost in result.lost:
        yield (
            f"FAILED {lost.configuration}: it was measured in the base, and here it is: {lost.head}"
        )
    for limit, change in result.short:
        yield (
            f"NOT HELD {limit.text}: {_against_limit(limit, change)}; memory was short while it was"
            " measured: free memory, or measure fewer contexts, and measure again"
        )
    for limit, change in result.unsure:
        yield f"unsure {limit.text}: {_against_limit(limit, change)}; {_remedy(change)}"
    told = [limit for limit, _ in (*result.broken, *result.short)]
    for limit, held, blind in zip(result.limits, result.held, result.blind):
        if limit in told:
            continue
        if not held:
            yield f"NOTHING to hold {limit.text} against"
        elif not blind:
            yield f"passed {limit.text}: {held} compared"
        else:
            yield (
                f"passed {limit.text}: {held} compared; in {blind} of them a change as large as the"
                " limit could not have been distinguished from noise: more repeats (--repeats) or"
                " earlier runs would show it"
            )


def _against_limit(limit: GateLimit, change: Change) -> str:
    difference = change.difference
    metric = change.metric
    error = "" if difference.error is None else f" ±{metric_number(difference.error, metric)}"
    share = "" if difference.percent is None else f" ({difference.percent:+.1f} %)"
    return (
        f"{change.configuration}: {metric_number(difference.base_median, metric)} ->"
        f" {metric_amount(difference.head_median, metric)},"
        f" {metric_number(difference.change, metric, sign=True)}{error}"
        f" {metric_unit(metric)}{share}; allowed"
        f" {metric_amount(limit.allowed(difference.base_mean), metric)}"
    )


def _remedy(change: Change) -> str:
    if change.is_disturbed:
        return "the machine was busy with other work: measure again"
    if change.difference.error is None:
        return "one repeat shows no spread: measure with --repeats 3 or more"
    return (
        "too small to be distinguished from noise: more repeats (--repeats), or more runs in the"
        " base, would show it"
    )


def _record(change: Change) -> dict[str, Any]:
    configuration = change.configuration
    difference = change.difference
    error = difference.error
    return {
        "runtime": configuration.runtime,
        "target": configuration.target,
        "name": configuration.name,
        "detail": configuration.detail,
        "models": " ".join(configuration.models),
        "metric": change.metric.name,
        "unit": change.metric.unit,
        "base_median": difference.base_median,
        "base_repeats": difference.base_count,
        "head_median": difference.head_median,
        "head_repeats": difference.head_count,
        "change": difference.change,
        "change_low": None if error is None else difference.change - error,
        "change_high": None if error is None else difference.change + error,
        "change_percent": difference.percent,
        "smallest_change": error,
        "verdict": change.verdict,
        "noise_runs": difference.noise.runs,
    }
