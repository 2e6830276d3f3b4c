"""The commands of `python -m models`: what each takes and does. COMMANDS is the visible list of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from models.cache import fill, written_whole
from models.conversion.converter import ConvertedRecipe, Converter
from models.conversion.environments import Environment
from models.errors import ModelError
from models.megengine.emitter import MegEngineConverter
from models.megengine.environment import MEGENGINE, install_megengine
from models.networks import NETWORKS, NetworkEntry, find_network
from models.platforms import RKNN_PLATFORMS, TOOLKIT_VERSION
from models.recipe import MEGENGINE_VERSION, MegEngineRecipe, Recipe, RknnRecipe
from models.rknn.emitter import RknnConverter
from models.rknn.toolkit import TOOLKIT, install_toolkit

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
    parser.add_argument("--size", type=int, metavar="H", help="height of the input in pixels, and as a rule its width")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another seed, other weights (default: 0)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write here instead of into the cache")
    parser.add_argument(
        "--for",
        choices=list(_BUILDERS),
        default="onnx",
        dest="kind",
        help="the kind of file: .onnx, .rknn for Rockchip's NPUs, .mge for MegEngine Lite (default: onnx); rknn needs "
        "`python -m models toolkit install` once, megengine `python -m models megengine install`",
    )
    rknn = parser.add_argument_group("for rknn", "INT8, calibrated with an image of noise")
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
    if arguments.kind != "rknn":
        _check_no_rknn_options(arguments)
    _BUILDERS[arguments.kind](recipe, arguments)


def _check_no_rknn_options(arguments: argparse.Namespace) -> None:
    for option, value in (("--platform", arguments.platform), ("--remove-weight", arguments.remove_weight)):
        if value:
            raise ModelError(f"{option} is for .rknn files only; add --for rknn, or leave it out")


def _build_onnx(recipe: Recipe, arguments: argparse.Namespace) -> None:
    if arguments.output is None:
        print(fill(recipe, lambda path: _emit(recipe, path)))
        return
    with written_whole(arguments.output) as temporary:
        _emit(recipe, temporary)
    print(arguments.output)


def _emit(recipe: Recipe, path: Path) -> None:
    # Imported here, so that a finished cache and `list` need neither numpy nor onnx.
    from models.onnx.emitter import emit

    emit(recipe.network(), recipe.seed, path)


def _build_rknn(source: Recipe, arguments: argparse.Namespace) -> None:
    if arguments.platform is None:
        valid = ", ".join(platform.name for platform in RKNN_PLATFORMS)
        raise ModelError(f"a .rknn file is made for one chip; add --platform CHIP, one of {valid}")
    with RknnConverter() as converter:
        _convert(converter, RknnRecipe(source, arguments.platform, arguments.remove_weight), arguments.output)


def _build_mge(source: Recipe, arguments: argparse.Namespace) -> None:
    with MegEngineConverter() as converter:
        _convert(converter, MegEngineRecipe(source), arguments.output)


def _convert(converter: Converter[ConvertedRecipe], recipe: ConvertedRecipe, output: Path | None) -> None:
    if output is None:
        print(*converter.ensure_all([recipe]))
        return
    converter.write(recipe, output)
    print(output)


#: What --for takes.
_BUILDERS: dict[str, Callable[[Recipe, argparse.Namespace], None]] = {
    "onnx": _build_onnx,
    "rknn": _build_rknn,
    "megengine": _build_mge,
}


def _prepare_install(parser: argparse.ArgumentParser, environment: Environment) -> None:
    room = f"about {environment.gigabytes} GB"
    parser.add_argument("action", choices=["install"], help=f"install it into the cache, {room}; quick if it is")
    (_, oldest), (_, newest) = environment.oldest_python, environment.newest_python
    fitting = f"3.{oldest} to 3.{newest}"
    parser.add_argument("--python", metavar="PYTHON", help=f"the Python to use, {fitting} (default: found by name)")


def _prepare_toolkit(parser: argparse.ArgumentParser) -> None:
    _prepare_install(parser, TOOLKIT)
    parser.add_argument(
        "--torch",
        metavar="REQUIREMENT",
        help="what pip shall install as PyTorch (default: the newest build for CPUs that it finds)",
    )


def _toolkit(arguments: argparse.Namespace) -> None:
    print(install_toolkit(_say, arguments.python, arguments.torch))


def _prepare_megengine(parser: argparse.ArgumentParser) -> None:
    _prepare_install(parser, MEGENGINE)


def _megengine(arguments: argparse.Namespace) -> None:
    print(install_megengine(_say, arguments.python))


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
    Command(
        "megengine", f"install MegEngine {MEGENGINE_VERSION}, which makes .mge files", _prepare_megengine, _megengine
    ),
    Command("list", "list the networks with their parameters and sizes", _prepare_list, _list),
)
