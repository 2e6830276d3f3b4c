"""What is measured where: --runtime, --target and --rknn-library, and the target of each runtime that they give."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.errors import UserError
from runtimes import RUNTIMES, UnknownRuntime, find_runtime
from targets.base import Target
from targets.errors import RuntimeMissing, TargetError
from targets.resolve import parse_target

__all__ = ["AddOption", "Choice", "add_choice_options", "chip_of", "chosen_runtimes", "resolve_targets"]


class AddOption(Protocol):
    """Declares one option, with the keywords of argparse's add_argument."""

    def __call__(self, *names: str, **keywords: Any) -> Any:
        """Declare it."""


@dataclass(frozen=True)
class Choice:
    """What the user chose."""

    #: By name; empty: all that the target has.
    runtimes: tuple[str, ...]
    #: As written after --target.
    target: str
    rknn_library: Path | None

    @classmethod
    def of(cls, option: argparse.Namespace) -> Choice:
        """Return what the options say; a runtime that is named twice counts once."""
        return cls(tuple(dict.fromkeys(option.runtime or ())), option.target, option.rknn_library)


def add_choice_options(add: AddOption) -> None:
    """Declare the three options."""
    add(
        "--runtime",
        action="append",
        metavar="NAME",
        type=_runtime_name,
        help="Runtime to measure; repeatable. Default: all that are installed. `reusebench doctor` lists them.",
    )
    add(
        "--target",
        metavar="TARGET",
        default="python",
        help="Where the measured process runs: python (this one, or the runtime's own), python:PATH, board (this "
        "board, with a ledger of NPU buffers), vboard:CHIP (Rockchip's runtime on a virtual board). "
        "`reusebench doctor` lists them. Default: python.",
    )
    add(
        "--rknn-library",
        metavar="FILE",
        type=Path,
        help="Rockchip's librknnrt.so or librknnmrt.so. Default: $REUSEBENCH_RKNN_LIBRARY, or the usual places.",
    )


def resolve_targets(choice: Choice) -> dict[str, Target]:
    """Return the target of each runtime to measure: those given, or all that there are; raise UserError without any."""
    found: dict[str, Target] = {}
    for entry in map(find_runtime, choice.runtimes) if choice.runtimes else RUNTIMES:
        try:
            found[entry.name] = parse_target(choice.target, choice.rknn_library, entry)
        except RuntimeMissing as error:
            if choice.runtimes:
                raise UserError(str(error)) from None
        except TargetError as error:
            raise UserError(str(error)) from None
    if not found:
        _, _, path = choice.target.partition(":")
        python = f"the Python of --target {choice.target}" if path else "this Python"
        raise UserError(f"no runtime is installed for {python}. `reusebench doctor` says what to install")
    return found


def chosen_runtimes(choice: Choice) -> list[str]:
    """Return the names of the runtimes to measure; none where resolve_targets says what is wrong."""
    if choice.runtimes:
        return list(choice.runtimes)
    try:
        return list(resolve_targets(choice))
    except UserError:
        return []


def chip_of(targets: Mapping[str, Target]) -> str | None:
    """Return the chip whose NPU is measured; the targets of one session are all on one machine."""
    return next((target.chip for target in targets.values() if target.chip), None)


def _runtime_name(text: str) -> str:
    try:
        return find_runtime(text).name
    except UnknownRuntime as error:
        raise argparse.ArgumentTypeError(str(error)) from None
