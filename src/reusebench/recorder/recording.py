"""The readings of one run of a program."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from reusebench.accounting.ledger import Ledger
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.phases import Stretch
from reusebench.recorder.process_tree import SeenProcess
from reusebench.recorder.program import ProgramEnding
from reusebench.samplers.evidence import Evidence
from reusebench.samplers.oom_watch import OomKills
from reusebench.samplers.readings import GroupMemory
from reusebench.samplers.system_memory import Idle

__all__ = ["Readings", "Recording"]

#: Readings of a kind that are kept for the trace: 17 minutes of RSS. Of longer recordings the
#: higher of two neighbours is kept.
_MOST_READINGS = 20_000


@dataclass
class Readings:
    """Readings of one kind in order: times (ns, monotonic), and values in bytes."""

    times_ns: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))

    def add(self, time_ns: int, value: int) -> None:
        """Append a reading; if there are too many, keep the higher of each two neighbours."""
        self.times_ns.append(time_ns)
        self.values.append(value)
        if len(self.values) == _MOST_READINGS:
            self._thin()

    def _thin(self) -> None:
        times_ns = array("q")
        values = array("q")
        for first in range(0, _MOST_READINGS, 2):
            second = first + 1
            higher = second if self.values[second] > self.values[first] else first
            times_ns.append(self.times_ns[higher])
            values.append(self.values[higher])
        self.times_ns = times_ns
        self.values = values


@dataclass
class Recording:
    """The readings of one run of a program; times are by the monotonic clock of its machine."""

    #: ISO 8601, UTC.
    started_at: str
    begin_ns: int
    idle: Idle
    #: System memory before the start.
    idle_bytes: int
    end_ns: int = 0
    ending: ProgramEnding = field(default_factory=ProgramEnding)
    #: Number of the signal with which the user ended the program (Ctrl-C or SIGTERM).
    ended_by: int | None = None
    #: Whether the program still ran when its time was over, and was ended.
    is_cut: bool = False
    #: CPU time of the program; None if it is unknown.
    cpu_ns: int | None = None
    #: NPU buffers of the program; None if no ledger is kept.
    ledger: Ledger | None = None
    #: Cause of the lost connection to a remote board that ended the recording.
    lost: str | None = None
    #: CPU time of the recorder on the program's machine.
    recorder_cpu_ns: int = 0
    #: Stretches in order, up to the limit of a trace.
    stretches: list[Stretch] = field(default_factory=list)
    #: Key: name, in the order in which the phases first came.
    phases: dict[str, PhaseRecord] = field(default_factory=dict)
    processes: list[SeenProcess] = field(default_factory=list)
    #: Number of readings of RSS.
    rss_count: int = 0
    #: Sum over all processes.
    rss: Readings = field(default_factory=Readings)
    pss: Readings = field(default_factory=Readings)
    system: Readings = field(default_factory=Readings)
    npu: Readings = field(default_factory=Readings)
    #: Most pipes, sockets and other descriptors at once whose memory cannot be counted; None if
    #: they were not read.
    most_uncounted: int | None = None
    #: Processes that the kernel has killed for memory meanwhile; None if it does not count.
    oom_kills: OomKills | None = None
    #: The latest evidence of whether memory was short.
    evidence: Evidence | None = None
    #: Memory of the control group before the start, and when it was charged most; None without a
    #: limit.
    idle_group: GroupMemory | None = None
    most_group: GroupMemory | None = None
