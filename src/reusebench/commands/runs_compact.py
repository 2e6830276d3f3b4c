"""`reusebench runs compact` and `runs expand`: stored runs as xz, and back."""

from __future__ import annotations

import datetime
import errno
from collections.abc import Sequence
from pathlib import Path

import click

from reusebench.commands.amounts import count, mib, named_runs
from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import RUNS_ARE_NAMED, ages, storages
from reusebench.commands.reply import give, json_option, say
from reusebench.commands.results import CompactionResult
from reusebench.storage.board_storage import board_storage
from reusebench.storage.errors import StorageError
from reusebench.storage.maintenance.compaction import Changed, FormChange
from reusebench.storage.maintenance.rules import by_storage, is_before
from reusebench.storage.runs import RunSummary
from reusebench.system.files import printable

__all__ = ["compact", "expand"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


@click.command()
@ages("Only runs older")
@click.option(
    "--keep", type=click.IntRange(0), default=0, metavar="N", help="Not the newest N of each board."
)
@click.option("--dry-run", is_flag=True, help="Change nothing; count what it would save.")
@storages
@json_option
def compact(
    before: datetime.datetime | None, keep: int, dry_run: bool, storages: Sequence[Path]
) -> int:
    """Compress finished runs and their traces as xz.

    Every command reads them as before, and no figure changes; only pytest-benchmark's own
    commands do not. `runs expand` gives the files back.

    Exits with 1 if a stored file could not be read.
    """
    known = KnownRuns.read(storages or [board_storage()])
    chosen: list[RunSummary] = []
    for runs in by_storage(known.runs).values():
        old = runs[: max(0, len(runs) - keep)]
        chosen += [run for run in old if before is None or is_before(run, before)]
    return _change(known, chosen, is_compaction=True, is_dry_run=dry_run)


@click.command(epilog=RUNS_ARE_NAMED)
@click.argument("runs", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Change nothing; count what it would take.")
@storages
@json_option
def expand(runs: Sequence[str], dry_run: bool, storages: Sequence[Path]) -> int:
    """Give runs the form back that they had before `runs compact`; default: all.

    Exits with 1 if a stored file could not be read.
    """
    known = KnownRuns.read(storages or [board_storage()])
    chosen: Sequence[RunSummary] = known.runs
    if runs:
        found = [run for reference in runs for run in known.find(reference)]
        chosen = list({run.path: run for run in found}.values())
    return _change(known, chosen, is_compaction=False, is_dry_run=dry_run)


def _change(
    known: KnownRuns, chosen: Sequence[RunSummary], is_compaction: bool, is_dry_run: bool
) -> int:
    """Change the form of the runs, the oldest first, and return the exit code."""
    unfinished = [run for run in chosen if not run.is_finished]
    linked = [run for run in chosen if run.path.is_symlink() or run.path.parent.is_symlink()]
    storages: dict[Path, FormChange] = {}
    runs = []
    total = Changed()
    for run in sorted(chosen, key=lambda run: run.order):
        if not run.is_finished or run in linked:
            continue
        storage = run.path.parent.parent
        change = storages.setdefault(storage, FormChange(storage, is_compaction, is_dry_run))
        try:
            changed = change.change(run.path)
        except OSError as error:
            raise _refusal(storage, error) from None
        if changed.files:
            runs.append(str(run.path))
            say(f"{printable(str(run.path))}: {_sizes(changed)}")
            total += changed

    kept = [
        f"{printable(str(path))} stays as it is: {reason}"
        for change in storages.values()
        for path, reason in change.left.items()
    ]
    if unfinished:
        kept.append(f"kept: {named_runs(unfinished)} without an end")
    if linked:
        kept.append(f"kept: {named_runs(linked)} behind links, which are not followed")
    result = CompactionResult(
        is_dry_run, runs, total.files, total.before_bytes, total.after_bytes, kept
    )
    done = "compacted" if is_compaction else "expanded"
    if is_dry_run:
        done = f"would be {done}"
    files = f"{count(len(runs), 'run')} {done}, {count(total.files, 'file')} with traces"
    give(result, [*kept, f"{files}: {_sizes(total)}"])
    return 1 if known.bad_files else 0


def _sizes(changed: Changed) -> str:
    return f"{mib(changed.before_bytes)} MiB -> {mib(changed.after_bytes)} MiB"


def _refusal(storage: Path, error: OSError) -> StorageError:
    """Return the error for a storage that cannot be written; all that was done before stays."""
    remedy = "Give this user the right to write there"
    if error.errno in _FULL:
        remedy = "Free as much space as its largest file has"
    return StorageError(
        f"{printable(str(storage))} cannot be written ({error.strerror}), and no run is lost."
        f" {remedy}; the same command goes on"
    )
