"""The settings of a session, and the bounds of what it can hold."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from reusebench.harness.conversations import DEFAULT_CONVERSATION
from reusebench.harness.errors import UserError
from reusebench.measured.plan import (
    INFERENCES_PER_CYCLE,
    Conversation,
    Model,
    Streams,
    Video,
)
from reusebench.measured.runtimes import find_runtime
from reusebench.samplers.errors import SamplerError
from reusebench.samplers.host import Host
from reusebench.samplers.process_memory import check_readable
from reusebench.samplers.system_memory import read_system
from reusebench.scenarios.catalogue import Parameters

__all__ = [
    "MOST_CONTEXTS",
    "MOST_FPS",
    "MOST_INFERENCES",
    "MOST_QUEUED",
    "Settings",
    "StreamPace",
    "check_kernel",
    "excess",
    "has_conversations",
    "parse_duration",
    "parse_sizes",
]

#: Figures of streams come every second.
_SHORTEST_S = 1.0
_LONGEST_S = 30 * 86400.0
#: Key: the suffix of a duration.
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
#: Contexts per plan. No board runs more, and beyond this the wait-for check takes seconds.
MOST_CONTEXTS = 1024
#: Timed inferences per process. The harness keeps about 100 bytes for each latency.
MOST_INFERENCES = 1_000_000
#: Frames per second and stream. No camera gives more.
MOST_FPS = 1000
#: Frames per second of all streams together. Beyond this the measured process never catches up.
_MOST_FRAMES_PER_S = 10_000
#: Frames per stream that may wait. Queued frames stay in memory.
MOST_QUEUED = 1000
#: numpy has up to 64 dimensions, and a size has up to 32 bits.
_SIZES = re.compile(r"\d{1,9}(x\d{1,9}){0,63}")


@dataclass(frozen=True)
class StreamPace:
    """The pace of streams: how fast their frames come, and for how long."""

    #: Time before the steady state.
    warm_up_s: float = 1.5
    #: Length of the steady state.
    duration_s: float = 5.0
    #: Frames per second of each stream; 0: as fast as possible.
    fps: float = 30.0
    #: Frames of a stream that may wait for a context.
    queue: int = 0


@dataclass(frozen=True)
class Settings:
    """The numbers that all configurations of a session are measured with."""

    streams: int
    #: Contexts per stream.
    contexts: int
    #: Fresh processes per configuration, at least.
    repeats: int
    rounds: int
    sample_hz: float
    time_limit_s: float
    #: Usable CPUs, and thereby contexts that may infer at once on a CPU.
    cpus: int
    #: Cores of the NPU, and thereby contexts that may infer at once on it; 1 if unknown.
    npu_cores: int
    pace: StreamPace = StreamPace()
    #: Cycles of a scenario that repeats the same actions.
    cycles: int = 1
    #: Inferences in a cycle of them.
    cycle_inferences: int = INFERENCES_PER_CYCLE
    #: Upper bound of contexts when they are added until one fails.
    most_contexts: int = Parameters.most_contexts
    #: Run up to this many processes if memory differs between the first `repeats`; None: never.
    most_repeats: int | None = None
    #: Idle time before each process, to measure the system's noise and CPU use: enough clock ticks
    #: to tell a tenth of the CPUs' time.
    idle_s: float = 0.2
    #: Expected time of a process without streams, until one has been measured.
    process_s: float = 1.0
    #: Number of conversations with a language model.
    sessions: int = 1
    #: The conversation of each context of a language model.
    conversation: Conversation = DEFAULT_CONVERSATION
    #: Timed turns of each conversation.
    turns: int = 2
    #: Turns in a cycle of them.
    cycle_turns: int = 1
    #: The runtime's own options of every context of a language model, NAME=VALUE each.
    session_options: tuple[str, ...] = ()

    def parameters(
        self, runtime: str, files: Sequence[Model], schedule: Streams | None = None
    ) -> Parameters:
        """Return the parameters of a scenario; `schedule` is None if it has no streams.

        Contexts of a language model take turns, each with all threads of the runtime.
        """
        parameters = Parameters(
            runtime,
            tuple(files),
            self.streams,
            self.contexts,
            cores=self.cores(runtime),
            rounds=self.rounds,
            binds=find_runtime(runtime).binds_cores,
            schedule=schedule,
            cycles=self.cycles,
            cycle_inferences=self.cycle_inferences,
            most_contexts=self.most_contexts,
        )
        if not has_conversations(runtime):
            return parameters
        return replace(
            parameters,
            streams=1,
            contexts=self.sessions,
            rounds=self.turns,
            cycle_inferences=self.cycle_turns,
            conversation=self.conversation,
        )

    def cores(self, runtime: str) -> int:
        """Return the number of contexts that may infer at once on a runtime."""
        if has_conversations(runtime):
            return 1
        on_npu = find_runtime(runtime).device == "npu"
        return self.npu_cores if on_npu else self.cpus

    def schedule(self, video: Video | None) -> Streams:
        """Return the schedule of streams; `video` is None if nothing is decoded."""
        return Streams(self.streams, video=video, **asdict(self.pace))


def has_conversations(runtime: str) -> bool:
    """Whether the models of a runtime are language models."""
    return find_runtime(runtime).has_conversations


def parse_duration(text: str, shortest_s: float = _SHORTEST_S) -> float:
    """Return a duration such as 90, 90s, 2m or 1h in seconds; raise argparse.ArgumentTypeError."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = 0.0
    if matched:
        seconds = float(matched[1]) * _SECONDS[matched[2]]
    if matched is None or not shortest_s <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid; valid: a time from {shortest_s:g}s to {_LONGEST_S / 3600:g}h,"
            " as 90, 90s, 2m, 1h"
        )
    return seconds


def parse_sizes(text: str) -> tuple[int, ...] | None:
    """Return the sizes of a shape such as 1x3x320x320; None if the text is no shape."""
    if not _SIZES.fullmatch(text):
        return None
    return tuple(map(int, text.split("x")))


def excess(contexts: int, rounds: int, streams: int = 0, fps: float = 0.0) -> str | None:
    """Return a sentence about the number that exceeds what a session can hold; None if none does.

    `contexts` are all contexts of a plan.
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
    """Raise UserError if the kernel does not tell the memory of a process, or of the system."""
    try:
        check_readable(host)
        read_system(host)
    except SamplerError as error:
        raise UserError(str(error)) from None
