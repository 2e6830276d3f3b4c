"""Runs that tests make: what a program gave, and what was read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reusebench.accounting.ledger import Ledger
from reusebench.apply.comparison.runs import Run
from reusebench.apply.report import Digest, ProcessReport
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.program import ProgramEnding
from reusebench.recorder.recording import Recording
from reusebench.samplers.system_memory import Idle

__all__ = ["made_run", "report"]

MIB = 1 << 20
_S = 10**9


def report(digests: Mapping[str, tuple[int, int]]) -> ProcessReport:
    """Return the report of a process with these models: number of runs, and sum of digests."""
    return ProcessReport(
        runtime="onnxruntime",
        version=None,
        process=1,
        contexts=len(digests),
        models=len(digests),
        shared={},
        saved_bytes={},
        most_at_once=1,
        left_alone={},
        failures={},
        digests={model: Digest(runs, f"{total:032x}") for model, (runs, total) in digests.items()},
    )


def made_run(
    output: str = "",
    *digests: Mapping[str, tuple[int, int]],
    memory_mib: float = 100,
    time_s: float = 1.0,
    ending: ProgramEnding | None = None,
    ledger: Ledger | None = None,
    **values: Any,
) -> Run:
    """Return a run that printed this; each of `digests` is a process."""
    phase = PhaseRecord()
    phase.add_peak(int(memory_mib * MIB), int(memory_mib * MIB))
    recording = Recording("", 0, Idle(0, 0.0), 0, end_ns=int(time_s * _S))
    recording.phases = {"run": phase}
    recording.ending = ending or ProgramEnding(exit_code=0)
    recording.ledger = ledger
    run = Run(recording, output.encode(), "", tuple(map(report, digests)), is_hung=False)
    return replace(run, **values)
