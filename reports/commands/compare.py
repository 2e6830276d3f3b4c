"""`python -m reports compare BASE HEAD`: what has changed between two runs, and whether it is more than allowed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from reports.commands.known_runs import KnownRuns, add_run_options
from reports.compare.changes import Changes, compare_runs
from reports.compare.gate import Judgement, judge
from reports.compare.records import as_csv, as_json
from reports.compare.text import HEADS, change_tables, opening_lines, remarks, verdict_lines
from reports.errors import ReportError
from storage.limits import Limit, parse_limit
from storage.metrics import METRICS, find_metric
from storage.runs import CONDITIONS

__all__ = ["prepare_parser", "run"]

#: Compared where no option names others: what users ask for first, and the finest figure of memory there is.
_DEFAULT = (
    "application_memory",
    "application_memory_trimmed_over_baseline",
    "application_peak_rss",
    "npu_memory",
    "latency",
    "throughput",
)
#: A table is as wide as its rows, however narrow the terminal is: no figure is cut.
_WIDEST = 1000


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add(
        "base", metavar="BASE", help="run or runs to compare with: a file, a number, a name, `latest~1`, a git revision"
    )
    add("head", metavar="HEAD", nargs="?", default="latest", help="run or runs to judge; default: latest")
    add_run_options(parser)
    add(
        "--metric",
        type=find_metric,
        action="append",
        metavar="METRIC",
        help=f"compare this figure, repeatable; default: {', '.join(_DEFAULT)}, or those of --fail. "
        f"Valid: {', '.join(metric.name for metric in METRICS)}",
    )
    add(
        "--fail",
        type=parse_limit,
        action="append",
        metavar="LIMIT",
        help="exit with 1 where a figure got worse by more, and it is no noise; repeatable: METRIC:PERCENT%%+AMOUNT, "
        "such as application_memory:2%%+512KiB or npu_memory:0",
    )
    add(
        "--across",
        action="append",
        choices=CONDITIONS,
        help="compare configurations although this differs, repeatable; what differs is said",
    )
    add("--format", choices=tuple(_WRITERS), default="text", help="of what is printed; default: text")


def run(options: argparse.Namespace) -> int:
    """Print the comparison; exit code 1 where a limit is broken, 2 where a limit could be held against nothing."""
    runs = KnownRuns.of(options)
    head = runs.find(options.head)
    # The name of a baseline may be that of the head too.
    base = [run for run in runs.find(options.base) if run.path.resolve() not in {each.path.resolve() for each in head}]
    if not base:
        raise ReportError(f"{options.base} and {options.head} are the same run. Name another one to compare with")
    limits: Sequence[Limit] = options.fail or ()
    metrics = options.metric or [limit.metric for limit in limits] or [find_metric(name) for name in _DEFAULT]
    known = {run.path.resolve(): run for run in (*runs.runs, *base)}.values()
    changes = compare_runs(base, head, known, list(dict.fromkeys(metrics)), options.across or ())
    judgement = judge(changes, limits) if limits else None
    _WRITERS[options.format](changes, judgement)
    if not changes.rows:
        raise ReportError(
            f"nothing of {options.head} can be compared with {options.base}: no configuration was measured in both "
            "with any of these metrics under the same conditions. The lines above say what differs; choose "
            "others with --across or --metric"
        )
    if judgement is None:
        return 0
    if not judgement.passed:
        return 1
    return 2 if judgement.is_empty or changes.differing else 0


def _print_text(changes: Changes, judgement: Judgement | None) -> None:
    console = Console(width=_WIDEST, highlight=False)
    for line in opening_lines(changes):
        console.print(line, markup=False, soft_wrap=True)
    for title, rows in change_tables(changes):
        table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        for head in HEADS:
            table.add_column(head, justify="left" if head in (HEADS[0], HEADS[-1]) else "right", no_wrap=True)
        for cells in rows:
            table.add_row(*cells)
        console.print()
        console.print(table)
    console.print()
    for line in (*remarks(changes), "", *verdict_lines(changes, judgement)):
        console.print(line, markup=False, soft_wrap=True)


def _print_markdown(changes: Changes, judgement: Judgement | None) -> None:
    lines = [f"- {line}" for line in (*verdict_lines(changes, judgement), *opening_lines(changes))]
    for title, rows in change_tables(changes):
        lines += ["", f"**{title}**", "", _line(HEADS), _line(["---", *["---:"] * (len(HEADS) - 2), "---"])]
        lines += map(_line, rows)
    print("\n".join([*lines, "", *(f"- {line}" for line in remarks(changes))]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _print_csv(changes: Changes, _: Judgement | None) -> None:
    print(as_csv(changes), end="")


def _print_json(changes: Changes, _: Judgement | None) -> None:
    print(as_json(changes), end="")


_WRITERS: dict[str, Callable[[Changes, Judgement | None], None]] = {
    "text": _print_text,
    "md": _print_markdown,
    "csv": _print_csv,
    "json": _print_json,
}
