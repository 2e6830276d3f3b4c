"""A comparison as text, for a terminal or a CI log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from reusebench.reports.base.formatting import EMPTY, metric_level, metric_number, metric_unit
from reusebench.reports.compare.changes import DISTURBED, SHORT, Change, Changes
from reusebench.reports.compare.difference import HIGHER, LOWER, NO_CHANGE, TOO_FEW
from reusebench.reports.compare.gate import GateResult
from reusebench.reports.compare.gate_words import gate_lines
from reusebench.reports.compare.large import changed_rows, is_large, row_names
from reusebench.reports.compare.names import common_words
from reusebench.reports.compare.sides import remarks, side

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


def as_text(changes: Changes, result: GateResult | None, shows_all: bool = False) -> str:
    """Return the comparison for a terminal; long rows are not wrapped.

    Rows without a change are left out of a large one, unless `shows_all`.
    """
    lines = _opening_lines(changes)
    shown = changes.rows if shows_all or not is_large(changes) else changed_rows(changes)
    alignment = ["right" if index in _NUMBERS else "left" for index in range(len(_HEADS))]
    for title, rows in _tables(changes, shown):
        table = tabulate(rows, _HEADS, tablefmt="plain", disable_numparse=True, colalign=alignment)
        lines += ["", title, table]
    hint = "" if len(shown) == len(changes.rows) else "; --all shows every row"
    lines += ["", *remarks(changes), "", f"{counts(changes)}{hint}"]
    if result is not None:
        lines += gate_lines(result)
    return "\n".join(lines)


def counts(changes: Changes) -> str:
    """Return the number of rows with each verdict."""
    if not changes.rows:
        return "nothing compared"
    verdicts = Counter(change.verdict for change in changes.rows)
    parts = [
        f"{verdicts[verdict]} {words}" for verdict, words in _COUNTED.items() if verdicts[verdict]
    ]
    return f"{len(changes.rows)} compared: {', '.join(parts)}"


def _opening_lines(changes: Changes) -> list[str]:
    """Return the lines that name the two sides."""
    lines = [f"base: {side(changes.base)}", f"head: {side(changes.head)}"]
    if changes.remark:
        lines.append(changes.remark)
    common = common_words([change.subject.configuration for change in changes.rows])
    if common:
        lines.append(f"all: {common}")
    return lines


def _tables(changes: Changes, shown: Sequence[Change]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield a table for each metric: its title, and rows of cells in the order of _HEADS."""
    names = row_names(changes)
    for metric in dict.fromkeys(change.metric for change in changes.rows):
        rows = []
        for change in shown:
            if change.metric == metric:
                rows.append([names[change.subject], *_cells(change)])
        if rows:
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
        f"{metric_level(difference.base_median, metric)} ({difference.base_count})",
        f"{metric_level(difference.head_median, metric)} ({difference.head_count})",
        metric_number(difference.change, metric, sign=True),
        interval,
        EMPTY if difference.percent is None else f"{difference.percent:+.1f}",
        smallest,
        change.verdict,
    ]
