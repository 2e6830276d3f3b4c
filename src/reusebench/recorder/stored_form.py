"""The stored form of recordings: machine, commit, facts, figures of phases, and traces."""

from __future__ import annotations

import platform
import signal
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from reusebench.recorder.phase_figures import KINDS, PhaseRecord
from reusebench.recorder.process_tree import SeenProcess
from reusebench.recorder.recording import Readings, Recording
from reusebench.storage.group_charge import charge_of
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

#: Processes that a result names; the trace names all.
_MOST_PROCESSES = 20
#: Commit ids with which pytest-benchmark says that there is no commit.
_NO_COMMIT_IDS = ("unversioned", "unknown")


def run_document(project: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Return a run without results, in pytest-benchmark's form.

    Its commit is the project's; it has none outside a checkout.
    """
    # Not at the top: this import would add to the memory that is measured.
    import pytest_benchmark.utils

    utils: Any = pytest_benchmark.utils
    with inside(project):
        commit = utils.get_commit_info()
    has_commit = commit["id"] not in _NO_COMMIT_IDS
    return {
        "machine_info": {"python_version": platform.python_version(), **facts},
        "commit_info": commit if has_commit else {},
        "benchmarks": [],
        "version": pytest_benchmark.__version__,
    }


def outcome_of(recording: Recording, ok_exits: Collection[int] = ()) -> str:
    """Return the outcome of the program; it is no failure if the user ended it.

    `ok_exits` are exit codes besides 0 that are a success.
    """
    ending = recording.ending
    was_killed = signal.SIGKILL in (ending.signal_number, ending.shell_code - 128)
    if was_killed and ending.memory_ran_out:
        return "out_of_memory"
    kills = recording.oom_kills
    if ending.child_ran_out or (kills and kills.killed_count and kills.scope == "cgroup"):
        return "out_of_memory"
    if ending.signal_number:
        return "ok" if ending.signal_number == recording.ended_by else "crashed"
    if ending.exit_code and not recording.ended_by and ending.exit_code not in ok_exits:
        return "failed"
    return "ok"


def stored_repeat(recording: Recording, trace: str) -> ProgramRepeat:
    """Return one repeat; `trace` is the path of its trace, or empty if it has none yet."""
    duration_ns = recording.end_ns - recording.begin_ns
    recorder_cpu_percent = 100 * recording.recorder_cpu_ns / max(duration_ns, 1)
    signal_number = recording.ending.signal_number
    largest_first = sorted(
        recording.processes, key=lambda process: process.peak_rss_bytes, reverse=True
    )
    kills = recording.oom_kills
    shortage = None
    if recording.evidence:
        evidence = recording.evidence
        shortage = Shortage(
            counted=evidence.counted, signs=evidence.signs(), remarks=evidence.remarks()
        )
    return ProgramRepeat(
        started_at=recording.started_at,
        duration_ns=duration_ns,
        exit_code=recording.ending.exit_code,
        signal=_signal_name(signal_number) if signal_number else None,
        ended_by_user=recording.ended_by is not None,
        idle_system_memory_bytes=recording.idle_bytes,
        idle_noise_bytes=recording.idle.memory_noise_bytes,
        idle_cpu_percent=recording.idle.cpu_percent,
        recorder_cpu_percent=round(recorder_cpu_percent, 3),
        rss_readings=recording.rss_count,
        process_count=len(recording.processes),
        processes=tuple(
            _process(process, recording.begin_ns) for process in largest_first[:_MOST_PROCESSES]
        ),
        trace=trace,
        shortage=shortage,
        oom_kills=kills.killed_count if kills else None,
        oom_kills_of=kills.scope if kills else None,
        charge=charge_of((recording.idle_group, recording.most_group)),
        most_uncounted_fds=recording.most_uncounted,
    )


def stored_phases(recordings: Sequence[Recording]) -> tuple[Phase, ...]:
    """Return the phases of all repeats in order; a repeat without the phase has None there."""
    names: dict[str, None] = {}
    for recording in recordings:
        names.update(dict.fromkeys(recording.phases))
    return tuple(_phase(name, recordings) for name in names)


def _phase(name: str, recordings: Sequence[Recording]) -> Phase:
    # A record without readings has None for all memory.
    absent = PhaseRecord()
    records = [recording.phases.get(name, absent) for recording in recordings]

    durations_ns: list[int | None] = []
    over_idle_bytes: list[int | None] = []
    for recording, record in zip(recordings, records):
        durations_ns.append(None if record is absent else record.duration_ns)
        used_bytes = record.last("system_memory")
        over_idle_bytes.append(None if used_bytes is None else used_bytes - recording.idle_bytes)

    last_readings: dict[str, tuple[int | None, ...]] = {}
    medians: dict[str, tuple[int | None, ...]] = {}
    for kind in KINDS:
        last_readings[f"{kind}_bytes"] = tuple(record.last(kind) for record in records)
        medians[f"{kind}_bytes"] = tuple(record.readings[kind].median() for record in records)
    return Phase(
        name=name,
        durations_ns=tuple(durations_ns),
        pss_readings=tuple(record.readings[KINDS[0]].count for record in records),
        reading_ages_ns=tuple(record.age_ns() for record in records),
        process_peaks_exact=tuple(record.is_process_peak_exact for record in records),
        memory=PhaseMemory(
            **last_readings,
            system_memory_over_idle_bytes=tuple(over_idle_bytes),
            application_peak_rss_bytes=tuple(record.peak_bytes for record in records),
            process_peak_rss_bytes=tuple(record.process_peak_bytes for record in records),
            application_peak_rss_at_most_bytes=tuple(
                record.peak_at_most_bytes() for record in records
            ),
            application_memory_at_least_bytes=tuple(record.least_bytes for record in records),
            application_memory_at_most_bytes=tuple(record.most_bytes for record in records),
            npu_highest_bytes=tuple(
                record.readings["npu_memory"].highest_bytes for record in records
            ),
        ),
        medians=PhaseMedians(**medians),
    )


def trace_of(recording: Recording) -> ProgramTrace:
    """Return the trace; its times begin at the start of the recording."""
    begin_ns = recording.begin_ns
    rss = recording.rss
    pss = recording.pss
    return ProgramTrace(
        timeline=MemoryTimeline(_since(begin_ns, rss), rss_bytes=list(rss.values)),
        pss=MemoryTimeline(_since(begin_ns, pss), pss_bytes=list(pss.values)),
        system=MemoryTimeline(
            _since(begin_ns, recording.system), system_memory_bytes=list(recording.system.values)
        ),
        npu_held=MemoryTimeline(
            _since(begin_ns, recording.npu), npu_memory_bytes=list(recording.npu.values)
        ),
        phases=[
            PhaseTime(stretch.name, stretch.begin_ns - begin_ns, stretch.end_ns - begin_ns)
            for stretch in recording.stretches
        ],
        processes=[_process(process, begin_ns) for process in recording.processes],
    )


def _signal_name(number: int) -> str:
    """Return the name of a signal, or its number: most real-time signals have no name."""
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
