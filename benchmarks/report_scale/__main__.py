"""Time and memory of commands by the number of stored results: `python -m benchmarks.report_scale`.

--results makes the storage of one board, with results as large as measured ones (30 KB: 5 repeats
of 12 contexts); --boards the storages of a fleet, each with 250 runs of 20 results in a year (6.8
KB: 2 repeats of 2 contexts). Each command runs in a fresh process. The index of each storage is
removed and built first. Rounds of all commands follow: the table has medians, and the least and the
most in brackets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.quick import own_folder, parse
from benchmarks.report_scale.costs import COMMANDS, FIRST, UPDATE, Cost, Measurer
from benchmarks.report_scale.figure import draw
from benchmarks.report_scale.limits import verdicts
from benchmarks.report_scale.made_storages import Storages, fleet_of, storage_of
from tests.helpers.support import CHECKOUT
from tests.reports.stored import MIB

#: More results than one run has, since `compare` needs two runs.
_QUICK = ("--results", "150", "--command", "list", "--command", "compare", "--rounds", "1")
_HEADS = ("boards", "results", "time, s", "CPU time, s", "PSS, MiB")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cost of each command over each storage."""
    parser = argparse.ArgumentParser("python -m benchmarks.report_scale", description=__doc__)
    parser.add_argument("--results", type=int, nargs="*", default=[], metavar="N")
    parser.add_argument("--boards", type=int, nargs="*", default=[], metavar="N")
    parser.add_argument(
        "--command",
        dest="commands",
        choices=(*COMMANDS, UPDATE),
        action="append",
        metavar="NAME",
        help=f"default: all of {', '.join((*COMMANDS, UPDATE))}",
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument(
        "--storage",
        type=Path,
        metavar="DIR",
        help="folder that keeps the storages for later calls; default: a temporary one",
    )
    parser.add_argument(
        "--keep-index", action="store_true", help="measure with the index that is there"
    )
    parser.add_argument(
        "--code", type=Path, default=CHECKOUT, metavar="DIR", help="measure another checkout"
    )
    parser.add_argument("--name", default="now", help="name of that code in the figure")
    parser.add_argument(
        "--costs", type=Path, metavar="FILE", help="add the costs to this file, a line for each"
    )
    parser.add_argument(
        "--figure", type=Path, metavar="SVG", help="draw all costs of --costs, or those measured"
    )
    parser.add_argument(
        "--limits", action="store_true", help="hold the costs against the project's limits"
    )
    options = parse(parser, arguments, _QUICK)

    folder = options.storage or own_folder()
    measurer = Measurer(options.code.resolve(), options.name)
    kept = _Costs(options.costs)
    storages = [
        *(storage_of(folder / f"results-{count}", count) for count in options.results),
        *(fleet_of(folder / f"boards-{count}", count) for count in options.boards),
    ]
    names = options.commands or (*COMMANDS, UPDATE)
    _measure(measurer, storages, names, options, kept)
    for line in _table(kept.measured):
        print(line)
    if options.figure:
        draw(kept.all(), options.figure)
    if options.limits and not _print_verdicts(kept.measured):
        raise SystemExit(1)


class _Costs:
    """The measured costs; a file keeps them at once."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.measured: list[Cost] = []

    def add(self, cost: Cost) -> None:
        """Add a cost."""
        self.measured.append(cost)
        if self._path:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(cost) + b"\n")

    def all(self) -> list[Cost]:
        """Return the costs of the file, also of former calls; without a file, those measured."""
        if not self._path:
            return self.measured
        return msgspec.json.Decoder(Cost).decode_lines(self._path.read_bytes())


def _measure(
    measurer: Measurer,
    storages: Sequence[Storages],
    names: Sequence[str],
    options: argparse.Namespace,
    costs: _Costs,
) -> None:
    for made in storages:
        if not made.folder.exists():
            made.write()
        if not options.keep_index:
            costs.add(measurer.first(made))
    for _ in range(options.rounds):
        for made in storages:
            for name in names:
                cost = measurer.update(made) if name == UPDATE else measurer.cost(name, made)
                if cost:
                    costs.add(cost)


def _table(costs: Iterable[Cost]) -> Iterator[str]:
    yield f"{'command':20}{''.join(f'{head:>22}' for head in _HEADS)}"
    members: dict[tuple[str, int, int], list[Cost]] = {}
    for cost in costs:
        members.setdefault((cost.command, cost.boards, cost.results), []).append(cost)
    for (command, boards, results), same in members.items():
        name = "first build" if command == FIRST else command
        cells = (
            boards,
            results,
            _spread([cost.elapsed_s for cost in same]),
            _spread([cost.cpu_s for cost in same]),
            _spread([cost.pss_bytes / MIB for cost in same], digits=0),
        )
        yield f"{name:20}{''.join(f'{cell:>22}' for cell in cells)}"


def _spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median, and the least and the most if there are several values."""
    words = f"{median(values):.{digits}f}"
    if len(values) > 1:
        words += f" ({min(values):.{digits}f}..{max(values):.{digits}f})"
    return words


def _print_verdicts(costs: Iterable[Cost]) -> bool:
    """Print the verdict of each limit; return whether all are kept."""
    are_kept = True
    for is_kept, line in verdicts(costs):
        print(line)
        are_kept = are_kept and is_kept
    return are_kept


if __name__ == "__main__":
    main()
