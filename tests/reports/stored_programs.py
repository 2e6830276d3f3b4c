"""Stored recordings of programs, made from chosen figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import Pressure
from reusebench.storage.memory_shortage import Shortage
from reusebench.storage.recorded_program import (
    PROGRAM_SCHEMA,
    Phase,
    PhaseMedians,
    PhaseMemory,
    Program,
    ProgramRepeat,
    RecordedProcess,
)
from reusebench.storage.run_file import PROGRAMS, Commit
from reusebench.storage.trace import MemoryTimeline, PhaseTime, ProgramTrace, write_trace
from tests.reports.stored import MACHINE, MIB

_S = 10**9
_RARE = ("hugetlb_memory_bytes", "held_memory_bytes", "dmabuf_memory_bytes")


@dataclass(frozen=True)
class Repeat:
    """A repeat with phases of a second, and the MiB of every memory in each."""

    phases: Mapping[str, float]
    trace: str = "traces/lost.json.gz"
    npu: bool = False
    exit_code: int | None = 0
    signal: str | None = None
    #: Signs that memory was short.
    signs: tuple[Message, ...] = ()
    #: MiB of huge pages, of files that are held, and of dma-bufs.
    rare: float = 0
    uncounted: int | None = 0


def program(name: str, repeats: Sequence[Repeat], outcome: str = "ok") -> Program:
    """Return a recorded program."""
    names = dict.fromkeys(name for repeat in repeats for name in repeat.phases)
    return Program(
        schema=PROGRAM_SCHEMA,
        run=f"run-{name}",
        name=name,
        command=(f"./{name}",),
        attached=False,
        sample_hz=20,
        outcome=outcome,
        repeats=tuple(map(_recording, repeats)),
        phases=tuple(_phase(phase, repeats) for phase in names),
    )


def trace(
    storage: Path, name: str, phases: Sequence[str] = ("load", "steady"), npu: bool = False
) -> str:
    """Write a trace in which each phase takes a second and 10 MiB more than the one before; return
    its path.
    """
    times_ns = [number * _S // 4 for number in range(4 * len(phases) + 1)]
    sizes = [(time_ns // _S + 1) * 10 * MIB for time_ns in times_ns]
    content = ProgramTrace(
        timeline=MemoryTimeline(times_ns, rss_bytes=sizes),
        pss=MemoryTimeline(times_ns[::2], pss_bytes=sizes[::2]),
        system=MemoryTimeline(times_ns[::2], system_memory_bytes=sizes[::2]),
        npu_held=MemoryTimeline(times_ns[::2], npu_memory_bytes=sizes[::2])
        if npu
        else MemoryTimeline([]),
        phases=[
            PhaseTime(phase, index * _S, (index + 1) * _S) for index, phase in enumerate(phases)
        ],
        processes=[],
    )
    return write_trace(storage, "recorded", name, content)


def write_programs(
    storage: Path, programs: Sequence[Program], number: int = 1, at: str = "2026-01-02T03:04:05"
) -> Path:
    """Write one run's file, and return its path."""
    document = {
        "machine_info": MACHINE,
        "commit_info": Commit(id="0123456789abcdef"),
        "benchmarks": [],
        "datetime": f"{at}+00:00",
        "version": "5.3.1",
        PROGRAMS: list(programs),
    }
    path = storage / "Linux-CPython-3.11-64bit" / f"{number:04}_20260102_030405.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(document))
    return path


def _recording(repeat: Repeat) -> ProgramRepeat:
    duration_ns = len(repeat.phases) * _S
    process = RecordedProcess(
        pid=4321,
        name="decoder",
        peak_rss_bytes=round(max(repeat.phases.values()) * MIB),
        first_seen_ns=0,
        last_seen_ns=duration_ns,
        pss_readable=True,
    )
    return ProgramRepeat(
        started_at="2026-01-02T03:04:05+00:00",
        duration_ns=duration_ns,
        exit_code=repeat.exit_code,
        signal=repeat.signal,
        ended_by_user=False,
        idle_system_memory_bytes=500 * MIB,
        idle_noise_bytes=MIB,
        idle_cpu_percent=1.0,
        recorder_cpu_percent=0.5,
        rss_readings=20,
        process_count=1,
        processes=(process,),
        trace=repeat.trace,
        shortage=Shortage(counted=Pressure(), signs=repeat.signs),
        most_uncounted_fds=repeat.uncounted,
    )


def _phase(name: str, repeats: Sequence[Repeat]) -> Phase:
    sizes = tuple(
        round(repeat.phases[name] * MIB) if name in repeat.phases else None for repeat in repeats
    )
    npu = tuple(size if repeat.npu else None for size, repeat in zip(sizes, repeats))
    rare = tuple(round(repeat.rare * MIB) if name in repeat.phases else None for repeat in repeats)
    figures = {
        **dict.fromkeys(PhaseMemory.__struct_fields__, sizes),
        **dict.fromkeys(_RARE, rare),
        "npu_memory_bytes": npu,
    }
    durations_ns = tuple(None if size is None else _S for size in sizes)
    return Phase(
        name=name,
        durations_ns=durations_ns,
        pss_readings=(3,) * len(repeats),
        reading_ages_ns=(0,) * len(repeats),
        process_peaks_exact=(True,) * len(repeats),
        memory=PhaseMemory(**figures),
        medians=PhaseMedians(**{name: figures[name] for name in PhaseMedians.__struct_fields__}),
    )
