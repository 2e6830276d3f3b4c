"""The commands of `python -m models`: what each takes and does. COMMANDS is the visible list of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from models.cache import fill, written_whole
from models.errors import NeedsRknn, NoPlatform
from models.networks import NETWORKS, NetworkEntry, find_network
from models.recipe import Recipe, RknnRecipe
from models.rknn_emitter import Converter, ensure_rknn_all
from models.rknn_platforms import RKNN_PLATFORMS, TOOLKIT_VERSION
from models.rknn_toolkit import install_toolkit

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
    rknn = parser.add_argument_group("for Rockchip's NPUs", "needs `python -m models toolkit install` once")
    rknn.add_argument(
        "--for",
        choices=["onnx", "rknn"],
        default="onnx",
        dest="kind",
        help="the kind of file; .rknn files are INT8, calibrated with an image of noise (default: onnx)",
    )
    chips = ", ".join(platform.name for platform in RKNN_PLATFORMS)
    rknn.add_argument("--platform", type=str.lower, metavar="CHIP", help=f"the chip that a .rknn file is for: {chips}")
    rknn.add_argument(
        "--remove-weight",
        action="store_true",
        help="leave the weights out: the slave of weight sharing, not for rv1103 and rv1106",
    )


def _build(arguments: argparse.Namespace) -> None:
    size = find_network(arguments.name).default_size if arguments.size is None else arguments.size
    recipe = Recipe(arguments.name, size, arguments.seed)
    if arguments.kind == "rknn":
        _build_rknn(recipe, arguments)
        return
    for option, value in (("--platform", arguments.platform), ("--remove-weight", arguments.remove_weight)):
        if value:
            raise NeedsRknn(option)
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


def _build_rknn(source: Recipe, arguments: argparse.Namespace) -> None:
    if arguments.platform is None:
        raise NoPlatform([platform.name for platform in RKNN_PLATFORMS])
    recipe = RknnRecipe(source, arguments.platform, arguments.remove_weight)
    if arguments.output is None:
        print(*ensure_rknn_all([recipe]))
        return
    with Converter() as converter:
        onnx = converter.source_of(recipe)
        with written_whole(arguments.output) as temporary:
            converter.convert(recipe, onnx, temporary)
    print(arguments.output)


def _prepare_toolkit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["install"], help="install it into the cache, about 1.5 GB; quick if it is")
    parser.add_argument("--python", metavar="PYTHON", help="the Python to use, 3.8 to 3.12 (default: found by name)")
    parser.add_argument(
        "--torch",
        metavar="REQUIREMENT",
        help="what pip shall install as PyTorch (default: the newest build for CPUs that it finds)",
    )


def _toolkit(arguments: argparse.Namespace) -> None:
    print(install_toolkit(_say, arguments.python, arguments.torch))


def _say(line: str) -> None:
    print(f"{line} ...", file=sys.stderr, flush=True)


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
    Command("toolkit", f"install rknn-toolkit2 {TOOLKIT_VERSION}, which makes .rknn files", _prepare_toolkit, _toolkit),
    Command("list", "list the networks with their parameters and sizes", _prepare_list, _list),
)
