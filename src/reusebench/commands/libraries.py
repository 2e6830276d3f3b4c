"""`reusebench libraries`: the versions of Rockchip's library on this machine, and a run of each."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from tabulate import tabulate

from reusebench.commands.benching import run_bench
from reusebench.commands.groups import CommandGroup
from reusebench.commands.options import PATH, target_storage
from reusebench.commands.reply import give, json_option, reply_of, say
from reusebench.commands.results import LibraryOutcome, LibraryRow
from reusebench.harness.extras import install_line, missing_modules
from reusebench.measured.runtimes import find_runtime
from reusebench.storage.runs import Run, read_run
from reusebench.targets.errors import TargetError
from reusebench.targets.resolve import Selection, check_chip, far_machine, is_far, parse_target
from reusebench.targets.rknn_library import RknnLibrary, find_libraries
from reusebench.targets.vboard.catalogue import rknn_board
from reusebench.targets.vboard.install import install as install_virtual_board

__all__ = ["libraries"]

_VIRTUAL = "vboard:"
_paths = click.option(
    "--rknn-library",
    "paths",
    type=PATH,
    metavar="PATH",
    multiple=True,
    help=(
        "A library, or a folder of several; repeatable. Default: reusebench/rknn in the cache"
        " folder, and the usual folders."
    ),
)


@dataclass(frozen=True)
class _Ended:
    """The result of one library."""

    library: RknnLibrary
    #: A sentence for the table.
    outcome: str
    is_good: bool
    #: The runs that it stored.
    runs: tuple[Run, ...] = ()


@click.group(cls=CommandGroup)
def libraries() -> None:
    """List Rockchip's libraries that are here; measure each."""


@libraries.command("list")
@_paths
@json_option
def list_libraries(paths: Sequence[Path]) -> int:
    """List the libraries, their versions and chips.

    Exits with 1 if there is none.
    """
    rows = [_row(library) for library in find_libraries(paths)]
    give(rows, _list_lines(rows) if rows else [_nowhere(paths)])
    return 0 if rows else 1


def _row(library: RknnLibrary) -> LibraryRow:
    return LibraryRow(
        kind=library.kind,
        version=library.full_version,
        architecture=library.architecture,
        chips=list(library.chips()),
        path=str(library.path),
    )


def _list_lines(rows: Sequence[LibraryRow]) -> Iterator[str]:
    cells = [
        (row.kind, row.version, row.architecture, ", ".join(row.chips), row.path) for row in rows
    ]
    yield _table(("library", "version", "architecture", "chips", "file"), cells)


@libraries.command(
    options_metavar="[OPTIONS] [-- PYTEST-OPTION...]",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--target",
    metavar="TARGET",
    required=True,
    help="As for `reusebench bench`: vboard:CHIP, board, python, or a remote board.",
)
@_paths
@target_storage
@json_option
@click.argument("options", metavar="", nargs=-1, type=click.UNPROCESSED)
def run(target: str, paths: Sequence[Path], storage: Path, options: Sequence[str]) -> int:
    """Run `reusebench bench` with each library that the target can run.

    Options after -- are pytest's. Each library gets a run in the storage; the virtual board is
    prepared if it is needed. At the end come a table of the outcomes and the differences between
    the versions.

    Exits with 1 if a library did not load or pytest failed.
    """
    fitting = _fitting(find_libraries(paths), paths, target)
    if is_far(target):
        far_machine(target).close()  # the board is pytest's from now on
    ended = []
    for number, library in enumerate(fitting, start=1):
        say(f"== {number} of {len(fitting)}: {library}, {library.path}")
        ended.append(_measure(library, target, storage, options))
    outcomes = [
        LibraryOutcome(
            library=_row(result.library),
            outcome=result.outcome,
            is_good=result.is_good,
            runs=[str(run.path) for run in result.runs],
        )
        for result in ended
    ]
    rows = [(str(result.library), result.outcome) for result in ended]
    give(outcomes, ["", _table(("library", "outcome"), rows), ""])
    if not reply_of().is_json:
        _show_versions([run for result in ended for run in result.runs], storage)
    return 0 if all(result.is_good for result in ended) else 1


def _fitting(here: Sequence[RknnLibrary], paths: Iterable[Path], target: str) -> list[RknnLibrary]:
    """Return the libraries that the target can run; raise TargetError with reasons if none."""
    fitting = []
    reasons = [_nowhere(paths)] if not here else []
    for library in here:
        try:
            _check_library(target, library)
        except TargetError as error:
            reasons.append(str(error))
        else:
            fitting.append(library)
    if not fitting:
        raise TargetError(reasons[0])
    for reason in reasons:
        say(f"left out: {reason}")
    return fitting


def _check_library(target: str, library: RknnLibrary) -> None:
    """Raise a TargetError if the target cannot run the library."""
    if target.startswith(_VIRTUAL):
        check_chip(target[len(_VIRTUAL) :], library)
        return
    place = parse_target(Selection(target, library.path), find_runtime("rknn"))
    if place.chip:
        check_chip(place.chip, library)


def _measure(library: RknnLibrary, target: str, storage: Path, options: Sequence[str]) -> _Ended:
    """Run pytest with the library, and return the result."""
    if target.startswith(_VIRTUAL):
        try:
            install_virtual_board(rknn_board(library), None, say)
        except TargetError as error:
            return _Ended(library, str(error), is_good=False)
    selection = ["--runtime", "rknn", "--target", target, "--rknn-library", str(library.path)]
    output = sys.stderr if reply_of().is_json else None
    code, paths = run_bench([*options, *selection], storage, output=output)
    stored = []
    outcomes: Counter[str] = Counter()
    for path in paths:
        run = read_run(path)
        if isinstance(run, Run):
            stored.append(run)
            outcomes.update(measured.outcome.replace("_", " ") for measured in run.measured)
    words = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    words = words or "nothing was measured"
    if code:
        words += f"; pytest ended with {code}"
    return _Ended(library, words, code == 0, tuple(stored))


def _show_versions(runs: Sequence[Run], storage: Path) -> None:
    """Print the differences between the versions, if the extra `reports` is installed."""
    if missing_modules("reports"):
        click.echo(
            "reusebench compare --versions shows what the versions differ in:"
            f" {install_line('reports')}"
        )
        return
    # Not at the top: a board need not have the extra.
    from reusebench.reports.material import read_material
    from reusebench.reports.versions.rendering import as_text

    # Not above: a board need not have it.
    from reusebench.reports.versions.table import VERSION_METRICS
    from reusebench.reports.versions.versions import versions_of

    paths = [str(run.path) for run in runs]
    compared = versions_of(read_material([storage], paths).groups) if runs else []
    if compared:
        click.echo(as_text(compared, VERSION_METRICS))
    else:
        click.echo("no two versions have measured the same: there is nothing to compare")


def _nowhere(paths: Iterable[Path]) -> str:
    usual = "reusebench/rknn in the cache folder nor in the usual folders"
    folders = ", ".join(map(str, paths)) or usual
    return (
        f"there is no library of Rockchip's in {folders}. Name a file or a folder with"
        " --rknn-library PATH"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tabulate(rows, heads, tablefmt="plain", disable_numparse=True)
