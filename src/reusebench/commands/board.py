"""`reusebench board`: names for remote boards; preparation of boards and of the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import click
from tabulate import tabulate

from reusebench.commands.groups import CommandGroup
from reusebench.commands.options import PATH
from reusebench.commands.reply import give, json_option, say
from reusebench.commands.results import BoardResult, BoardRow
from reusebench.commands.verify import verify
from reusebench.measured.runtimes import RUNTIMES
from reusebench.targets.boards import Board, add_board, boards, check_name, remove_board
from reusebench.targets.chips import CHIPS
from reusebench.targets.errors import RuntimeMissing, TargetError
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.far.target import far_target
from reusebench.targets.programs import PRELOAD
from reusebench.targets.protocol.base import PYTHON, C
from reusebench.targets.resolve import check_chip, far_machine
from reusebench.targets.rknn_library import architecture_of_this_python, read_library
from reusebench.targets.vboard.catalogue import ROCKET, rknn_board, rocket_board
from reusebench.targets.vboard.install import install as install_virtual_board

__all__ = ["board"]

_MIB = 1 << 20
_LANGUAGES = {PYTHON: "Python", C: "C"}
_ROCKET_TARGET = f"vboard:{ROCKET}"
_ADDRESSES = "ssh:HOST, adb, adb:SERIAL, pipe:COMMAND or labgrid:PLACE"


@click.group(cls=CommandGroup)
def board() -> None:
    """Give boards names; prepare and verify boards, the virtual board and the ledger."""


board.add_command(verify)


@board.command()
@click.argument("name")
@click.argument("address")
@click.option(
    "--folder",
    metavar="DIR",
    help="Folder for files on the board. Default: the first usual one that will do.",
)
@click.option(
    "--python", metavar="PATH", help="The board's Python, which has the runtimes. Default: python3."
)
@json_option
def add(name: str, address: str, folder: str | None, python: str | None) -> None:
    """Connect to a board, prepare it, and remember it by a NAME for --target.

    ADDRESS is ssh:HOST (any host of your ssh), adb, adb:SERIAL, pipe:COMMAND (a command that gives
    a shell on a pipe) or labgrid:PLACE.
    """
    check_name(name)
    with closing(FarMachine(address, Board(address, folder, python), say)) as machine:
        summary = _prepared(machine)
    add_board(name, Board(address, folder, python))
    ready = f"--target {name} is ready. Its parts: reusebench doctor --target {name}"
    _give([name], [*summary, ready])


@board.command("list")
@json_option
def list_boards() -> None:
    """List the boards that have names."""
    rows = []
    for name, named in boards().items():
        rows.append(BoardRow(name, named.address, named.folder, named.python))
    give(rows, _list_lines(rows))


def _list_lines(rows: Sequence[BoardRow]) -> Iterator[str]:
    if not rows:
        yield "no board has a name yet: reusebench board add NAME ADDRESS"
        return
    heads = ("name", "address", "folder", "python")
    cells = [(row.name, row.address, row.folder or "", row.python or "") for row in rows]
    yield tabulate(cells, heads, tablefmt="plain", disable_numparse=True)


def _give(targets: Sequence[str], done: Sequence[str], freed_bytes: int = 0) -> None:
    give(BoardResult(list(targets), list(done), freed_bytes), done)


@board.command()
@click.argument("name")
@json_option
def remove(name: str) -> None:
    """Forget a board; its files stay on it (`clean` removes them)."""
    remove_board(name)
    _give([name], [f"{name} is no name of a board any more"])


@board.command()
@click.argument("name")
@json_option
def clean(name: str) -> None:
    """Remove our files from a board, given by name or address."""
    machine = far_machine(name)
    folder = machine.files.folder
    freed_bytes = machine.files.clean()
    _give([name], [f"{name}: {folder} is removed, {freed_bytes / _MIB:.1f} MiB"], freed_bytes)


@board.command()
@click.argument("name", required=False)
@click.option(
    "--rknn-library",
    "path",
    type=PATH,
    metavar="FILE",
    help="Prepare the virtual board for this library: Rockchip's librknnrt.so or librknnmrt.so.",
)
@click.option(
    "--chip", type=click.Choice(list(CHIPS)), help="Check that the library is for this chip."
)
@click.option(
    "--target",
    metavar=_ROCKET_TARGET,
    help="Prepare the virtual board of the mainline kernel's driver, with Mesa's library and"
    " LiteRT.",
)
@click.option(
    "--apt-sources",
    type=PATH,
    metavar="FILE",
    help="Package sources to use instead of this machine's own.",
)
@json_option
def install(
    name: str | None,
    path: Path | None,
    chip: str | None,
    target: str | None,
    apt_sources: Path | None,
) -> None:
    """Prepare a board, given by name or address, or a virtual board."""
    if [name, path, target].count(None) != 2:
        raise click.UsageError(
            f"give a board (its name, or {_ADDRESSES}), or for the virtual board --rknn-library"
            f" FILE or --target {_ROCKET_TARGET}"
        )
    if target not in (None, _ROCKET_TARGET):
        raise click.UsageError(
            f"--target {target}: the virtual board that has all it needs is {_ROCKET_TARGET}; for"
            " vboard:CHIP give Rockchip's library, --rknn-library FILE, and for another board its"
            " name without --target"
        )
    if chip and path is None:
        raise click.UsageError("--chip goes with --rknn-library FILE: add it, or leave --chip out")
    if apt_sources and name is not None:
        raise click.UsageError("--apt-sources is for the virtual board: leave it out")
    if name is not None:
        _give([name], [*_prepared(far_machine(name)), f"--target {name} is ready"])
    elif path is not None:
        _install_for_library(path, chip, apt_sources)
    else:
        _install_rocket(apt_sources)


def _install_for_library(path: Path, chip: str | None, apt_sources: Path | None) -> None:
    library = read_library(path)
    if chip:
        check_chip(chip, library)
    install_virtual_board(rknn_board(library), apt_sources, say)
    targets = [f"vboard:{name}" for name in ([chip] if chip else library.chips())]
    name_of_library = f"{library.kind} {library.version} ({library.architecture})"
    _give(targets, [f"{name_of_library} runs on {', '.join(targets)}"])


def _install_rocket(apt_sources: Path | None) -> None:
    rocket = rocket_board()
    versions = install_virtual_board(rocket, apt_sources, say)
    _give([rocket.target], [f"Teflon {versions} runs on {rocket.target}"])


@board.command()
@json_option
def install_ledger() -> None:
    """Compile the library that keeps the ledger of NPU buffers."""
    architecture = architecture_of_this_python()
    if architecture is None:
        raise TargetError(
            "the library that keeps the ledger is not made for this Python's processor"
        )
    PRELOAD.ensure(architecture, say)
    _give(["board"], ["--target board is ready"])


def _prepared(machine: FarMachine) -> list[str]:
    """Put the measuring programs on the board, and return a summary of a line or two."""
    lines = [
        f"{machine.address}: {machine.architecture}, reader of {machine.reader_bytes() / 1024:.0f}"
        " KiB in memory"
    ]
    for entry in RUNTIMES:
        try:
            target = far_target(machine, None, entry, None)
        except RuntimeMissing:
            continue
        lines.append(
            f"{entry.title}: measured by the driver in {_LANGUAGES[target.protocol.driver]}"
        )
    return lines
