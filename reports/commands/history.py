"""`python -m reports history`: where each figure of each configuration changed, over all stored runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from reports.commands.known_runs import KnownRuns
from reports.commands.options import add_language, add_output, add_storage
from reports.errors import ReportError, cannot_write
from reports.history.change_points import LEAST_RUNS
from reports.history.levels import HISTORY_METRICS, Change, History, changes_of, histories_of
from reports.history.page import write_history
from reports.history.table import CHANGE_POINTS, HISTORY, change_point_rows, history_rows
from reports.history.text import confidence, event, percent, place, size
from reports.page.exported_tables import TABLE_FORMATS, frame_of, write_table
from reports.page.page import PAGE as INDEX
from storage.board import board_storage
from storage.metrics import METRICS, find_metric
from storage.run_file import BadFile
from storage.runs import Run

__all__ = ["prepare_parser", "run"]

_PAGE = "html"
_FORMATS = (_PAGE, *TABLE_FORMATS)


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add_storage(parser)
    add(
        "--metric",
        type=find_metric,
        action="append",
        metavar="METRIC",
        help=f"this figure alone, repeatable; default: {', '.join(HISTORY_METRICS)}. "
        f"Valid: {', '.join(metric.name for metric in METRICS)}",
    )
    add("--only", action="append", metavar="NAME", help="this scenario or program alone, repeatable")
    add_output(parser)
    add_language(parser)
    add(
        "--format",
        action="append",
        choices=_FORMATS,
        help=f"what is written, repeatable: a page, or tables of change points and of runs; default: {_PAGE}",
    )


def run(options: argparse.Namespace) -> int:
    """Print the change points and write the page; exit code 1 where a stored file could not be read."""
    known = KnownRuns.read(options.storage or [board_storage()])
    metrics = list(dict.fromkeys(options.metric or map(find_metric, HISTORY_METRICS)))
    histories = histories_of(_only(known.runs, options.only), metrics)
    if not histories:
        names = sorted({measured.configuration.name for run in known.runs for measured in run.measured})
        stored = ", ".join(names) or "none: run `pytest bench/` first, or name another storage with --storage DIR"
        only = f" of {', '.join(options.only)}" if options.only else ""
        raise ReportError(
            f"no run has figures of {', '.join(metric.name for metric in metrics)}{only}. Name others with --metric "
            f"NAME or --only NAME; stored are: {stored}"
        )
    for line in _lines(histories):
        print(line)
    for path in _write(histories, known.bad_files, options):
        print(f"History: {path}")
    return 1 if known.bad_files else 0


def _only(runs: Sequence[Run], names: Sequence[str] | None) -> list[Run]:
    """Return the runs with the configurations of these names alone; all of them where none are named."""
    if not names:
        return list(runs)
    return [
        replace(run, measured=tuple(each for each in run.measured if each.configuration.name in names)) for run in runs
    ]


def _lines(histories: Sequence[History]) -> Iterator[str]:
    """Yield the change points, the newest first, and how many series there are beside them."""
    changes = changes_of(histories)
    boards = {history.series.board for history in histories}
    for change in changes:
        yield _line(change, f"{change.series.board}, " if len(boards) > 1 else "")
    changed = sum(bool(history.changes) for history in histories)
    short = sum(len(history.series.undisturbed) < LEAST_RUNS for history in histories)
    few = f", of them with fewer than {LEAST_RUNS} runs to judge by: {short}" if short else ""
    yield f"change points: {len(changes)}, in {changed} series; series without any: {len(histories) - changed}{few}"


def _line(change: Change, where: str) -> str:
    before, after = (f"{place(run)} ({run.moment})" for run in (change.before.run, change.after.run))
    events = "".join(f"; {event(each)}" for each in change.events)
    return (
        f"{where}{change.series.configuration}: {change.series.metric.name} {size(change)} ({percent(change)} %) "
        f"after {before}, by {after}; confidence {confidence(change)} %{events}"
    )


def _write(histories: Sequence[History], bad_files: Sequence[BadFile], options: argparse.Namespace) -> list[Path]:
    """Write what the options ask for, and return where."""
    formats = options.format or [_PAGE]
    tables = [each for each in TABLE_FORMATS if each in formats]
    try:
        report = INDEX if (options.output / INDEX).exists() else None
        pages = [write_history(histories, options.output, options.lang, bad_files, report)] if _PAGE in formats else []
        return pages + ([_write_tables(histories, options.output / "tables", tables)] if tables else [])
    except OSError as error:
        raise cannot_write(options.output, error) from None


def _write_tables(histories: Sequence[History], folder: Path, formats: Sequence[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    changes = frame_of(CHANGE_POINTS, change_point_rows(changes_of(histories)))
    write_table("change_points", changes, folder, formats)
    write_table("history", frame_of(HISTORY, history_rows(histories)), folder, formats)
    return folder
