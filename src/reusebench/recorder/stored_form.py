"""What is stored of recordings: the machine and the commit, their facts, the figures of their
phases, their traces.
"""

from __future__ import annotations

import platform
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reusebench.recorder.phase_figures import KINDS, PhaseRecord
from reusebench.recorder.process_tree import SeenProcess
from reusebench.recorder.recording import Readings, Recording
from reusebench.samplers.shortage_evidence import Evidence
from reusebench.storage.memory_shortage import Shortage
from reusebench.storage.recorded_program import (
    Phase,
    PhaseMedians,
    PhaseMemory,
    ProgramRepeat,
    RecordedProcess,
)
from reusebench.storage.trace import MemoryTimeline, PhaseTime, ProgramTrace
from reusebench.system.files import inside

__all__ = ["outcome_of", "run_document", "stored_phases", "stored_repeat", "trace_of"]

#: Processes that a result names; the trace has all.
_MOST_PROCESSES = 20
#: What pytest-benchmark calls a commit that is none.
_NO_COMMITS = ("unversioned", "unknown")


def run_document(project: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Return a run without results in pytest-benchmark's form; its commit is the project's, none
    outside a checkout.
    """
    # Not at the top: while the program runs, it would weigh on it.
    import pytest_benchmark.utils

    utils: Any = pytest_benchmark.utils
    with inside(project):
        commit = utils.get_commit_info()
    return {
        "machine_info": {"python_version": platform.python_version(), **facts},
        "commit_info": {} if commit["id"] in _NO_COMMITS else commit,
        "benchmarks": [],
        "version": pytest_benchmark.__version__,
    }


def outcome_of(recording: Recording) -> str:
    """Return what became of the program; that the user ended it is no failure."""
    ending = recording.ending
    was_killed = signal.SIGKILL in (ending.signal_number, ending.shell_code - 128)
    if was_killed and ending.memory_ran_out:
        return "out_of_memory"
    if ending.signal_number:
        return "ok" if ending.signal_number == recording.ended_by else "crashed"
    return "failed" if ending.exit_code and not recording.ended_by else "ok"


def stored_repeat(recording: Recording, trace: str) -> ProgramRepeat:
    """Return what is stored of one repeat; `trace` is the path of its trace, if it has one yet."""
    duration_ns = recording.end_ns - recording.begin_ns
    number = recording.ending.signal_number
    highest_first = sorted(
        recording.processes, key=lambda process: process.peak_rss_bytes, reverse=True
    )
    return ProgramRepeat(
        started_at=recording.started_at,
        duration_ns=duration_ns,
        exit_code=recording.ending.exit_code,
        signal=_signal_name(number) if number else None,
        ended_by_user=recording.ended_by is not None,
        idle_system_memory_bytes=recording.idle_bytes,
        idle_noise_bytes=recording.idle.memory_noise_bytes,
        idle_cpu_percent=recording.idle.cpu_percent,
        recorder_cpu_percent=round(100 * recording.recorder_cpu_ns / max(duration_ns, 1), 3),
        rss_readings=recording.rss_count,
        process_count=len(recording.processes),
        processes=tuple(
            _process(process, recording.begin_ns) for process in highest_first[:_MOST_PROCESSES]
        ),
        trace=trace,
        shortage=_shortage(recording.evidence) if recording.evidence else None,
    )


def stored_phases(recordings: Sequence[Recording]) -> tuple[Phase, ...]:
    """Return the phases of all repeats by name, in order; a repeat that did not go through a phase
    has None there.
    """
    names = dict.fromkeys(name for recording in recordings for name in recording.phases)
    return tuple(_phase(name, recordings) for name in names)


def _shortage(evidence: Evidence) -> Shortage:
    return Shortage(counted=evidence.counted, signs=tuple(evidence.signs()))


def _phase(name: str, recordings: Sequence[Recording]) -> Phase:
    # A record without readings gives None for all of its memory.
    absent = PhaseRecord()
    records = [recording.phases.get(name, absent) for recording in recordings]
    ends = {f"{kind}_bytes": tuple(record.last(kind) for record in records) for kind in KINDS}
    over_idle = [
        None if used is None else used - recording.idle_bytes
        for used, recording in zip(ends["system_memory_bytes"], recordings)
    ]
    return Phase(
        name=name,
        durations_ns=tuple(None if record is absent else record.duration_ns for record in records),
        pss_readings=tuple(record.series[KINDS[0]].count for record in records),
        reading_ages_ns=tuple(record.age_ns() for record in records),
        process_peaks_exact=tuple(record.is_process_peak_exact for record in records),
        memory=PhaseMemory(
            **ends,
            system_memory_over_idle_bytes=tuple(over_idle),
            application_peak_rss_bytes=tuple(record.peak_bytes for record in records),
            process_peak_rss_bytes=tuple(record.process_peak_bytes for record in records),
            application_peak_rss_at_most_bytes=tuple(
                record.peak_at_most_bytes() for record in records
            ),
        ),
        medians=PhaseMedians(
            **{
                f"{kind}_bytes": tuple(record.series[kind].median() for record in records)
                for kind in KINDS
            }
        ),
    )


def trace_of(recording: Recording) -> ProgramTrace:
    """Return the trace; times since the start."""
    begin_ns = recording.begin_ns
    rss = recording.rss
    stretches = recording.stretches
    return ProgramTrace(
        timeline=MemoryTimeline(_since(begin_ns, rss), rss_bytes=list(rss.values)),
        pss=MemoryTimeline(_since(begin_ns, recording.pss), pss_bytes=list(recording.pss.values)),
        system=MemoryTimeline(
            _since(begin_ns, recording.system), system_memory_bytes=list(recording.system.values)
        ),
        npu_held=MemoryTimeline(
            _since(begin_ns, recording.npu), npu_memory_bytes=list(recording.npu.values)
        ),
        phases=[
            PhaseTime(part.name, part.begin_ns - begin_ns, part.end_ns - begin_ns)
            for part in stretches
        ],
        processes=[_process(process, begin_ns) for process in recording.processes],
    )


def _signal_name(number: int) -> str:
    """Return the name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _process(process: SeenProcess, begin_ns: int) -> RecordedProcess:
    return RecordedProcess(
        pid=process.pid,
        name=process.name,
        peak_rss_bytes=process.peak_rss_bytes,
        first_seen_ns=process.first_seen_ns - begin_ns,
        last_seen_ns=process.last_seen_ns - begin_ns,
        pss_readable=process.pss_readable,
    )


def _since(begin_ns: int, readings: Readings) -> list[int]:
    return [time_ns - begin_ns for time_ns in readings.times_ns]
