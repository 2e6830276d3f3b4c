"""The settings of a session, which follow from the options of `pytest bench/`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from harness.errors import UserError
from runtimes import find_runtime
from samplers.process import pss_readable
from scenarios.catalogue import Parameters
from scenarios.plan import Model, Streams, Video

__all__ = ["Pace", "Settings", "check_kernel"]


@dataclass(frozen=True)
class Pace:
    """How streams run."""

    #: Before the steady state.
    warm_up_s: float = 2.0
    #: Of the steady state.
    duration_s: float = 6.0
    #: Frames per second of each stream; 0: as fast as possible.
    fps: float = 30.0
    #: Frames of a stream that may wait for a context.
    queue: int = 0


@dataclass(frozen=True)
class Settings:
    """How scenarios are measured."""

    streams: int
    contexts: int
    repeats: int
    rounds: int
    sample_hz: float
    time_limit_s: float
    idle_s: float
    #: Usable CPUs: at most so many contexts infer at once on a CPU.
    cpus: int
    #: Cores of the NPU: at most so many contexts infer at once on it. Where the chip is not known, 1.
    npu_cores: int
    pace: Pace = Pace()

    def parameters(self, runtime: str, files: Sequence[Model], schedule: Streams | None = None) -> Parameters:
        """Return what a scenario makes its plan from; `schedule` is that of its streams, if it has any."""
        on_npu = find_runtime(runtime).device == "npu"
        return Parameters(
            runtime,
            tuple(files),
            self.streams,
            self.contexts,
            cores=self.npu_cores if on_npu else self.cpus,
            rounds=self.rounds,
            binds=on_npu,
            schedule=schedule,
        )

    def schedule(self, video: Video | None) -> Streams:
        """Return the schedule of streams that play the video; None: nothing is decoded."""
        return Streams(self.streams, video=video, **asdict(self.pace))


def check_kernel() -> None:
    """Raise UserError where this kernel does not give PSS, on which all savings rest."""
    if not pss_readable(os.getpid()):
        raise UserError(
            "this kernel gives no PSS: neither /proc/PID/smaps_rollup nor /proc/PID/smaps can be read. It needs "
            "CONFIG_PROC_PAGE_MONITOR=y; `reusebench doctor` shows every memory source"
        )
