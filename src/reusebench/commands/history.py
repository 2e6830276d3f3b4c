"""`reusebench history`: the changes of figures over all stored runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import language, metrics, output, storages
from reusebench.commands.reply import give, json_option, reply_of
from reusebench.commands.results import HistoryResult
from reusebench.reports.base.table import TABLE_FORMATS, write_records
from reusebench.reports.base.texts import Texts, texts_of
from reusebench.reports.errors import ReportError
from reusebench.reports.history.board_counts import counts_by_board
from reusebench.reports.history.change_points import LEAST_RUNS
from reusebench.reports.history.history_page import HistoryPage
from reusebench.reports.history.series import (
    HISTORY_METRICS,
    History,
    LevelChange,
    MetricSeries,
    changes_of,
    histories_of,
)
from reusebench.reports.history.stored_configurations import stored_configurations
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

__all__ = ["history"]

_PAGE = "html"
#: Limit of lines on several boards; more are counted by board.
_MOST_LINES = 200
#: Limit of names in a message.
_MOST_LISTED = 50


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
@click.option(
    "--board",
    "boards",
    metavar="NAME",
    multiple=True,
    help="Only this board of a folder of several; repeatable.",
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
    boards: Sequence[str],
    output: Path,
    language: str,
    formats: Sequence[str],
) -> int:
    """Print the changes of figures over all stored runs, and write their page.

    Exits with 1 if a stored file could not be read.
    """
    known = KnownRuns.read(storages or [board_storage()])
    metrics = metrics or [find_metric(name) for name in HISTORY_METRICS]
    histories = histories_of(stored_configurations(known.stored, metrics, names, boards), metrics)
    if not histories:
        raise ReportError(_nothing_stored(known.stored, metrics, names, boards))
    if not reply_of().is_json:
        click.echo("\n".join(_lines(histories, texts_of(language))))
        formats = formats or (_PAGE,)
    try:
        paths = _write(histories, known.bad_files, output, language, formats)
    except OSError as error:
        reason = f"cannot write the history into {output} ({error.strerror})"
        raise ReportError(f"{reason}. Name another folder with --output DIR") from None
    result = None
    if reply_of().is_json:
        result = HistoryResult(
            change_points=list(change_point_records(changes_of(histories))),
            trends=list(trend_records(histories)),
            history=list(history_records(histories)),
            files=[str(path) for path in paths],
        )
    give(result, (f"History: {path}" for path in paths))
    return 1 if known.bad_files else 0


def _nothing_stored(
    stored: StoredRuns, metrics: Sequence[Metric], names: Sequence[str], boards: Sequence[str]
) -> str:
    missing = f"no run has figures of {', '.join(metric.name for metric in metrics)}"
    if names:
        missing += f" of {', '.join(names)}"
    if boards:
        missing += f" on {', '.join(boards)}"
    configurations = stored_configurations(stored, metrics)
    if not configurations:
        remedy = "run `reusebench bench` first, or name another storage with --storage DIR"
        return f"{missing}. Nothing is stored: {remedy}"
    options = "--metric METRIC or --only NAME"
    known = f"stored are: {_listed(one.configuration.name for one in configurations)}"
    if boards:
        options = "--metric METRIC, --only NAME or --board NAME"
        known += f"; on the boards: {_listed(one.board for one in configurations)}"
    return f"{missing}. Name others with {options}; {known}"


def _listed(names: Iterable[str]) -> str:
    """Return distinct names in order; those of a large fleet would fill many screens."""
    distinct = sorted(set(names))
    more = len(distinct) - _MOST_LISTED
    return ", ".join(distinct[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _lines(histories: Sequence[History], texts: Texts) -> list[str]:
    """Return the change points, the newest first, what else the series have, and their number.

    Changes of many series on several boards are counted by board instead.
    """
    changes = changes_of(histories)
    boards = dict.fromkeys(history.series.board for history in histories)
    several = len(boards) > 1
    lines = [_change_line(change, several) for change in changes]
    lines += [line for history in histories for line in _course_lines(history, several, texts)]
    if several and len(lines) > _MOST_LINES:
        lines = list(_board_lines(histories))

    changed = sum(bool(history.changes) for history in histories)
    short = sum(len(history.series.undisturbed) < LEAST_RUNS for history in histories)
    few = f", of them with fewer than {LEAST_RUNS} runs to judge by: {short}" if short else ""
    counted = (
        f"change points: {len(changes)}, in {changed} series; series without any:"
        f" {len(histories) - changed}{few}"
    )
    return [*lines, counted]


def _change_line(change: LevelChange, several_boards: bool) -> str:
    before, after = (
        f"{run_in_words(point.run)} ({point.run.moment})" for point in (change.before, change.after)
    )
    events = "".join(f"; {event_in_words(event)}" for event in change.events)
    size, share, confidence = change_in_words(change)
    return (
        f"{_figure(change.series, several_boards)} {size} ({share} %) "
        f"after {before}, by {after}; confidence {confidence} %{events}"
    )


def _course_lines(history: History, several_boards: bool, texts: Texts) -> Iterator[str]:
    """Yield a line for each drift and wave, and one for the outliers."""
    figure = _figure(history.series, several_boards)
    for words in course_in_words(history, texts):
        yield f"{figure} {words}"
    outliers = outliers_in_words(history, texts)
    if outliers:
        yield f"{figure}: {outliers}"


def _figure(series: MetricSeries, several_boards: bool) -> str:
    board = f"{series.board}, " if several_boards else ""
    return f"{board}{series.configuration}: {series.metric.name}"


def _board_lines(histories: Sequence[History]) -> Iterator[str]:
    """Yield a line for each board with a change, those with most change points first."""
    boards = counts_by_board(histories)
    for board in boards:
        if board.is_changed:
            newest = ""
            if board.newest:
                run = board.newest.after.run
                newest = f", the newest by {run_in_words(run)} ({run.moment})"
            yield (
                f"{board.name}: change points: {board.changes}, in {board.changed} of"
                f" {board.series} series{newest}; series with a drift or a wave: {board.trends},"
                f" with outliers: {board.outliers}"
            )
    quiet = sum(not board.is_changed for board in boards)
    yield f"boards without any of these: {quiet}; --board NAME tells all of one board"


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
