"""The output of a comparison: text for a terminal or CI log, Markdown for its summary, records."""

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

#: Heads of each table.
_HEADS = ("configuration", "base", "head", "change", "interval", "%", "smallest", "verdict")
#: Columns of numbers, which are aligned to the right.
_NUMBERS = range(1, len(_HEADS) - 1)
#: Description of a verdict after the number of its rows.
_COUNTED = {
    HIGHER: "higher",
    LOWER: "lower",
    NO_CHANGE: "without a change that could be shown",
    TOO_FEW: "with too few repeats to tell",
    DISTURBED: "of speed on a busy machine, without a verdict",
    SHORT: "measured while memory was short, without a verdict",
}
#: Limit of the lines of a list; the others are counted.
_MOST_LISTED = 20
#: Columns of the records; new ones come at the end.
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
    """Return the comparison for a terminal; long rows are not wrapped."""
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
    """Return the runs of both sides, the rows, and configurations that were not compared."""
    not_compared = []
    for differing in changes.differing:
        not_compared.append(
            {"configuration": str(differing.configuration), "differs": differing.conditions}
        )
    on_one_side = []
    for unmeasured in changes.unmeasured:
        on_one_side.append(
            {
                "configuration": str(unmeasured.configuration),
                "base": unmeasured.base,
                "head": unmeasured.head,
            }
        )
    document = {
        "base": [str(run) for run in changes.base],
        "head": [str(run) for run in changes.head],
        "changes": [_record(change) for change in changes.rows],
        "not_compared": not_compared,
        "on_one_side": on_one_side,
    }
    return json.dumps(document, ensure_ascii=False, indent=1)


def _opening_lines(changes: Changes) -> list[str]:
    """Return the lines that name the two sides."""
    lines = [f"base: {_side(changes.base)}", f"head: {_side(changes.head)}"]
    common = common_words([change.configuration for change in changes.rows])
    if common:
        lines.append(f"all: {common}")
    return lines


def _side(runs: Sequence[Run]) -> str:
    """Return the names of the runs, and date, commit and board of the newest."""
    newest = max(runs, key=lambda run: run.order)
    words = ", ".join(map(str, runs[:3]))
    if len(runs) > 3:
        words += f" and {len(runs) - 3} more"
    words += f", {newest.moment}"
    if newest.commit:
        words += f", commit {newest.short_commit}"
    return f"{words}, board {newest.board}"


def _tables(changes: Changes) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield a table for each metric: its title, and rows of cells in the order of _HEADS."""
    names = short_names([change.configuration for change in changes.rows])
    for metric in dict.fromkeys(change.metric for change in changes.rows):
        rows = []
        for change in changes.rows:
            if change.metric == metric:
                rows.append([names[change.configuration], *_cells(change)])
        yield f"{metric.name}, {metric_unit(metric)}", rows


def _cells(change: Change) -> list[str]:
    """Return the cells after the configuration."""
    metric = change.metric
    difference = change.difference
    interval = EMPTY
    smallest = EMPTY
    if difference.error is not None:
        low = metric_number(difference.change - difference.error, metric, sign=True)
        high = metric_number(difference.change + difference.error, metric, sign=True)
        interval = f"{low} .. {high}"
        smallest = metric_number(difference.error, metric)
    return [
        f"{metric_number(difference.base_median, metric)} ({difference.base_count})",
        f"{metric_number(difference.head_median, metric)} ({difference.head_count})",
        metric_number(difference.change, metric, sign=True),
        interval,
        EMPTY if difference.percent is None else f"{difference.percent:+.1f}",
        smallest,
        change.verdict,
    ]


def _remarks(changes: Changes) -> Iterator[str]:
    """Yield the meaning of the tables, and the configurations that are not in them."""
    if changes.rows:
        yield (
            f"base, head: median (repeats). change: of the means. interval: {CONFIDENCE:.0%} for"
            f" all {len(changes.rows)} rows together. smallest: the smallest change that these"
            " repeats could have shown."
        )
        yield _noise_remark(changes.rows)

    short = []
    for configuration, signs in changes.short.items():
        evidence = "; ".join(map(str, signs))
        short.append(
            f"memory was short, so that figures are too small: {configuration}: {evidence}"
        )
    yield from _listed(short)

    if changes.recounted:
        yield (
            "not compared: application memory of"
            f" {', '.join(map(str, changes.recounted[:3]))}"
            f"{' and others' if len(changes.recounted) > 3 else ''}: one side counts pages, the"
            " other PSS, which depends on other processes. `--metric application_pss` compares the"
            " PSS of both"
        )
    for allowed in changes.across:
        yield f"compared although they differ: {allowed.configuration}: {_conditions(allowed)}"

    refused = []
    options: dict[str, None] = {}
    for differing in changes.differing:
        refused.append(f"not compared: {differing.configuration}: {_conditions(differing)}")
        options.update((f"--across {name}", None) for name in differing.conditions)
    yield from _listed(refused)
    if options:
        yield f"To compare them all the same: {' '.join(options)}"

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
    """Return the sentence on the source of the noise, which limits the changes to be seen."""
    runs = [change.difference.noise.runs for change in rows]
    if not any(runs):
        return (
            "The noise is known from these runs alone, with what is known of each figure in"
            " general: 5 earlier runs of the same configuration in the storage would show smaller"
            " changes."
        )
    least = min(filter(None, runs))
    most = max(runs)
    count = str(most) if least == most else f"{least} to {most}"
    alone = f"; in {runs.count(0)} rows from these runs alone" if 0 in runs else ""
    return f"The noise is known from {count} earlier runs{alone}."


def _conditions(differing: Differing) -> str:
    changes = []
    for name, (base, head) in differing.conditions.items():
        changes.append(f"{name} {base or 'unknown'} -> {head or 'unknown'}")
    return "; ".join(changes)


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LISTED]
    if len(lines) > _MOST_LISTED:
        yield f"and {len(lines) - _MOST_LISTED} more like these"


def _verdict_lines(changes: Changes, result: GateResult | None) -> Iterator[str]:
    """Yield the counts of the verdicts, and the result of the gate."""
    verdicts = Counter(change.verdict for change in changes.rows)
    counts = [
        f"{verdicts[verdict]} {words}" for verdict, words in _COUNTED.items() if verdicts[verdict]
    ]
    yield f"{len(changes.rows)} compared: {', '.join(counts)}"
    if result is not None:
        yield from _gate_lines(result)


def _gate_lines(result: GateResult) -> Iterator[str]:
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

    reported = [limit for limit, _ in (*result.broken, *result.short)]
    for limit, held, blind in zip(result.limits, result.held, result.blind):
        if limit in reported:
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
