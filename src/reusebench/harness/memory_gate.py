"""The gate of `pytest bench/`: it compares this run with a baseline that the user has named.

`reusebench compare` does so in a process of its own: it needs numpy, which the harness never
imports.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reusebench.harness.errors import UserError
from reusebench.harness.extras import check_extra
from reusebench.harness.former_names import Add
from reusebench.storage.errors import StorageError
from reusebench.storage.limits import GateLimit, parse_limit
from reusebench.storage.references import find_runs
from reusebench.storage.runs import CONDITIONS
from reusebench.system import processes
from reusebench.system.package import python_command

__all__ = [
    "BROKEN",
    "FAILED",
    "PASSED",
    "UNDECIDED",
    "GateCase",
    "MemoryGate",
    "Verdict",
    "add_gate_options",
    "make_gate",
    "refuse_workers",
]

PASSED = "passed"
#: A figure got worse by more than a limit allows, or a configuration fails now.
FAILED = "failed"
#: The measurements do not decide.
UNDECIDED = "undecided"
#: The gate could not be judged.
BROKEN = "broken"
#: Key: the outcome of a limit in the comparison's document.
_OUTCOMES = {"within": PASSED, "worse": FAILED, "undecided": UNDECIDED, "not held": BROKEN}

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
    # pytest has --strict itself.
    add(
        "--strict-gate",
        action="store_true",
        help="Fail also if the measurements do not decide whether a limit of --fail is kept.",
    )


@dataclass(frozen=True)
class GateCase:
    """A part of the gate that is judged by itself: one limit, or a configuration that fails now."""

    name: str
    #: PASSED, FAILED, UNDECIDED or BROKEN.
    outcome: str
    #: The sentences about it.
    text: str
    baseline: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of the comparison."""

    passed: bool
    #: The output of `reusebench compare`.
    text: str
    cases: tuple[GateCase, ...] = ()
    #: Commands to GitHub's runner, if that runs the session.
    annotations: str = ""


@dataclass(frozen=True)
class MemoryGate:
    """A baseline, and the limits by which a run may be worse."""

    baseline: str
    limits: tuple[GateLimit, ...]
    across: tuple[str, ...]
    storage: Path
    is_strict: bool = False

    def judge(self, saved: Path | None) -> Verdict:
        """Compare the stored run with the baseline; None if nothing was stored."""
        if saved is None:
            reason = "nothing was measured: nothing to compare"
            return Verdict(False, reason, (self._whole(BROKEN, reason),))
        command = python_command("reusebench", "compare", "--storage", str(self.storage))
        for limit in self.limits:
            command += ["--fail", limit.text]
        for condition in self.across:
            command += ["--across", condition]
        if self.is_strict and self.limits:
            command.append("--strict")
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "document"
            annotations = Path(folder) / "annotations"
            command += ["--write", f"json={document}", "--write", f"github={annotations}"]
            command += ["--", self.baseline, str(saved)]
            # It runs in the user's working folder, to which names of files are relative.
            done = processes.run(command, errors=subprocess.STDOUT)
            text = done.stdout.rstrip()
            passed = done.returncode == 0
            return Verdict(
                passed,
                text,
                tuple(self._cases(_content(document), text, passed)),
                _content(annotations).rstrip() if "GITHUB_ACTIONS" in os.environ else "",
            )

    def _cases(self, document: str, text: str, passed: bool) -> Iterator[GateCase]:
        gate = json.loads(document)["result"]["gate"] if document else None
        is_told = False
        for case in self._judged(gate or {"limits": (), "lost": ()}):
            is_told = is_told or case.outcome in (FAILED, BROKEN)
            yield case
        # A stored file is damaged, conditions differ, or the command has failed.
        if not passed and not is_told:
            yield self._whole(BROKEN, text)
        elif gate is None:
            yield self._whole(PASSED, text)

    def _judged(self, gate: Mapping[str, Any]) -> Iterator[GateCase]:
        for lost in gate["lost"]:
            yield GateCase(lost["configuration"], FAILED, lost["sentence"], self.baseline)
        for limit in gate["limits"]:
            outcome = _OUTCOMES[limit["outcome"]]
            if outcome == UNDECIDED and self.is_strict:
                outcome = BROKEN
            text = "\n".join(limit["sentences"])
            yield GateCase(limit["limit"], outcome, text, self.baseline)

    def _whole(self, outcome: str, text: str) -> GateCase:
        return GateCase("comparison", outcome, text, self.baseline)


def _content(path: Path) -> str:
    """Return the file's text; empty if the comparison has ended before it was written."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def refuse_workers(option: argparse.Namespace) -> None:
    """Raise UserError if pytest-xdist is to share out the tests of a session with a gate."""
    if option.baseline is not None and getattr(option, "numprocesses", None):
        raise UserError(
            "--baseline needs one process, since others would disturb the measurement: leave out -n"
        )


def make_gate(option: argparse.Namespace, storage: Path) -> MemoryGate | None:
    """Return the gate that the options describe; None without options.

    Raises UserError if --baseline names no run.
    """
    baseline = option.baseline
    limits = option.fail or ()
    across = option.across or ()
    if baseline is None:
        if not limits and not across and not option.strict_gate:
            return None
        raise UserError(
            "--fail, --across and --strict-gate need --baseline RUNS: the name, number or"
            " file of the runs to compare with. Make some with `reusebench"
            " bench --benchmark-save=NAME`"
        )
    if _MOVES.fullmatch(baseline):
        raise UserError(
            f"--baseline {baseline}: this moves, so that a run that got worse would be the"
            " next baseline. Name one that stays: a name given with --benchmark-save, a number, a"
            " file or a git revision"
        )
    check_extra("reports", "--baseline")
    # Not at the top: only a session with a gate needs it. Nothing is written before measuring.
    from reusebench.storage.index.stored_runs import StoredRuns

    stored = StoredRuns.open([storage] if storage.is_dir() else [], may_write=False)
    try:
        find_runs(baseline, stored.runs, Path())
    except StorageError as error:
        raise UserError(f"--baseline: {error}") from None
    return MemoryGate(baseline, tuple(limits), tuple(across), storage, option.strict_gate)
