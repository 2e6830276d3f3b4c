"""The commands of `python -m targets`: what each takes and does. COMMANDS is the visible list of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from targets.chips import playable_chips
from targets.errors import TargetError
from targets.preload.build import ensure_preload, is_built
from targets.preload.compilers import ARCHITECTURES
from targets.resolve import check_chip
from targets.rknn_library import architecture_of_this_python, read_library
from targets.vboard.emulator import find_emulator, is_needed
from targets.vboard.install import install
from targets.vboard.system import is_installed

__all__ = ["COMMANDS", "Command", "list_targets"]

#: The architectures that Rockchip's libraries are for.
_ARCHITECTURES = ("armhf", "aarch64")


@dataclass(frozen=True)
class Command:
    """One command: its words, its line in the help, its arguments, and what it does with them."""

    words: tuple[str, str]
    help: str
    prepare_parser: Callable[[argparse.ArgumentParser], None]
    #: Prints to standard output; raises TargetError.
    run: Callable[[argparse.Namespace], None]


def list_targets() -> None:
    """Print every target, what it is, and whether it is ready."""
    for name, words in _targets():
        print(f"{name:<14}{words}")


def _targets() -> Iterator[tuple[str, str]]:
    yield "python", "this interpreter, or that of a runtime's own environment: ready"
    yield "python:PATH", "another Python: ready"
    yield "vboard:CHIP", f"the virtual board, with --rknn-library FILE; CHIP: {', '.join(playable_chips())}"
    for architecture in _ARCHITECTURES:
        yield "", f"for {architecture} libraries: {_readiness(architecture)}"
    ready = "ready" if is_built(_own_architecture()) else "not ready: reusebench board install-ledger"
    yield "board", f"this interpreter on a board, with a ledger of the NPU's buffers: {ready}"


def _readiness(architecture: str) -> str:
    system = not is_needed(architecture) or (is_installed(architecture) and find_emulator(architecture) is not None)
    if system and is_built(architecture):
        return "ready"
    return "not ready: reusebench board install --rknn-library FILE"


def _own_architecture() -> str:
    architecture = architecture_of_this_python()
    if architecture is None:
        valid = ", ".join(ARCHITECTURES)
        raise TargetError(f"this Python is for a processor that the preload library was not made for; valid: {valid}")
    return architecture


def _prepare_install_board(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rknn-library", type=Path, required=True, metavar="FILE", help="Rockchip's librknnrt.so or librknnmrt.so"
    )
    parser.add_argument("--chip", metavar="NAME", help=f"check that it is for this chip: {', '.join(playable_chips())}")
    parser.add_argument(
        "--apt-sources", type=Path, metavar="FILE", help="package sources to use instead of this machine's own"
    )


def _install_board(arguments: argparse.Namespace) -> None:
    library = read_library(arguments.rknn_library)
    if arguments.chip is not None:
        check_chip(arguments.chip, library)
    install(library, arguments.apt_sources, _say)
    chips = [arguments.chip] if arguments.chip else [name for name in library.chips() if name in playable_chips()]
    _say(f"{library.kind} {library.version} ({library.architecture}) runs on {', '.join(f'vboard:{c}' for c in chips)}")


def _prepare_install_ledger(parser: argparse.ArgumentParser) -> None:
    """`ledger install` takes no arguments."""


def _install_ledger(_arguments: argparse.Namespace) -> None:
    ensure_preload(_own_architecture(), _say)
    _say("--target board is ready")


def _say(line: str) -> None:
    print(line, flush=True)


COMMANDS: tuple[Command, ...] = (
    Command(
        ("vboard", "install"),
        "prepare the virtual board for a library of Rockchip's, in the user's cache",
        _prepare_install_board,
        _install_board,
    ),
    Command(
        ("ledger", "install"),
        "compile the library that keeps the ledger of NPU buffers on a board",
        _prepare_install_ledger,
        _install_ledger,
    ),
)
