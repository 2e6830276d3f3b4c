"""One repeat of a configuration: the readings of one measured process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.accounting.account import Account
from reusebench.storage.result import ContextLimit, FrameCount, StreamsRun
from reusebench.targets.barriers import BarrierReading
from reusebench.targets.outcome import Failure

__all__ = ["Repeat"]


@dataclass(frozen=True)
class Repeat:
    """The readings of one fresh process."""

    #: Readings at the barriers, in the order of time.
    barriers: Sequence[BarrierReading]
    failure: Failure | None
    elapsed_s: float
    system_memory_noise_bytes: int
    #: CPU use of the machine in the idle time before the process started.
    idle_cpu_percent: float
    #: Path of the trace, relative to the storage.
    trace: str
    #: None if nothing gives an account of NPU memory.
    npu: Account | None = None
    #: None without streams, or before their steady state.
    frames: StreamsRun | None = None
    #: None if the plan does not fill, or the process failed in another way.
    limit: ContextLimit | None = None
    #: Start of the process, on the monotonic clock of its machine.
    start_ns: int = 0

    @property
    def all_frames(self) -> FrameCount | None:
        """The frames of all streams; None without streams, before their steady state, or if nothing
        computes.
        """
        return self.frames.all if self.frames else None

    def last(self, phase: str) -> BarrierReading | None:
        """Return the last barrier of a phase."""
        for barrier in reversed(self.barriers):
            if barrier.phase == phase:
                return barrier
        return None

    def of_contexts(self, phase: str) -> list[BarrierReading]:
        """Return the barriers of a phase that has one per context, in the order of the contexts."""
        barriers = [barrier for barrier in self.barriers if barrier.phase == phase]
        return sorted(barriers, key=lambda barrier: barrier.context or 0)
