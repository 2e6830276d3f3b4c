"""`reusebench runs`: the list of stored runs, and the removal of old ones."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from tabulate import tabulate

from reusebench.commands.groups import CommandGroup
from reusebench.commands.known_runs import board_storages
from reusebench.commands.options import storage, storages
from reusebench.commands.reply import give, json_option, say, warn
from reusebench.commands.results import PruningResult, RunRow, RunsResult
from reusebench.storage.board_storage import board_storage
from reusebench.storage.errors import StorageError
from reusebench.storage.maintenance.inventory import RunFiles, take_inventory
from reusebench.storage.maintenance.pruning import Pruning, plan_pruning, remove, runs_before
from reusebench.storage.runs import RunSummary
from reusebench.system.cache import remove_leftovers
from reusebench.system.files import printable

__all__ = ["runs"]

_NONE = "-"
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
    """List stored runs; remove old ones."""


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
    inventories = [take_inventory(folder) for folder in folders]
    stored = [
        (row.run, inventory.size_bytes(row)) for inventory in inventories for row in inventory.runs
    ]
    stored.sort(key=lambda run_and_size: run_and_size[0].order)
    shown = stored if newest is None else stored[max(0, len(stored) - newest) :]
    result = RunsResult(
        runs=[_row(run, size_bytes) for run, size_bytes in shown],
        total=len(stored),
        total_bytes=sum(size_bytes for _, size_bytes in stored),
    )
    give(result, _list_lines(result, [run for run, _ in shown]))
    bad_files = [file for inventory in inventories for file in inventory.bad_files]
    for file in bad_files:
        warn(file)
    return 1 if bad_files else 0


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
    count = _count(result.total, "run")
    if len(rows) < result.total:
        count += f", {len(rows)} of them above"
    yield f"{count}, {_mib(result.total_bytes)} MiB with traces"


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


def _date(
    context: click.Context, option: click.Parameter, text: str | None
) -> datetime.datetime | None:
    if not text:
        return None
    try:
        date = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not valid; valid: 2026-11-30 or 2026-11-30T12:00"
        ) from None
    return date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)


@runs.command()
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Remove all but the newest N.")
@click.option(
    "--before",
    "date",
    metavar="DATE",
    callback=_date,
    help="Remove older runs: 2026-11-30 (UTC).",
)
@click.option("--named", is_flag=True, help="Remove runs with a name too.")
@click.option(
    "--cache", is_flag=True, help="Remove files that killed processes left in the cache; no runs."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing.")
@storage
@json_option
def prune(
    keep: int | None,
    date: datetime.datetime | None,
    named: bool,
    cache: bool,
    dry_run: bool,
    storage: Path,
) -> int:
    """Remove old runs with their traces.

    Traces without a run and unfinished files go too, a day after their last change. Runs with a
    name of --benchmark-save stay. There is no confirmation: --dry-run prints what would go.

    Exits with 1 if a stored file could not be read.
    """
    if cache:
        if named or (keep, date) != (None, None):
            raise click.UsageError("--cache removes no run: leave out --keep, --before and --named")
        return _prune_cache(dry_run)
    if (keep is None) == (date is None):
        raise click.UsageError("name the runs that are old, by --keep N or by --before DATE")
    folders = board_storages(storage)
    if len(folders) > 1:
        names = ", ".join(map(str, folders))
        raise StorageError(
            f"{storage} has the storages of several boards. Name one with --storage DIR: {names}"
        )
    inventory = take_inventory(folders[0])
    if not inventory.runs:
        raise StorageError(
            f"there is no run in {folders[0]}: it is no storage, and nothing in it is removed"
        )
    if date:
        old: Sequence[RunFiles] = runs_before(inventory.runs, date)
    else:
        old = inventory.runs[: max(0, len(inventory.runs) - (keep or 0))]
    pruning = plan_pruning(inventory, old, named, time.time(), by_date=date is not None)
    result = PruningResult(
        is_dry_run=dry_run,
        runs=[str(stored.run.path) for stored in pruning.runs],
        other_files=[str(file.path) for file in (*pruning.traces, *pruning.leftovers)],
        freed_bytes=pruning.freed_bytes,
        kept=list(_kept(pruning)),
    )
    give(result, _pruning_lines(pruning))
    if not dry_run:
        try:
            remove(pruning, inventory.storage)
        except OSError as error:
            raise StorageError(
                f"{printable(str(error.filename))} cannot be removed ({error.strerror}). It and"
                " what follows it are still there; the same command goes on"
            ) from None
    say(_freed(pruning.freed_bytes, dry_run))
    for file in inventory.bad_files:
        warn(file)
    return 1 if inventory.bad_files else 0


def _prune_cache(dry_run: bool) -> int:
    """Remove files without an owner, and print each with its size."""
    freed_bytes = 0
    paths = []
    try:
        for leftover in remove_leftovers(dry_run):
            say(f"{_mib(leftover.size_bytes):>10} MiB  {leftover.path}")
            paths.append(str(leftover.path))
            freed_bytes += leftover.size_bytes
    except OSError as error:
        raise StorageError(
            f"{error.filename} cannot be removed ({error.strerror}): remove it yourself"
        ) from None
    result = PruningResult(dry_run, runs=[], other_files=paths, freed_bytes=freed_bytes, kept=[])
    give(result, [_freed(freed_bytes, dry_run)])
    return 0


def _freed(size_bytes: int, dry_run: bool) -> str:
    return f"{_mib(size_bytes)} MiB {'would be removed' if dry_run else 'removed'}"


def _cells(run: RunSummary, row: RunRow) -> Sequence[str]:
    return (
        str(run.number or _NONE),
        run.moment,
        run.name if run.is_finished else f"{run.name} (unfinished)",
        run.board,
        run.short_commit or _NONE,
        ", ".join(row.runtimes),
        str(row.ok),
        str(row.failed),
        _mib(row.size_bytes),
    )


def _pruning_lines(pruning: Pruning) -> Iterator[str]:
    """Yield every file that goes, their counts, and the old runs that stay."""
    yield from (
        f"{stored.run.moment}  {printable(str(stored.run.path))}" for stored in pruning.runs
    )
    yield from (f"  {printable(str(file.path))}" for file in (*pruning.traces, *pruning.leftovers))
    yield f"{_count(len(pruning.runs), 'run')} with {_count(len(pruning.traces), 'trace')}"
    if pruning.leftovers:
        yield f"{_count(len(pruning.leftovers), 'file')} that no run has, a day old or more"
    yield from _kept(pruning)


def _kept(pruning: Pruning) -> Iterator[str]:
    """Yield a sentence for each reason for which old runs stay."""
    if pruning.named:
        names = ", ".join(dict.fromkeys(stored.run.name for stored in pruning.named))
        yield (
            f"kept for the name: {_count(len(pruning.named), 'run')} ({names}); --named removes"
            " named runs too"
        )
    if pruning.undated:
        yield (
            f"kept: {_runs(pruning.undated)} with a date that cannot be right, as when the clock"
            " was not set; --keep N goes by their numbers"
        )
    if pruning.growing:
        yield f"kept: {_runs(pruning.growing)} that may still be measured"
    if pruning.linked:
        yield f"kept: {_runs(pruning.linked)} behind links, which are not followed"
    if pruning.unclear:
        count = _count(len(pruning.unclear), "trace")
        yield (
            f"kept: {count} that no run has, for they may be of a damaged file, which is never"
            " removed"
        )


def _runs(runs: Sequence[RunFiles]) -> str:
    """Return the number of runs and their names."""
    return f"{_count(len(runs), 'run')} ({', '.join(str(stored.run) for stored in runs)})"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.2f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
