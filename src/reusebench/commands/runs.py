"""`reusebench runs`: the list of stored runs, their removal, and their compaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from tabulate import tabulate

from reusebench.commands.amounts import count, mib
from reusebench.commands.groups import CommandGroup
from reusebench.commands.known_runs import board_storages
from reusebench.commands.options import storages
from reusebench.commands.reply import give, json_option, warn
from reusebench.commands.results import RunRow, RunsResult
from reusebench.commands.runs_compact import compact, expand
from reusebench.commands.runs_prune import prune
from reusebench.storage.board_storage import board_storage
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.runs import RunSummary

__all__ = ["runs"]

_NONE = "-"
#: Boards of a run that a line names; the others are counted.
_MOST_BOARDS = 2
#: The columns of the list, and how they are aligned.
_COLUMNS = {
    "number": "right",
    "date (UTC)": "left",
    "name": "left",
    "board": "left",
    "commit": "left",
    "runtimes": "left",
    "ok": "right",
    "failed": "right",
    "MiB": "right",
}


@click.group(cls=CommandGroup)
def runs() -> None:
    """List stored runs; remove old ones; compact a storage."""


@runs.command("list")
@click.option(
    "--newest", type=click.IntRange(0), metavar="N", help="Only the newest N. Default: all."
)
@storages
@json_option
def list_runs(newest: int | None, storages: Sequence[Path]) -> int:
    """List the stored runs, the newest last.

    Exits with 1 if a stored file could not be read.
    """
    folders = [
        board for storage in storages or [board_storage()] for board in board_storages(storage)
    ]
    known = StoredRuns.open(folders, with_traces=True)
    stored = sorted(known.runs, key=lambda run: run.order)
    shown = stored if newest is None else stored[max(0, len(stored) - newest) :]
    rows = []
    for run in shown:
        file = known.file_of(run)
        rows.append(_row(run, file.size_bytes + file.trace_bytes))
    result = RunsResult(runs=rows, total=len(stored), total_bytes=known.size_bytes)
    give(result, _list_lines(result, shown))
    for bad_file in known.bad_files:
        warn(bad_file)
    return 1 if known.bad_files else 0


def _list_lines(result: RunsResult, runs: Sequence[RunSummary]) -> Iterator[str]:
    """Yield the table, and the number and size of all runs."""
    rows = [_cells(run, row) for run, row in zip(runs, result.runs)]
    if rows:
        yield tabulate(
            rows,
            list(_COLUMNS),
            tablefmt="plain",
            disable_numparse=True,
            colalign=list(_COLUMNS.values()),
        )
    total = count(result.total, "run")
    if len(rows) < result.total:
        total += f", {len(rows)} of them above"
    yield f"{total}, {mib(result.total_bytes)} MiB with traces"


def _row(run: RunSummary, size_bytes: int) -> RunRow:
    return RunRow(
        number=run.number,
        name=run.name,
        recorded_at=run.recorded_at,
        board=run.board,
        commit=run.commit,
        is_dirty=run.is_dirty,
        is_finished=run.is_finished,
        runtimes=list(run.runtimes),
        ok=run.ok,
        failed=run.failed,
        size_bytes=size_bytes,
        path=str(run.path),
    )


def _cells(run: RunSummary, row: RunRow) -> Sequence[str]:
    return (
        str(run.number or _NONE),
        run.moment,
        run.name if run.is_finished else f"{run.name} (unfinished)",
        _boards(run),
        run.short_commit or _NONE,
        ", ".join(row.runtimes),
        str(row.ok),
        str(row.failed),
        mib(row.size_bytes),
    )


def _boards(run: RunSummary) -> str:
    names = ", ".join(run.boards[:_MOST_BOARDS])
    more = len(run.boards) - _MOST_BOARDS
    return f"{names} and {more} more" if more > 0 else names


for _command in (prune, compact, expand):
    runs.add_command(_command)
