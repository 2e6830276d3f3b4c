"""The options of a session with several --target: pytest-xdist's are set, wrong ones refused."""

from __future__ import annotations

import argparse

import pytest

from reusebench.harness.errors import UserError
from reusebench.harness.fleet.boards import FleetBoard, fleet_boards
from reusebench.harness.selection import targets_of

__all__ = ["prepare_fleet"]

#: Options that need all results in one process, and their defaults.
_OF_ONE_PROCESS = (
    "benchmark_json",
    "benchmark_compare",
    "benchmark_histogram",
    "benchmark_cprofile",
)


def prepare_fleet(config: pytest.Config) -> tuple[FleetBoard, ...]:
    """Have pytest-xdist start a worker for each board; return no board if there is one --target.

    Raises UserError.
    """
    option: argparse.Namespace = config.option
    targets = targets_of(option)
    if len(targets) == 1:
        return ()
    boards = fleet_boards(targets)
    if option.collectonly:  # the questions are the same on all boards
        option.target = [targets[0]]
        return ()
    if not hasattr(option, "tx"):
        raise UserError(
            "several --target need pytest-xdist, which is not here or switched off: pip install"
            " pytest-xdist"
        )
    if option.tx or option.dist != "no" or option.numprocesses:
        raise UserError(
            "several --target start a worker for each board: leave out -n, --dist and --tx"
        )
    if option.usepdb:
        raise UserError("--pdb needs one process: measure one --target, or leave --pdb out")
    for name in _OF_ONE_PROCESS:
        if getattr(option, name):
            words = name.replace("_", "-")
            raise UserError(
                f"--{words} shows the benchmarks of one process: measure one --target, or leave it"
                " out; `reusebench report`, `compare` and `export` have those of all boards"
            )
    option.dist = "each"
    option.tx = [f"popen//id={board.label}" for board in boards]
    # Each worker has been given all its tests: another one would measure what is missing on a board
    # that has ended one.
    option.maxworkerrestart = 0
    return boards
