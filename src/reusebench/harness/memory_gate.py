"""The gate of `pytest bench/`: this run against a baseline that the user has named, by `reusebench
compare`.

In a process of its own: the comparison needs numpy, which the harness never imports.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reusebench.harness.errors import UserError
from reusebench.harness.extras import check_extra
from reusebench.storage.errors import StorageError
from reusebench.storage.limits import GateLimit, parse_limit
from reusebench.storage.references import find_runs
from reusebench.storage.runs import CONDITIONS, Run, read_runs
from reusebench.system import processes
from reusebench.system.package import python_command

__all__ = ["MemoryGate", "Verdict", "add_gate_options", "make_gate"]

#: References to another run every time: the newest, one before it, a range with one of them.
_MOVES = re.compile(r"(.*\.\.)?latest(~\d+)?(\.\..*)?")


def add_gate_options(add: Callable[..., Any]) -> None:
    """Declare the options."""
    add(
        "--memory-baseline",
        metavar="RUNS",
        help=(
            "Compare this run with these at the end: a name given with --benchmark-save, a number,"
            " a file, a git revision. Not `latest`: a run that got worse must not become the next"
            " baseline."
        ),
    )
    add(
        "--memory-fail",
        action="append",
        metavar="LIMIT",
        type=parse_limit,
        help=(
            "Fail where a figure got worse than the baseline's by more, and it is no noise:"
            " METRIC:PERCENT%%+AMOUNT, such as application_memory:2%%+512KiB or npu_memory:0;"
            " repeatable."
        ),
    )
    add(
        "--memory-across",
        action="append",
        metavar="CONDITION",
        choices=CONDITIONS,
        help=(
            f"Compare with the baseline although this differs; repeatable: {', '.join(CONDITIONS)}."
        ),
    )


@dataclass(frozen=True)
class Verdict:
    """What came of the comparison."""

    passed: bool
    #: What `reusebench compare` printed.
    text: str


@dataclass(frozen=True)
class MemoryGate:
    """A baseline, and how much worse than it a run may be."""

    baseline: str
    limits: tuple[GateLimit, ...]
    across: tuple[str, ...]
    storage: Path

    def judge(self, saved: Path) -> Verdict:
        """Compare the stored run with the baseline."""
        command = python_command("reusebench", "compare", "--storage", str(self.storage))
        for limit in self.limits:
            command += ["--fail", limit.text]
        for condition in self.across:
            command += ["--across", condition]
        command += ["--", self.baseline, str(saved)]
        # It runs in the user's working folder, which names of files are relative to.
        done = processes.run(command, errors=subprocess.STDOUT)
        return Verdict(done.returncode == 0, done.stdout.rstrip())


def make_gate(option: argparse.Namespace, storage: Path) -> MemoryGate | None:
    """Return the gate that the options describe; None without any. Raise UserError if the
    baseline is none.
    """
    baseline = option.memory_baseline
    limits = option.memory_fail or ()
    across = option.memory_across or ()
    if baseline is None:
        if limits or across:
            raise UserError(
                "--memory-fail and --memory-across need --memory-baseline RUNS: the name, number or"
                " file of the runs to compare with. Make some with `pytest bench/"
                " --benchmark-save=NAME`"
            )
        return None
    if _MOVES.fullmatch(baseline):
        raise UserError(
            f"--memory-baseline {baseline}: this moves, so that a run that got worse would be the"
            " next baseline. Name one that stays: a name given with --benchmark-save, a number, a"
            " file or a git revision"
        )
    check_extra("reports", "--memory-baseline")
    known = [run for run in read_runs(storage) if isinstance(run, Run)] if storage.is_dir() else []
    try:
        find_runs(baseline, known, Path())
    except StorageError as error:
        raise UserError(f"--memory-baseline: {error}") from None
    return MemoryGate(baseline, tuple(limits), tuple(across), storage)
