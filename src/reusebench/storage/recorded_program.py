"""The stored form of a program that `reusebench record` measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal, Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.storage.decoding import check_lengths
from reusebench.storage.group_charge import GroupCharge
from reusebench.storage.measured_figure import Figure
from reusebench.storage.memory_shortage import Shortage, once, signs_of
from reusebench.storage.unseen_memory import unseen_memory
from reusebench.targets.outcome import OUTCOMES

__all__ = [
    "PROGRAM_SCHEMA",
    "Phase",
    "PhaseMedians",
    "PhaseMemory",
    "Program",
    "ProgramRepeat",
    "RecordedProcess",
]

#: Schema of every program; raise the number if a name or a meaning changes. Other versions are not
#: read. Version 2 (2026-11): a phase has its memory at its end, medians, and upper bounds of peaks.
PROGRAM_SCHEMA = "reusebench-program-2"

#: Share of application memory that is within its error.
_EXACT_SHARE = 0.01
#: Age of a reading that is not worth a word.
_SHORT_AGE_NS = 10**7

_Bytes = tuple[Optional[int], ...]
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class RecordedProcess(msgspec.Struct, frozen=True, kw_only=True):
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
    #: The processes with the highest peaks; the trace has all.
    processes: tuple[RecordedProcess, ...]
    #: Path relative to the storage; empty until the repeat has ended.
    trace: str
    #: None in runs before this was stored.
    shortage: Optional[Shortage] = None
    #: None without a limit of its control group, and in runs before this was stored.
    charge: Optional[GroupCharge] = None
    #: Most pipes, sockets and other descriptors at once whose memory cannot be counted; None in
    #: runs before this was stored.
    most_uncounted_fds: Optional[int] = None
    #: Processes that the kernel killed for memory meanwhile. None if it does not count, and in runs
    #: before this was stored.
    oom_kills: Optional[_Natural] = None
    #: Whose processes are counted: "cgroup", the program's control group, or "system".
    oom_kills_of: Optional[Literal["cgroup", "system"]] = None


class PhaseMedians(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the time of a phase, in bytes, with a value per repeat."""

    application_memory_bytes: _Bytes
    application_uss_bytes: _Bytes
    application_rss_bytes: _Bytes
    system_memory_bytes: _Bytes
    npu_memory_bytes: _Bytes
    #: The following are empty in runs before they were stored.
    hugetlb_memory_bytes: _Bytes = ()
    held_memory_bytes: _Bytes = ()
    dmabuf_memory_bytes: _Bytes = ()


class PhaseMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory at the end of a phase, and its peaks, in bytes, with a value per repeat.

    docs/reference/record.md defines the figures.
    """

    application_memory_bytes: _Bytes
    application_uss_bytes: _Bytes
    application_rss_bytes: _Bytes
    application_peak_rss_bytes: _Bytes
    process_peak_rss_bytes: _Bytes
    system_memory_bytes: _Bytes
    system_memory_over_idle_bytes: _Bytes
    npu_memory_bytes: _Bytes
    #: Upper bound of application_peak_rss_bytes; None if unknown, as a peak may have been missed.
    application_peak_rss_at_most_bytes: _Bytes
    #: Bounds of application_memory_bytes at the mark, which are equal if the program waited for the
    #: answer. None in recordings before they were stored, and for repeats without bounds.
    application_memory_at_least_bytes: Optional[_Bytes] = None
    application_memory_at_most_bytes: Optional[_Bytes] = None
    #: The following are empty in runs before they were stored.
    hugetlb_memory_bytes: _Bytes = ()
    held_memory_bytes: _Bytes = ()
    dmabuf_memory_bytes: _Bytes = ()
    #: The highest reading of the phase; exact on the virtual board, where the ledger has it.
    npu_highest_bytes: _Bytes = ()


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that the program marked, with a value per repeat; None if a repeat skipped it."""

    name: _Name
    durations_ns: _Bytes
    pss_readings: tuple[int, ...]
    #: Time from the reading of application memory to the end of the phase.
    reading_ages_ns: _Bytes
    #: Whether process_peak_rss_bytes is the kernel's, which misses nothing; otherwise it is the
    #: highest reading.
    process_peaks_exact: tuple[bool, ...]
    memory: PhaseMemory
    medians: PhaseMedians

    @property
    def lists(self) -> tuple[Optional[Sequence[object]], ...]:
        """All lists with a value per repeat, without those that were not stored."""
        own = (self.durations_ns, self.pss_readings, self.reading_ages_ns, self.process_peaks_exact)
        return (*own, *_stored_lists(self.memory), *_stored_lists(self.medians))

    @property
    def memory_bounds(self) -> Optional[tuple[Figure, Figure]]:
        """Bounds of application memory, if they are farther from it than its error.

        The program went on at its mark then.
        """
        figure = Figure.of(self.memory.application_memory_bytes)
        least = Figure.of(self.memory.application_memory_at_least_bytes or ())
        most = Figure.of(self.memory.application_memory_at_most_bytes or ())
        if not (figure and least and most):
            return None
        distance = max(figure.median - least.median, most.median - figure.median)
        return (least, most) if distance > _EXACT_SHARE * figure.median else None

    @property
    def memory_age_ns(self) -> Optional[int]:
        """Time from the reading of application memory to the phase's end, the longest of a repeat.

        None if it is short, or if bounds tell what the memory was at the end.
        """
        bounds = self.memory.application_memory_at_least_bytes or ()
        longest_ns = 0
        for number, age_ns in enumerate(self.reading_ages_ns):
            if not bounds or bounds[number] is None:
                longest_ns = max(longest_ns, age_ns or 0)
        return longest_ns if longest_ns >= _SHORT_AGE_NS else None


