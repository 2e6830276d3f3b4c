"""A stored run of three boards, one of which could not be measured."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reusebench.measured.messages import Message
from reusebench.storage.run_file import MachineInfo
from reusebench.targets.outcome import Failure
from tests.reports.stored import MACHINE, changed, dup, even, result, write_run

REASON = "no route to host"
_LOST = Failure("not_measured", "prepare", None, Message("text", {"text": REASON}))
#: Key: a board; value: MiB of each of its contexts without reuse.
MIB_OF = {"rock5a": 20, "rock5b": 30}


def three_boards(storage: Path, number: int = 1) -> Path:
    """Write the run, and return its file."""
    infos = []
    for board, size in MIB_OF.items():
        for info in (
            result(storage, "no_reuse_one_model", even(size, spread=0.5)),
            result(storage, "full_dup", dup(size, 5)),
        ):
            infos.append(changed(info, board=board, target=board, chip="rk3588"))
    lost = result(storage, "full_dup", [], failure=_LOST)
    infos.append(changed(lost, board="pico", target="pico"))
    boards = {**{board: _machine(board) for board in MIB_OF}, "pico": None}
    return write_run(storage, infos, number, boards=boards)


def _machine(board: str) -> MachineInfo:
    facts = msgspec.structs.replace(MACHINE.reusebench, board=board)
    return msgspec.structs.replace(MACHINE, reusebench=facts)
