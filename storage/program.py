"""A program that `reusebench record` measured, as it is stored."""

from __future__ import annotations

from typing import Annotated, Optional

import msgspec

from storage.decoding import check_lengths
from targets.outcome import OUTCOMES

__all__ = ["PROGRAM_SCHEMA", "Phase", "PhaseMemory", "Process", "Program", "ProgramRepeat"]

#: Version of the stored form. 1: the first.
PROGRAM_SCHEMA = "reusebench-program-1"

_Bytes = tuple[Optional[int], ...]
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the program; times since the start of the recording."""

    pid: int
    name: str
    peak_rss_bytes: _Natural
    first_seen_ns: _Natural
    last_seen_ns: _Natural
    pss_readable: bool


class ProgramRepeat(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat: the program from start to end."""

    started_at: str
    duration_ns: _Natural
    exit_code: Optional[int]
    #: Name of the signal that ended it.
    signal: Optional[str]
    ended_by_user: bool
    idle_system_memory_bytes: _Natural
    idle_noise_bytes: _Natural
    idle_cpu_percent: float
    recorder_cpu_percent: float
    rss_readings: _Natural
    process_count: _Natural
    #: Those with the highest peaks; the trace has all.
    processes: tuple[Process, ...]
    #: Path, relative to the storage.
    trace: str


class PhaseMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory in a phase, in bytes; docs/record.md defines them. A value per repeat."""

    application_memory_bytes: _Bytes
    application_uss_bytes: _Bytes
    application_rss_bytes: _Bytes
    application_peak_rss_bytes: _Bytes
    process_peak_rss_bytes: _Bytes
    system_memory_bytes: _Bytes
    system_memory_over_idle_bytes: _Bytes
    npu_memory_bytes: _Bytes


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that the program marked; a value per repeat, None where the repeat did not go through it."""

    name: _Name
    durations_ns: _Bytes
    pss_readings: tuple[int, ...]
    memory: PhaseMemory


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded program."""

    schema: str
    run: str
    name: _Name
    command: tuple[str, ...]
    #: Whether it was running already.
    attached: bool
    sample_hz: float
    #: "ok", or what happened to the last repeat, in the words of the results of scenarios.
    outcome: str
    repeats: tuple[ProgramRepeat, ...]
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        """Refuse figures that are not of these repeats."""
        for phase in self.phases:
            lists = (phase.durations_ns, phase.pss_readings, *msgspec.structs.astuple(phase.memory))
            check_lengths("a phase", lists, len(self.repeats))
        if self.outcome not in OUTCOMES:
            raise ValueError(f"unknown outcome {self.outcome!r}; valid: {', '.join(OUTCOMES)}")
