"""The sizes of NPU buffers on a board, as `reusebench board verify` compares and writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Optional

import msgspec

from reusebench.accounting.requested import PARTS, requested_sizes
from reusebench.storage.decoding import MOST_BYTES, decode_stored
from reusebench.storage.errors import StorageError
from reusebench.storage.result import Result
from reusebench.storage.trace import Trace, read_trace
from reusebench.system.files import printable, read_regular, replacing

__all__ = [
    "BOARD_SIZES_SCHEMA",
    "PARTS",
    "BoardSizes",
    "ScenarioSizes",
    "read_board_sizes",
    "sizes_of_results",
    "write_board_sizes",
]

#: Schema of every file; raise the number if a name or a meaning changes.
BOARD_SIZES_SCHEMA = "reusebench-board-sizes-1"

_Size = Annotated[int, msgspec.Meta(ge=0)]


class ScenarioSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The NPU memory of one scenario at the end of its steady phase."""

    scenario: str
    #: "ok", or the kind of the failure.
    outcome: str
    #: Per context, requested bytes by the name of the part; empty if it failed.
    contexts: tuple[dict[str, _Size], ...] = ()
    #: All buffers in whole pages; None if it failed.
    total_bytes: Optional[_Size] = None
    #: The largest sum of all buffers at once.
    peak_bytes: Optional[_Size] = None


class BoardSizes(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on one target."""

    schema: str
    #: Version of reusebench.
    version: str
    target: str
    chip: str
    driver_version: Optional[str]
    #: Version of Rockchip's library.
    library_version: Optional[str]
    #: False for the virtual board.
    computes: bool
    #: Key: name of the model; value: SHA-256 of its file.
    models: dict[str, str]
    scenarios: tuple[ScenarioSizes, ...]


def sizes_of_results(
    storage: Path, results: Iterable[Result], chip: str, version: str
) -> BoardSizes:
    """Return the sizes of these results, which have a ledger, of one target; raise StorageError."""
    models: dict[str, str] = {}
    scenarios = []
    last = None
    for last in results:
        models.update({model.name: model.digest for model in last.models})
        scenarios.append(_sizes_of(storage, last))
    if last is None:
        raise StorageError("there is no result to take sizes from: measure first")
    return BoardSizes(
        schema=BOARD_SIZES_SCHEMA,
        version=version,
        target=last.target,
        chip=chip,
        driver_version=last.driver_version,
        library_version=last.runtime_version,
        computes=last.computes,
        models=models,
        scenarios=tuple(scenarios),
    )


def _sizes_of(storage: Path, result: Result) -> ScenarioSizes:
    repeat = result.repeats[0] if result.repeats else None
    account = repeat.npu if repeat else None
    if result.outcome != "ok" or repeat is None or account is None:
        return ScenarioSizes(scenario=result.scenario, outcome=result.outcome)
    trace = read_trace(storage, repeat.trace, Trace)
    if trace is None or trace.npu is None:
        raise StorageError(f"the ledger of {result.scenario} is not in {storage}: measure again")
    steady = next(barrier for barrier in trace.barriers if barrier.phase == "steady")
    contexts = requested_sizes(result.plan, trace.barriers, trace.npu.ledger, steady.at_ns)
    return ScenarioSizes(
        scenario=result.scenario,
        outcome=result.outcome,
        contexts=tuple(contexts),
        total_bytes=account.total_bytes,
        peak_bytes=account.peak_bytes,
    )


def write_board_sizes(path: Path, sizes: BoardSizes) -> None:
    """Write the file; raise StorageError if that fails."""
    content = msgspec.json.format(msgspec.json.encode(sizes), indent=2)
    try:
        with replacing(path) as unfinished:
            unfinished.write_bytes(content + b"\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None


def read_board_sizes(path: Path) -> BoardSizes:
    """Return the sizes in a file; raise StorageError if there are none."""
    remedy = "Make it with: reusebench board verify --target vboard:CHIP --output FILE"
    try:
        content = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}. {remedy}") from None
    try:
        sizes = decode_stored(content, BoardSizes)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise StorageError(
            f"{path} has no sizes of a board: {printable(str(error))}. {remedy}"
        ) from None
    if sizes.schema != BOARD_SIZES_SCHEMA:
        raise StorageError(
            f"{path} has another form, {sizes.schema}, and this version reads"
            f" {BOARD_SIZES_SCHEMA}. {remedy}"
        )
    return sizes
