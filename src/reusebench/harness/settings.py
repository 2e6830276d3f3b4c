"""The settings of a session, which follow from the options of `pytest bench/`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from reusebench.harness.errors import UserError
from reusebench.measured.plan import Model, Streams, Video
from reusebench.measured.runtimes import find_runtime
from reusebench.samplers.errors import SamplerError
from reusebench.samplers.host import Host
from reusebench.samplers.process_memory import check_readable
from reusebench.samplers.system_memory import read_system
from reusebench.scenarios.catalogue import Parameters

__all__ = [
    "MOST_CONTEXTS",
    "MOST_CYCLES",
    "MOST_FPS",
    "MOST_INFERENCES",
    "MOST_QUEUED",
    "Settings",
    "StreamPace",
    "check_kernel",
    "excess",
    "parse_duration",
    "parse_sizes",
]

#: Figures of streams come every second.
_SHORTEST_S = 1.0
_LONGEST_S = 30 * 86400.0
#: Of a plan: no board has as many, and checking who waits for whom takes the harness seconds.
MOST_CONTEXTS = 1024
#: Timed inferences of a process: the harness holds the latency of each, some 100 bytes in all.
MOST_INFERENCES = 1_000_000
#: Of a process: the harness holds all that was read after each, some 5 KB.
MOST_CYCLES = 10_000
#: Of a stream: no camera gives more.
MOST_FPS = 1000
#: Of all streams: the measured process takes note of each frame that is due, and falls behind for
#: ever with too many.
_MOST_FRAMES_PER_S = 10_000
#: Of a stream: a frame that waits is in memory.
MOST_QUEUED = 1000
#: numpy's most dimensions are 64, and a size is a whole number of 32 bits.
_SIZES = re.compile(r"\d{1,9}(x\d{1,9}){0,63}")


@dataclass(frozen=True)
class StreamPace:
    """How streams run."""

    #: Before the steady state.
    warm_up_s: float = 1.5
    #: Of the steady state.
    duration_s: float = 5.0
    #: Frames per second of each stream; 0: as fast as possible.
    fps: float = 30.0
    #: Frames of a stream that may wait for a context.
    queue: int = 0


@dataclass(frozen=True)
class Settings:
    """How scenarios are measured."""

    streams: int
    contexts: int
    #: Fresh processes of each configuration.
    repeats: int
    rounds: int
    sample_hz: float
    time_limit_s: float
    #: Usable CPUs: at most so many contexts infer at once on a CPU.
    cpus: int
    #: Cores of the NPU: at most so many contexts infer at once on it. Where the chip is not known,
    #: 1.
    npu_cores: int
    pace: StreamPace = StreamPace()
    #: Of scenarios that do the same again and again.
    cycles: int = 1
    #: So many contexts at most where they are added until one fails.
    limit_contexts: int = Parameters.limit_contexts
    #: So many processes where memory differs between those of `repeats`; None: never more.
    most_repeats: int | None = None
    #: Idle time before each process in which the system's noise is measured, and how busy the
    #: machine is: enough clock ticks to tell a tenth of the CPUs' time.
    idle_s: float = 0.2
    #: What a process without streams takes, until one has been measured: for the time left.
    process_s: float = 1.0

    def parameters(
        self, runtime: str, files: Sequence[Model], schedule: Streams | None = None
    ) -> Parameters:
        """Return what a scenario makes its plan from; `schedule` is that of its streams, if it has
        any.
        """
        return Parameters(
            runtime,
            tuple(files),
            self.streams,
            self.contexts,
            cores=self.cores(runtime),
            rounds=self.rounds,
            binds=_on_npu(runtime),
            schedule=schedule,
            cycles=self.cycles,
            limit_contexts=self.limit_contexts,
        )

    def cores(self, runtime: str) -> int:
        """Return how many contexts may infer at once on a runtime."""
        return self.npu_cores if _on_npu(runtime) else self.cpus

    def schedule(self, video: Video | None) -> Streams:
        """Return the schedule of streams that play the video; None: nothing is decoded."""
        return Streams(self.streams, video=video, **asdict(self.pace))


def _on_npu(runtime: str) -> bool:
    return find_runtime(runtime).device == "npu"


def parse_duration(text: str) -> float:
    """Return seconds: a number of them, or with s, m or h behind it; raise
    argparse.ArgumentTypeError.
    """
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = (
        float(matched[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[matched[2]] if matched else 0.0
    )
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid; valid: a time from {_SHORTEST_S:g}s to {_LONGEST_S / 3600:g}h,"
            " as 90, 90s, 2m, 1h"
        )
    return seconds


def parse_sizes(text: str) -> tuple[int, ...] | None:
    """Return the sizes of a shape: 1x3x320x320; None if the text is none."""
    return tuple(map(int, text.split("x"))) if _SIZES.fullmatch(text) else None


def excess(contexts: int, rounds: int, streams: int = 0, fps: float = 0.0) -> str | None:
    """Return what is more than a session can hold, in words; None if nothing is. `contexts` are
    all of a plan's.
    """
    if contexts > MOST_CONTEXTS:
        return f"{contexts:,} contexts are too many; valid: up to {MOST_CONTEXTS:,} in all"
    if contexts * rounds > MOST_INFERENCES:
        inferences = f"{rounds:,} rounds of {contexts:,} contexts"
        return f"{inferences} are too many; valid: up to {MOST_INFERENCES:,} inferences in all"
    if streams * fps > _MOST_FRAMES_PER_S:
        frames = f"{streams:,} streams of {fps:g} frames per second"
        return (
            f"{frames} are too many; valid: up to {_MOST_FRAMES_PER_S:,} frames per second in all"
        )
    return None


def check_kernel(host: Host) -> None:
    """Raise UserError if this machine does not show the memory of a process, or of the
    system.
    """
    try:
        check_readable(host)
        read_system(host)
    except SamplerError as error:
        raise UserError(str(error)) from None