def _stored_lists(figures: PhaseMemory | PhaseMedians) -> Iterator[_Bytes]:
    """Yield the lists of figures; those with a default are left out if there is nothing."""
    for field in msgspec.structs.fields(figures):
        values: _Bytes = getattr(figures, field.name)
        if values or field.required:
            yield values


def _unexplained_bytes(phase: Phase, system: Figure) -> float:
    """Return the part of system memory that the program's own does not explain; 0 if unknown.

    Buffers of an NPU may be part of application memory, or beside it.
    """
    memory = phase.memory
    application = Figure.of(memory.application_memory_bytes)
    if application is None:
        return 0

    figures = [Figure.of(memory.npu_memory_bytes), Figure.of(memory.dmabuf_memory_bytes)]
    buffers = sum(figure.median for figure in figures if figure)
    below = application.median - system.median
    above = system.median - application.median - buffers
    return max(0, below, above)


def _most(phases: Iterable[_Bytes]) -> int:
    """Return the highest figure of any phase and repeat; 0 if none is known."""
    return max((value or 0 for values in phases for value in values), default=0)


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded program."""

    schema: str
    run: str
    name: _Name
    command: tuple[str, ...]
    #: Whether the program ran before the recording began.
    attached: bool
    sample_hz: float
    #: "ok", or the failure of the last repeat, named as in results of scenarios. "cut_off" while
    #: the program is recorded, and for good if the recorder was killed.
    outcome: str
    repeats: tuple[ProgramRepeat, ...]
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        """Refuse lists of other lengths than the repeats, and unknown outcomes."""
        for phase in self.phases:
            check_lengths("a phase", phase.lists, len(self.repeats))
        if self.outcome not in OUTCOMES:
            raise ValueError(f"unknown outcome {self.outcome!r}; valid: {', '.join(OUTCOMES)}")

    @property
    def memory_remarks(self) -> tuple[Message, ...]:
        """Remarks on memory that no page shows, with the most of any phase; on other programs."""
        figures = [phase.memory for phase in self.phases]
        uncounted = [repeat.most_uncounted_fds or 0 for repeat in self.repeats]
        unseen = unseen_memory(
            hugetlb_bytes=_most(memory.hugetlb_memory_bytes for memory in figures),
            held_bytes=_most(memory.held_memory_bytes for memory in figures),
            dmabuf_bytes=_most(memory.dmabuf_memory_bytes for memory in figures),
            uncounted=max(uncounted, default=0),
        )
        others = once(repeat.shortage.remarks for repeat in self.repeats if repeat.shortage)
        return (*unseen, *others)

    @property
    def hides_system_memory(self) -> bool:
        """Whether system memory over idle is not larger than its noise in any phase.

        The noise is its spread, what moved it before the program, and what the program's own memory
        does not explain.
        """
        idle = max((repeat.idle_noise_bytes for repeat in self.repeats), default=0)
        figures = []
        for phase in self.phases:
            system = Figure.of(phase.memory.system_memory_over_idle_bytes)
            if system:
                noise = max(idle, system.spread or 0, _unexplained_bytes(phase, system))
                figures.append(abs(system.median) <= noise)
        return bool(figures) and all(figures)

    @property
    def killed(self) -> Optional[Message]:
        """Processes that the kernel killed for memory in the last repeat; None if none."""
        if not self.repeats or not self.repeats[-1].oom_kills:
            return None
        last = self.repeats[-1]
        code = "oom_kills_cgroup" if last.oom_kills_of == "cgroup" else "oom_kills_system"
        return Message(code, {"count": last.oom_kills or 0})

    @property
    def shortage_signs(self) -> tuple[Message, ...]:
        """Evidence that memory was short: each kind once, from the first repeat that has it."""
        return signs_of(repeat.shortage for repeat in self.repeats)
