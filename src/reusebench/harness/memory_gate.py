"""The gate of `pytest bench/`: it compares this run with a baseline that the user has named.

`reusebench compare` does so in a process of its own: it needs numpy, which the harness never
imports.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from reusebench.harness.errors import UserError
from reusebench.harness.extras import check_extra
from reusebench.harness.former_names import Add
from reusebench.storage.errors import StorageError
from reusebench.storage.limits import GateLimit, parse_limit
from reusebench.storage.references import find_runs
from reusebench.storage.runs import CONDITIONS, Run, read_runs
from reusebench.system import processes
from reusebench.system.package import python_command

__all__ = ["MemoryGate", "Verdict", "add_gate_options", "make_gate"]

#: References that mean another run every time: the newest, one before it, a range with one of them.
_MOVES = re.compile(r"(.*\.\.)?latest(~\d+)?(\.\..*)?")


def add_gate_options(add: Add) -> None:
    """Declare the options."""
    add(
        "--baseline",
        metavar="RUNS",
        help=("Compare with these runs at the end: a name, a number, a file, a git revision."),
    )
    add(
        "--fail",
        action="append",
        metavar="LIMIT",
        type=parse_limit,
        help=(
            "Fail if a figure got worse by more, and not by noise; repeatable. METRIC:LIMIT, as"
            " application_memory:2%%+512KiB (`reusebench metrics`)."
        ),
    )
    add(
        "--across",
        action="append",
        metavar="CONDITION",
        choices=CONDITIONS,
        help=f"Compare although this differs; repeatable: {', '.join(CONDITIONS)}.",
    )


@dataclass(frozen=True)
class Verdict:
    """The outcome of the comparison."""

    passed: bool
    #: The output of `reusebench compare`.
    text: str


@dataclass(frozen=True)
class MemoryGate:
    """A baseline, and the limits by which a run may be worse."""

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
        # It runs in the user's working folder, to which names of files are relative.
        done = processes.run(command, errors=subprocess.STDOUT)
        return Verdict(done.returncode == 0, done.stdout.rstrip())


def make_gate(option: argparse.Namespace, storage: Path) -> MemoryGate | None:
    """Return the gate that the options describe; None without options.

    Raises UserError if --baseline names no run.
    """
    baseline = option.baseline
    limits = option.fail or ()
    across = option.across or ()
    if baseline is None:
        if not limits and not across:
            return None
        raise UserError(
            "--fail and --across need --baseline RUNS: the name, number or"
            " file of the runs to compare with. Make some with `pytest bench/"
            " --benchmark-save=NAME`"
        )
    if _MOVES.fullmatch(baseline):
        raise UserError(
            f"--baseline {baseline}: this moves, so that a run that got worse would be the"
            " next baseline. Name one that stays: a name given with --benchmark-save, a number, a"
            " file or a git revision"
        )
    check_extra("reports", "--baseline")
    known = []
    if storage.is_dir():
        known = [run for run in read_runs(storage) if isinstance(run, Run)]
    try:
        find_runs(baseline, known, Path())
    except StorageError as error:
        raise UserError(f"--baseline: {error}") from None
    return MemoryGate(baseline, tuple(limits), tuple(across), storage)
