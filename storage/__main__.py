"""`python -m storage`: which runs are stored, the recovery of what was cut off, and the removal of old runs."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from storage.board import board_storage
from storage.errors import StorageError
from storage.files import BadFile, storages_in
from storage.journal import cut_off_hint
from storage.maintenance.inventory import take_inventory
from storage.maintenance.lines import end_line, pruning_lines, recovery_lines, run_lines
from storage.maintenance.pruning import Old, Pruning, before, choose, keep_newest, remove
from storage.recovery import recover
from storage.runs import RECOVERED

__all__ = ["main"]

_DAMAGED, _BAD_INPUT = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """List, recover or prune; exit code 1 where a stored file could not be read, 2 for a mistake of the user."""
    options = _parser().parse_args(arguments)
    try:
        bad_files = options.run(options)
    except StorageError as error:
        print(f"storage: {error}", file=sys.stderr)
        return _BAD_INPUT
    for file in bad_files:
        print(f"storage: {file}", file=sys.stderr)
    return _DAMAGED if bad_files else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m storage", description="Lists stored runs, recovers cut-off ones, removes old ones."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="the stored runs, newest last", description="Lists the stored runs.")
    listing.add_argument("--limit", type=_count, metavar="N", help="only the newest N; default: all")
    listing.set_defaults(run=_list)
    recovery = commands.add_parser(
        "recover",
        help="store what was measured by sessions that were cut off",
        description="Stores what was measured by sessions that a power cut or SIGKILL ended: each becomes a run whose "
        f"name ends with {RECOVERED}. Sessions that are still running are left alone.",
    )
    recovery.set_defaults(run=_recover)
    pruning = commands.add_parser(
        "prune",
        help="remove old runs with their traces",
        description="Removes old runs with their traces, traces of no run, and files that were never finished. Runs "
        "with a name of --benchmark-save stay. Asks nothing: --dry-run names what would go.",
    )
    old = pruning.add_mutually_exclusive_group(required=True)
    old.add_argument("--keep", type=_keep, dest="old", metavar="N", help="remove all but the newest N")
    old.add_argument(
        "--before", type=_before, dest="old", metavar="DATE", help="remove what is older: 2026-11-30 (UTC)"
    )
    pruning.add_argument("--named", action="store_true", help="remove runs with a name too")
    pruning.add_argument("--dry-run", action="store_true", help="remove nothing")
    pruning.set_defaults(run=_prune)
    for command in (listing, recovery, pruning):
        command.add_argument(
            "--storage", type=Path, metavar="DIR", default=board_storage(), help="default: this board's"
        )
    return parser


def _list(options: argparse.Namespace) -> list[BadFile]:
    inventories = [take_inventory(storage) for storage in _storages(options.storage)]
    _print(run_lines(inventories, options.limit))
    hint = cut_off_hint(options.storage)
    if hint:
        print(f"storage: {hint}", file=sys.stderr)
    return [file for inventory in inventories for file in inventory.bad_files]


def _recover(options: argparse.Namespace) -> list[BadFile]:
    bad_files: list[BadFile] = []
    recovery = None
    for recovery in recover(_existing(options.storage)):
        _print(recovery_lines(recovery))
        bad_files += recovery.bad_files
    if recovery is None:
        _print(["nothing to recover: no session was cut off"])
    return bad_files


def _prune(options: argparse.Namespace) -> Sequence[BadFile]:
    storages = _storages(options.storage)
    if len(storages) > 1:
        names = ", ".join(map(str, storages))
        raise StorageError(
            f"{options.storage} has the storages of several boards. Name one with --storage DIR: {names}"
        )
    inventory = take_inventory(storages[0])
    if not inventory.runs:
        raise StorageError(f"there is no run in {storages[0]}, so it is not a storage: nothing in it is removed")
    pruning = choose(inventory, options.old, options.named, time.time())
    _print(pruning_lines(pruning))
    if not options.dry_run:
        _remove(pruning)
    _print([end_line(pruning, options.dry_run)])
    return inventory.bad_files


def _remove(pruning: Pruning) -> None:
    try:
        remove(pruning)
    except OSError as error:
        raise StorageError(
            f"{error.filename} cannot be removed ({error.strerror}). It and what comes after it are still there; "
            "run the same command again to go on"
        ) from None


def _storages(folder: Path) -> list[Path]:
    return storages_in(_existing(folder))


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise StorageError(
            f"no storage at {folder}. Run `pytest bench/` first, or name another storage with --storage DIR"
        )
    return folder


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines), flush=True)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: a whole number from 0")
    return int(text)


def _keep(text: str) -> Old:
    return keep_newest(_count(text))


def _before(text: str) -> Old:
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: 2026-11-30 or 2026-11-30T12:00") from None
    return before(when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc))


if __name__ == "__main__":
    sys.exit(main())
