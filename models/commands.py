"""The commands of `python -m models`: what each takes and does. COMMANDS is the visible list of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from models.cache import fill, written_whole
from models.networks import NETWORKS, NetworkEntry, find_network
from models.recipe import Recipe

__all__ = ["COMMANDS", "Command"]

_MIB = 2**20


@dataclass(frozen=True)
class Command:
    """One command: its name, its line in the help, its arguments, and what it does with them."""

    name: str
    help: str
    prepare_parser: Callable[[argparse.ArgumentParser], None]
    #: Prints to standard output; raises ModelError.
    run: Callable[[argparse.Namespace], None]


def _prepare_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(entry.name for entry in NETWORKS)}")
    parser.add_argument("--size", type=int, metavar="H", help="height and width of the input in pixels")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another seed, other weights (default: 0)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write here instead of into the cache")


def _build(arguments: argparse.Namespace) -> None:
    size = find_network(arguments.name).default_size if arguments.size is None else arguments.size
    recipe = Recipe(arguments.name, size, arguments.seed)
    if arguments.output is None:
        print(fill(recipe, lambda path: _emit(recipe, path)))
        return
    with written_whole(arguments.output) as temporary:
        _emit(recipe, temporary)
    print(arguments.output)


def _emit(recipe: Recipe, path: Path) -> None:
    # Imported here, so that a finished cache and `list` need neither numpy nor onnx.
    from models.onnx_emitter import emit

    emit(recipe.network(), recipe.seed, path)


def _prepare_list(parser: argparse.ArgumentParser) -> None:
    """`list` takes no arguments."""


def _list(_arguments: argparse.Namespace) -> None:
    print(f"{'name':<14}{'parameters':>12}{'weights, MiB':>14}{'default size':>14}  source")
    for entry in NETWORKS:
        print(_row(entry))


def _row(entry: NetworkEntry) -> str:
    network = entry.make(entry.default_size)
    mib = f"{network.weight_bytes() / _MIB:.1f}"
    return f"{entry.name:<14}{network.parameter_count():>12,}{mib:>14}{entry.default_size:>14}  {entry.source}"


COMMANDS: tuple[Command, ...] = (
    Command("build", "build one model file and print its path", _prepare_build, _build),
    Command("list", "list the networks with their parameters and sizes", _prepare_list, _list),
)
