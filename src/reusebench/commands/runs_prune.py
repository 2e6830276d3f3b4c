"""`reusebench runs prune`: the removal of old runs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from reusebench.commands.amounts import count, mib, named_runs
from reusebench.commands.known_runs import KnownRuns, board_storages
from reusebench.commands.options import Parsed, ages, project, storages
from reusebench.commands.reply import give, json_option, say, warn
from reusebench.commands.results import PruningResult
from reusebench.storage.board_storage import board_storage
from reusebench.storage.errors import StorageError
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.limits import parse_size
from reusebench.storage.maintenance.baselines import configured_baselines
from reusebench.storage.maintenance.pruning import (
    BASELINE,
    CHANGED,
    GROWING,
    LINKED,
    NAMED,
    UNDATED,
    Choice,
    Removal,
    Removed,
    choose,
    moved_files,
)
from reusebench.storage.maintenance.rules import Rules
from reusebench.storage.runs import RunSummary
from reusebench.system.cache import remove_leftovers
from reusebench.system.files import printable

__all__ = ["prune"]

#: Key: reason; value: the sentence about the runs that stay for it.
_KEPT = {
    NAMED: "kept for the name: {}; --named removes named runs too",
    BASELINE: "kept as baselines: {}",
    UNDATED: (
        "kept: {} with a date that cannot be right, as when the clock was not set; --keep N and"
        " --size go by their numbers"
    ),
    GROWING: "kept: {} that may still be measured",
    LINKED: "kept: {} behind links, which are not followed",
    CHANGED: "kept: {} changed meanwhile; the same command judges them again",
}


@click.command()
@ages("Remove runs older")
@click.option(
    "--size",
    "most_bytes",
    type=Parsed(parse_size),
    metavar="SIZE",
    help="Remove the oldest runs until all together, with traces, take at most 10GiB.",
)
@click.option(
    "--keep", type=click.IntRange(0), metavar="N", help="Keep the newest N of each storage."
)
@click.option(
    "--keep-each",
    type=click.IntRange(1),
    metavar="N",
    help="Keep the newest N of each series: a configuration on a board and chip.",
)
@click.option(
    "--keep-run", "kept", multiple=True, metavar="RUNS", help="Keep these too; repeatable."
)
@click.option("--named", is_flag=True, help="Remove runs with a name too.")
@click.option(
    "--cache", is_flag=True, help="Remove files that killed processes left in the cache; no runs."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing.")
@storages
@project
@json_option
def prune(
    before: datetime.datetime | None,
    most_bytes: int | None,
    keep: int | None,
    keep_each: int | None,
    kept: Sequence[str],
    named: bool,
    cache: bool,
    dry_run: bool,
    storages: Sequence[Path],
    project: Path,
) -> int:
    """Remove old runs with their traces.

    A run goes if --older, --before or --size names it (without these, any run), and no --keep
    option keeps it. Runs with a name of --benchmark-save stay, and so do baselines that pytest's
    configuration of the project names.

    Traces without a run and unfinished files go too, a day after their last change. There is no
    confirmation: --dry-run prints what would go.

    Exits with 1 if a stored file could not be read.
    """
    rules = Rules(before, most_bytes, keep, keep_each)
    if cache:
        if named or kept or rules != Rules():
            raise click.UsageError("--cache removes no run: leave out the options that choose runs")
        return _prune_cache(dry_run)
    if rules == Rules():
        raise click.UsageError(
            "name the runs that are old, by --older AGE, --before DATE, --size SIZE, --keep N or"
            " --keep-each N"
        )
    boards = [board for folder in storages or [board_storage()] for board in board_storages(folder)]
    stored = StoredRuns.open(boards, with_traces=True)
    known = KnownRuns(stored, project)
    for file in stored.bad_files:
        known.add_bad_file(file)
    for board in boards:
        _check_runs(board, stored)

    baselines = dict(_baselines(known, kept))
    choice = choose(stored, rules, {run.path for runs in baselines.values() for run in runs}, named)
    removal = Removal(boards, stored, choice, dry_run)
    removed = _remove(removal)
    kept_words = [*_kept(choice, baselines), *_unclear(removal)]
    freed_bytes = sum(row.size_bytes for row in removed)
    freed_bytes += sum(file.size_bytes for file in removal.leftovers)
    others = [file.path for row in removed for file in row.traces]
    others += [file.path for file in removal.leftovers]
    result = PruningResult(
        is_dry_run=dry_run,
        runs=[str(row.run.path) for row in removed],
        other_files=[str(path) for path in others],
        freed_bytes=freed_bytes,
        kept=kept_words,
    )
    traces = sum(len(row.traces) for row in removed)
    lines = [f"{count(len(removed), 'run')} with {count(traces, 'trace')}"]
    if removal.leftovers:
        left = count(len(removal.leftovers), "file")
        lines.append(f"{left} that no run has, a day old or more")
    lines += kept_words
    if most_bytes is not None and choice.left_bytes > most_bytes:
        lines.append(
            f"{mib(choice.left_bytes)} MiB stay, more than --size: the rest is kept for the reasons"
            " above, or by a --keep option"
        )
    lines.append(_freed(freed_bytes, dry_run))
    give(result, lines)
    return 1 if known.bad_files else 0


def _check_runs(board: Path, stored: StoredRuns) -> None:
    """Raise StorageError if the folder has no run, and no removal to go on with."""
    has_runs = any(run.path.parent.parent == board for run in stored.runs)
    if not has_runs and not moved_files(board):
        raise StorageError(
            f"there is no run in {board}: it is no storage, and nothing in it is removed"
        )


def _baselines(known: KnownRuns, kept: Sequence[str]) -> Iterator[tuple[str, list[RunSummary]]]:
    """Yield each place that names runs, and the runs."""
    for reference in kept:
        yield f"--keep-run {reference}", known.find(reference)
    for reference, place in configured_baselines(known.project):
        try:
            yield f"{place} names {reference}", known.find(reference)
        except StorageError as error:
            warn(f"{place}: {error}")


def _remove(removal: Removal) -> list[Removed]:
    """Remove the runs, and print every file that goes."""
    removed = []
    try:
        for row in removal.runs():
            say(f"{row.run.moment}  {printable(str(row.run.path))}")
            for file in row.traces:
                say(f"  {printable(str(file.path))}")
            removed.append(row)
        for file in removal.leftovers:
            say(f"  {printable(str(file.path))}")
        removal.remove_leftovers()
    except OSError as error:
        raise StorageError(
            f"{printable(str(error.filename))} cannot be removed ({error.strerror}). It and"
            " what follows it are still there; the same command goes on"
        ) from None
    return removed


def _kept(choice: Choice, baselines: dict[str, list[RunSummary]]) -> Iterator[str]:
    """Yield a sentence for each reason for which old runs stay."""
    for reason, sentence in _KEPT.items():
        runs = choice.kept.get(reason)
        if not runs:
            continue
        words = sentence.format(named_runs(runs))
        if reason == NAMED:
            names = ", ".join(dict.fromkeys(run.name for run in runs))
            words = sentence.format(f"{count(len(runs), 'run')} ({names})")
        elif reason == BASELINE:
            old = {run.path for run in runs}
            places = [
                place for place, kept in baselines.items() if old & {run.path for run in kept}
            ]
            words += f": {', '.join(places)}"
        yield words


def _unclear(removal: Removal) -> Iterator[str]:
    if removal.unclear:
        yield (
            f"kept: {count(len(removal.unclear), 'trace')} that no run has, for they may be of a"
            " damaged file, which is never removed"
        )


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
