"""`reusebench board`: makes the virtual board, and the ledger of a real board's NPU buffers, ready."""

from __future__ import annotations

from pathlib import Path

import click

from commands.options import PATH
from targets.chips import CHIPS
from targets.errors import TargetError
from targets.preload.build import ensure_preload
from targets.resolve import check_chip
from targets.rknn_library import architecture_of_this_python, read_library
from targets.vboard.install import install as install_virtual_board

__all__ = ["board"]


@click.group()
def board() -> None:
    """Prepare the virtual board and the ledger of NPU buffers."""


@board.command()
@click.option(
    "--rknn-library",
    "path",
    type=PATH,
    metavar="FILE",
    required=True,
    help="Rockchip's librknnrt.so or librknnmrt.so.",
)
@click.option("--chip", type=click.Choice(list(CHIPS)), help="Check that the library is for this chip.")
@click.option("--apt-sources", type=PATH, metavar="FILE", help="Package sources to use instead of this machine's own.")
def install(path: Path, chip: str | None, apt_sources: Path | None) -> None:
    """Prepare the virtual board for a library of Rockchip's."""
    library = read_library(path)
    if chip:
        check_chip(chip, library)
    install_virtual_board(library, apt_sources, click.echo)
    chips = [chip] if chip else library.chips()
    boards = ", ".join(f"vboard:{name}" for name in chips)
    click.echo(f"{library.kind} {library.version} ({library.architecture}) runs on {boards}")


@board.command()
def install_ledger() -> None:
    """Compile the library that keeps the ledger of NPU buffers."""
    architecture = architecture_of_this_python()
    if architecture is None:
        raise TargetError("the library that keeps the ledger is not made for this Python's processor")
    ensure_preload(architecture, click.echo)
    click.echo("--target board is ready")
