"""`reusebench runs prune`: the removal of old runs."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from reusebench.commands.amounts import count, mib, named_runs
from reusebench.commands.known_runs import board_storages
from reusebench.commands.options import ages, storage
from reusebench.commands.reply import give, json_option, say, warn
from reusebench.commands.results import PruningResult
from reusebench.storage.errors import StorageError
from reusebench.storage.maintenance.inventory import RunFiles, take_inventory
from reusebench.storage.maintenance.pruning import Pruning, is_before, plan_pruning, remove
from reusebench.system.cache import remove_leftovers
from reusebench.system.files import printable

__all__ = ["prune"]


@click.command()
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Remove all but the newest N.")
@ages("Remove runs older")
@click.option("--named", is_flag=True, help="Remove runs with a name too.")
@click.option(
    "--cache", is_flag=True, help="Remove files that killed processes left in the cache; no runs."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing.")
@storage
@json_option
def prune(
    keep: int | None,
    before: datetime.datetime | None,
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
        if named or (keep, before) != (None, None):
            raise click.UsageError("--cache removes no run: leave out the options that choose runs")
        return _prune_cache(dry_run)
    if (keep is None) == (before is None):
        raise click.UsageError(
            "name the runs that are old, by --keep N, --older AGE or --before DATE"
        )
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
    if before:
        old: Sequence[RunFiles] = [row for row in inventory.runs if is_before(row.run, before)]
    else:
        old = inventory.runs[: max(0, len(inventory.runs) - (keep or 0))]
    pruning = plan_pruning(inventory, old, named, time.time(), by_date=before is not None)
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
            say(f"{mib(leftover.size_bytes):>10} MiB  {leftover.path}")
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
    return f"{mib(size_bytes)} MiB {'would be removed' if dry_run else 'removed'}"


def _pruning_lines(pruning: Pruning) -> Iterator[str]:
    """Yield every file that goes, their counts, and the old runs that stay."""
    yield from (
        f"{stored.run.moment}  {printable(str(stored.run.path))}" for stored in pruning.runs
    )
    yield from (f"  {printable(str(file.path))}" for file in (*pruning.traces, *pruning.leftovers))
    yield f"{count(len(pruning.runs), 'run')} with {count(len(pruning.traces), 'trace')}"
    if pruning.leftovers:
        yield f"{count(len(pruning.leftovers), 'file')} that no run has, a day old or more"
    yield from _kept(pruning)


def _kept(pruning: Pruning) -> Iterator[str]:
    """Yield a sentence for each reason for which old runs stay."""
    if pruning.named:
        names = ", ".join(dict.fromkeys(stored.run.name for stored in pruning.named))
        yield (
            f"kept for the name: {count(len(pruning.named), 'run')} ({names}); --named removes"
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
        traces = count(len(pruning.unclear), "trace")
        yield (
            f"kept: {traces} that no run has, for they may be of a damaged file, which is never"
            " removed"
        )


def _runs(stored: Sequence[RunFiles]) -> str:
    return named_runs([row.run for row in stored])
