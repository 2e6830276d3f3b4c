"""`reusebench history`: the changes of figures over all stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import language, metrics, output, storages
from reusebench.commands.reply import give, json_option, reply_of
from reusebench.commands.results import HistoryResult
from reusebench.reports.base.table import TABLE_FORMATS, write_records
from reusebench.reports.base.texts import Texts, texts_of
from reusebench.reports.errors import ReportError
from reusebench.reports.history.change_points import LEAST_RUNS
from reusebench.reports.history.history_page import HistoryPage
from reusebench.reports.history.series import HISTORY_METRICS, History, changes_of, histories_of
from reusebench.reports.history.table import (
    CHANGE_POINT_COLUMNS,
    HISTORY_COLUMNS,
    TREND_COLUMNS,
    change_point_records,
    history_records,
    trend_records,
)
from reusebench.reports.history.words import (
    change_in_words,
    course_in_words,
    event_in_words,
    outliers_in_words,
    run_in_words,
)
from reusebench.reports.page.index import REPORT_PAGE
from reusebench.storage.board_storage import board_storage
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.metrics import Metric, find_metric
from reusebench.storage.run_file import BadFile
from reusebench.storage.runs import Run

__all__ = ["history"]

_PAGE = "html"


@click.command()
@storages
@metrics(", ".join(HISTORY_METRICS))
@click.option(
    "--only",
    "names",
    metavar="NAME",
    multiple=True,
    help="Only this scenario or program; repeatable.",
)
@output
@language
@click.option(
    "--format",
    "formats",
    type=click.Choice((_PAGE, *TABLE_FORMATS)),
    multiple=True,
    help=(
        "Form of the output: a page, or tables of changes and of runs; repeatable. Default:"
        f" {_PAGE}; with --json none."
    ),
)
@json_option
def history(
    storages: Sequence[Path],
    metrics: Sequence[Metric],
    names: Sequence[str],
    output: Path,
    language: str,
    formats: Sequence[str],
) -> int:
    """Print the changes of figures over all stored runs, and write their page.

    Exits with 1 if a stored file could not be read.
    """
    known = KnownRuns.read(storages or [board_storage()])
    metrics = metrics or [find_metric(name) for name in HISTORY_METRICS]
    runs = known.stored.with_measured(known.runs)
    if names:
        runs = [_only(run, names) for run in runs]
    histories = histories_of(runs, metrics)
    if not histories:
        raise ReportError(_nothing_stored(known.stored, metrics, names))
    if not reply_of().is_json:
        click.echo("\n".join(_lines(histories, texts_of(language))))
        formats = formats or (_PAGE,)
    try:
        paths = _write(histories, known.bad_files, output, language, formats)
    except OSError as error:
        reason = f"cannot write the history into {output} ({error.strerror})"
        raise ReportError(f"{reason}. Name another folder with --output DIR") from None
    result = HistoryResult(
        change_points=list(change_point_records(changes_of(histories))),
        trends=list(trend_records(histories)),
        history=list(history_records(histories)),
        files=[str(path) for path in paths],
    )
    give(result, (f"History: {path}" for path in paths))
    return 1 if known.bad_files else 0


def _only(run: Run, names: Sequence[str]) -> Run:
    """Return the run with the configurations of these names alone."""
    return replace(
        run, measured=tuple(row for row in run.measured if row.configuration.name in names)
    )


def _nothing_stored(stored: StoredRuns, metrics: Sequence[Metric], names: Sequence[str]) -> str:
    missing = f"no run has figures of {', '.join(metric.name for metric in metrics)}"
    if names:
        missing += f" of {', '.join(names)}"
    runs = stored.with_measured(stored.runs)
    known = sorted({row.configuration.name for run in runs for row in run.measured})
    if not known:
        remedy = "run `reusebench bench` first, or name another storage with --storage DIR"
        return f"{missing}. Nothing is stored: {remedy}"
    remedy = "Name others with --metric METRIC or --only NAME"
    return f"{missing}. {remedy}; stored are: {', '.join(known)}"


def _lines(histories: Sequence[History], texts: Texts) -> Iterator[str]:
    """Yield the change points, the newest first, what else the series have, and their number."""
    changes = changes_of(histories)
    several_boards = len({history.series.board for history in histories}) > 1
    for change in changes:
        board = f"{change.series.board}, " if several_boards else ""
        before, after = (
            f"{run_in_words(point.run)} ({point.run.moment})"
            for point in (change.before, change.after)
        )
        events = "".join(f"; {event_in_words(event)}" for event in change.events)
        size, share, confidence = change_in_words(change)
        yield (
            f"{board}{change.series.configuration}: {change.series.metric.name} {size} ({share} %) "
            f"after {before}, by {after}; confidence {confidence} %{events}"
        )
    for history in histories:
        board = f"{history.series.board}, " if several_boards else ""
        figure = f"{board}{history.series.configuration}: {history.series.metric.name}"
        for words in course_in_words(history, texts):
            yield f"{figure} {words}"
        outliers = outliers_in_words(history, texts)
        if outliers:
            yield f"{figure}: {outliers}"

    changed = sum(bool(history.changes) for history in histories)
    short = sum(len(history.series.undisturbed) < LEAST_RUNS for history in histories)
    few = f", of them with fewer than {LEAST_RUNS} runs to judge by: {short}" if short else ""
    yield (
        f"change points: {len(changes)}, in {changed} series; series without any:"
        f" {len(histories) - changed}{few}"
    )


def _write(
    histories: Sequence[History],
    bad_files: Sequence[BadFile],
    output: Path,
    language: str,
    formats: Sequence[str],
) -> list[Path]:
    """Write the formats into the folder, and return the files and folders written."""
    paths = []
    if _PAGE in formats:
        report = REPORT_PAGE if (output / f"{REPORT_PAGE}.html").exists() else None
        paths += HistoryPage(histories).write(output, language, report, bad_files)
    tables = [name for name in TABLE_FORMATS if name in formats]
    if tables:
        folder = output / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        changes = change_point_records(changes_of(histories))
        write_records("change_points", CHANGE_POINT_COLUMNS, changes, folder, tables)
        write_records("trends", TREND_COLUMNS, trend_records(histories), folder, tables)
        write_records("history", HISTORY_COLUMNS, history_records(histories), folder, tables)
        paths.append(folder)
    return paths
