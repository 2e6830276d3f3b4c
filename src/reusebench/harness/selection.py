"""The options that select runtimes and a target, and the target of each runtime."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from reusebench.harness.errors import UserError
from reusebench.harness.former_names import Add
from reusebench.measured.runtimes import (
    RUNTIMES,
    RuntimeEntry,
    UnknownRuntime,
    find_runtime,
)
from reusebench.models.model_kinds import is_language_model, language_file, reads
from reusebench.samplers.host import Host
from reusebench.scenarios.catalogue import DEFAULT_OPTIONS
from reusebench.storage.board_storage import board_storage, far_storage, fleet_storage
from reusebench.storage.limits import parse_size
from reusebench.targets.errors import RuntimeMissing, TargetError
from reusebench.targets.protocol.base import PYTHON, C
from reusebench.targets.resolve import Selection, is_far, parse_target
from reusebench.targets.target import Target

__all__ = [
    "add_selection_options",
    "chip_of",
    "default_storage",
    "host_of",
    "option_scenarios",
    "resolve_targets",
    "selected_runtimes",
    "selection_of",
    "storage_of",
    "target_of",
    "targets_of",
]

#: This Python.
_HERE = "python"


def selection_of(option: argparse.Namespace) -> Selection:
    """Return the selection that the options make; a runtime that is named twice counts once."""
    return Selection(
        target=target_of(option),
        rknn_library=option.rknn_library,
        npu_memory_bytes=option.npu_memory,
        driver=option.driver,
        runtimes=tuple(dict.fromkeys(option.runtime or ())),
        models=tuple(option.model or ()),
    )


def add_selection_options(add: Add) -> None:
    """Declare the options."""
    add(
        "--target",
        action="append",
        metavar="TARGET",
        help=(
            "python[:PATH]; board: with a ledger of NPU buffers; vboard:CHIP or vboard:rocket: a"
            " virtual board; or a remote one: ssh:HOST, adb[:SERIAL], pipe:COMMAND, labgrid:PLACE,"
            " labgrid:TAG=VALUE, or its name (`reusebench board add`). Repeatable: boards side by"
            " side. Default: python."
        ),
    )
    add(
        "--runtime",
        action="append",
        metavar="NAME",
        type=_runtime_name,
        help="Only this one; repeatable. Default: all installed.",
    )
    add(
        "--rknn-library",
        metavar="FILE",
        type=Path,
        help=(
            "Rockchip's; `board`: the remote board's own. Default: $REUSEBENCH_RKNN_LIBRARY, or"
            " the usual folders."
        ),
    )
    add(
        "--driver",
        choices=(PYTHON, C),
        help="Driver of Rockchip's runtime. Default: python if there.",
    )
    add(
        "--npu-memory",
        metavar="SIZE",
        type=parse_size,
        help="Of a virtual board, such as 512MiB. Default: no limit.",
    )


def resolve_targets(selection: Selection) -> dict[str, Target]:
    """Return the target of each selected runtime; without names, of all that are installed.

    If the user gives models, these are runtimes that may take one: a language model is never
    converted.

    Raises UserError if the target or a named runtime cannot be used, or none is installed.
    """
    entries = [find_runtime(name) for name in selection.runtimes]
    if not entries:
        entries = [entry for entry in RUNTIMES if _may_take(entry, selection.models)]
    targets: dict[str, Target] = {}
    for entry in entries:
        try:
            targets[entry.name] = parse_target(selection, entry)
        except RuntimeMissing as error:
            if selection.runtimes:
                raise UserError(str(error)) from None
        except TargetError as error:
            raise UserError(str(error)) from None
    if not targets:
        raise _no_runtime(selection.target, entries)
    return targets


def _may_take(entry: RuntimeEntry, models: Sequence[Path]) -> bool:
    """Whether a runtime may take one of the user's models; any runtime if there are none."""
    if not models:
        return True
    if entry.has_conversations:
        return any(reads(entry, language_file(path)) for path in models)
    return not all(map(is_language_model, models))


def _no_runtime(target: str, entries: Sequence[RuntimeEntry]) -> UserError:
    command = "reusebench doctor"
    if is_far(target):
        where = f"on {target}"
        command = f"reusebench doctor --target {target}"
    elif ":" in target:
        where = f"for the Python of --target {target}"
    else:
        where = "for this Python"
    what = "runtime"
    if all(entry.has_conversations for entry in entries):
        titles = " or ".join(entry.title for entry in entries)
        what = f"runtime of language models ({titles})"
    return UserError(f"no {what} is installed {where}. `{command}` says what to install")


def selected_runtimes(selection: Selection) -> list[str]:
    """Return the names of the runtimes to measure; empty if resolve_targets raises."""
    if selection.runtimes:
        return list(selection.runtimes)
    try:
        return list(resolve_targets(selection))
    except UserError:
        return []


def option_scenarios(runtime: str) -> list[str]:
    """Return the scenarios of a runtime's own options, their baseline first; may be empty."""
    options = find_runtime(runtime).options
    return [DEFAULT_OPTIONS, *options] if options else []


def host_of(targets: Mapping[str, Target]) -> Host:
    """Return the machine that is measured; all targets of a session are on one machine."""
    return next(iter(targets.values())).machine.host


def targets_of(option: argparse.Namespace) -> tuple[str, ...]:
    """Return the values of --target."""
    return tuple(option.target or (_HERE,))


def target_of(option: argparse.Namespace) -> str:
    """Return the target of a session of one board; with several boards, this machine."""
    targets = targets_of(option)
    return targets[0] if len(targets) == 1 else _HERE


def default_storage(option: argparse.Namespace) -> Path:
    """Return the default storage of a session: that of its board, or of all fleets."""
    targets = targets_of(option)
    return storage_of(targets[0]) if len(targets) == 1 else fleet_storage()


def storage_of(target: str) -> Path:
    """Return the default storage of a value of --target: each board has its own."""
    return far_storage(target) if is_far(target) else board_storage()


def chip_of(targets: Mapping[str, Target]) -> str | None:
    """Return the chip whose NPU is measured; None if it is unknown, or there is no NPU."""
    return next((target.chip for target in targets.values() if target.chip), None)


def _runtime_name(text: str) -> str:
    try:
        return find_runtime(text).name
    except UnknownRuntime as error:
        raise argparse.ArgumentTypeError(str(error)) from None
