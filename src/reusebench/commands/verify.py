"""`reusebench board verify`: a board's NPU buffers beside those of the virtual board."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

import reusebench
from reusebench.commands.benching import run_bench
from reusebench.commands.options import PATH
from reusebench.commands.reply import give, json_option
from reusebench.commands.results import VerificationResult
from reusebench.commands.verify_text import Comparison, comparison_lines
from reusebench.harness.errors import UserError
from reusebench.harness.selection import resolve_targets
from reusebench.storage.board_sizes import (
    BoardSizes,
    read_board_sizes,
    sizes_of_results,
    write_board_sizes,
)
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun, read_run_file
from reusebench.system.cache import OwnFolder
from reusebench.targets.chips import CHIPS
from reusebench.targets.protocol.base import PYTHON, C
from reusebench.targets.resolve import Selection, is_virtual
from reusebench.targets.rknn_library import find_libraries
from reusebench.targets.target import Target

__all__ = ["SCENARIOS", "verify"]

_RKNN = "rknn"
_VIRTUAL = "vboard:"
#: The fixed set: each way in which buffers are made, or shared, once.
SCENARIOS = (
    "no_reuse_one_model",
    "full_dup",
    "full_dup_internal_reuse",
    "in_turn",
    "internal_reuse",
    "resolutions_2",
    "shared_weights_2",
    "external_memory",
    "weight_memory",
    "zero_copy_io",
)
_FILES = (
    "test_dup.py",
    "test_internal_reuse.py",
    "test_shared_weights.py",
    "test_external_memory.py",
    "test_io_copies.py",
)
#: One more than any chip has cores, so that two contexts share the internal memory of a core.
_CONTEXTS = max(chip.npu_cores for chip in CHIPS.values()) + 1
_HOW_TO_REPORT = (
    "Please paste this into an issue, equal or not, with the name of the board"
    " (docs/how-to/boards.md)."
)


@click.command()
@click.option(
    "--target",
    metavar="TARGET",
    required=True,
    help="As for `reusebench bench`: a remote board, board, or vboard:CHIP.",
)
@click.option(
    "--rknn-library",
    type=PATH,
    metavar="FILE",
    help=(
        "As for `reusebench bench`; the virtual board runs it too. Without it: the virtual board"
        " runs a library of the version that the board has, from the usual folders."
    ),
)
@click.option("--driver", type=click.Choice([PYTHON, C]), help="As for `reusebench bench`.")
@click.option(
    "--model",
    "models",
    type=PATH,
    metavar="FILE",
    multiple=True,
    help="Models for this chip in place of the built-in MobileNetV2.",
)
@click.option(
    "--expected",
    type=PATH,
    metavar="FILE",
    help="Sizes that --output has written, in place of those of the virtual board.",
)
@click.option(
    "--output",
    "written",
    type=PATH,
    metavar="FILE",
    help="Write the measured sizes to FILE for --expected, and compare nothing.",
)
@json_option
def verify(
    target: str,
    rknn_library: Path | None,
    driver: str | None,
    models: Sequence[Path],
    expected: Path | None,
    written: Path | None,
) -> int:
    """Compare a board's NPU buffers with those of the virtual board of the same chip.

    A fixed set of scenarios is measured on both: contexts, dups, shared weights, internal memory
    and memory of the application that contexts share. The comparison is text for an issue.

    Exits with 1 if a size differs.
    """
    if expected and written:
        raise UserError("--expected compares and --output does not: leave one of them out")
    selection = Selection(target, rknn_library, driver=driver, runtimes=(_RKNN,))
    place = _place(selection)
    assert place.chip is not None
    there = _expected(expected, place.chip) if expected else None
    virtual = None
    if not (expected or written or _is_unknown(rknn_library)):
        virtual = _virtual(place.chip, rknn_library)

    here = _measured(selection, place, models)
    if written:
        write_board_sizes(written, here)
        nothing = VerificationResult(
            is_equal=None, compared=0, differing=0, differences={}, measured=here, expected=None
        )
        give(nothing, [f"{written}: the sizes of {len(here.scenarios)} scenarios on {target}"])
        return 0
    if there is None:
        virtual = virtual or _virtual(place.chip, _library_like(here))
        there = _measured(virtual, _place(virtual), models)
    comparison = Comparison(here, there)
    result = VerificationResult(
        is_equal=comparison.is_equal,
        compared=comparison.compared,
        differing=comparison.differing,
        differences=comparison.differences,
        measured=here,
        expected=there,
    )
    give(result, comparison_lines(comparison))
    if not is_virtual(target):
        click.echo(f"\n{_HOW_TO_REPORT}", err=True)
    return 0 if comparison.is_equal else 1


def _place(selection: Selection) -> Target:
    """Return the target; raise UserError if it keeps no ledger, or if its chip is unknown."""
    place = resolve_targets(selection)[_RKNN]
    if not place.keeps_ledger:
        raise UserError(
            f"--target {selection.target} does not count NPU buffers: take --target board (once"
            " before: reusebench board install-ledger), a remote board, or vboard:CHIP"
        )
    if place.chip is None:
        raise UserError(
            f"the chip of --target {selection.target} is unknown: its device tree names none of"
            f" {', '.join(CHIPS)}. Take a board with one of them"
        )
    return place


def _is_unknown(library: Path | None) -> bool:
    """Whether only the board knows its library."""
    return library is None or not library.exists()


def _virtual(chip: str, library: Path | None) -> Selection:
    """Return the selection of the virtual board; raise UserError if it cannot run."""
    selection = Selection(f"{_VIRTUAL}{chip}", library, runtimes=(_RKNN,))
    resolve_targets(selection)
    return selection


def _library_like(here: BoardSizes) -> Path:
    """Return the library on this machine that the board has; raise UserError if there is none."""
    kind = CHIPS[here.chip].runtime
    for library in find_libraries():
        if library.kind == kind and library.full_version == here.library_version:
            return library.path
    raise UserError(
        f"{here.target} has {kind} {here.library_version or 'of an unknown version'}, which is not"
        " in the usual folders of this machine. Copy it from the board, and give it with"
        " --rknn-library FILE; or keep the sizes with --output FILE"
    )


def _expected(path: Path, chip: str) -> BoardSizes:
    """Return the sizes of a file; raise UserError if they are of another chip."""
    sizes = read_board_sizes(path)
    if sizes.chip != chip:
        raise UserError(
            f"--expected {path} is of {sizes.chip}, and the target is {chip}. Make one for it:"
            f" reusebench board verify --target {_VIRTUAL}{chip} --output FILE"
        )
    return sizes


def _measured(selection: Selection, place: Target, models: Sequence[Path]) -> BoardSizes:
    """Return the sizes on a target, measured by `pytest bench/`; raise UserError if none were."""
    click.echo(f"Measuring on {selection.target}", err=True)
    place.machine.close()  # pytest connects to a remote board itself
    with OwnFolder() as folder:
        storage = folder / "storage"
        storage.mkdir()
        _, paths = run_bench(_options(selection, models), storage, _FILES, sys.stderr)
        results: list[Result] = []
        for path in paths:
            run = read_run_file(path)
            if isinstance(run, StoredRun):
                results += [result.info for result in run.results]
        if not any(result.outcome == "ok" for result in results):
            raise UserError(
                f"nothing was measured on {selection.target}: pytest's output above has the reason"
            )
        return sizes_of_results(storage, results, place.chip or "", reusebench.__version__)


def _options(selection: Selection, models: Sequence[Path]) -> list[str]:
    """Return pytest's options."""
    options = ["--runtime", _RKNN, "--target", selection.target]
    if selection.rknn_library:
        options += ["--rknn-library", str(selection.rknn_library)]
    if selection.driver:
        options += ["--driver", selection.driver]
    for model in models:
        options += ["--model", str(model.absolute())]
    options += ["--quick", "--repeats", "1", "--streams", "1", "--contexts", str(_CONTEXTS)]
    options += ["-k", " or ".join(f"{name}]" for name in SCENARIOS)]
    return [*options, "-q", "--no-header", "--benchmark-quiet"]
