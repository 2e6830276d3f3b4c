"""What the measured process writes, a line of JSON for each message, and what is read while it
waits at a barrier.
"""

from __future__ import annotations

from typing import Optional, Union

import msgspec

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import Allocation, Copies, Interface, Preparation
from reusebench.samplers.readings import NpuMemory, Pressure, ProcessMemory, Reading, SystemMemory

__all__ = [
    "Barrier",
    "BarrierReading",
    "Described",
    "DriverFailure",
    "DriverMessage",
    "Frames",
    "Prepared",
    "Preparing",
    "StepData",
    "StepFailure",
    "StreamCount",
    "Usage",
]


class Usage(msgspec.Struct, frozen=True):
    """What the process holds, read by itself (scenarios.usage)."""

    #: Anonymous and shared memory before the heap was trimmed; 0 where the kernel does not tell
    #: them apart.
    allocated_bytes: int
    #: In use; None if this C library does not report it.
    heap_bytes: Optional[int]
    fds: int
    #: Lines of /proc/self/maps.
    mappings: int
    threads: int


class StepFailure(msgspec.Struct, frozen=True):
    """Why a step failed that the process survived."""

    phase: str
    #: A key of targets.outcome.OUTCOMES.
    kind: str
    message: Message


class StepData(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a step; each step fills in what it knows (scenarios.driver)."""

    python_version: Optional[str] = None
    runtime_version: Optional[str] = None
    driver_version: Optional[str] = None
    load_ns: int = 0
    #: The runtime's own account of the context, in bytes by component; empty if it gives none.
    account: dict[str, int] = {}
    allocations: tuple[Allocation, ...] = ()
    #: Of the first inference.
    latency_ns: int = 0
    digest: str = ""
    #: By output: some values of it (runtimes.base.RuntimeContext.samples).
    samples: tuple[tuple[Optional[float], ...], ...] = ()
    copies: Optional[Copies] = None
    #: Of the timed rounds, by context.
    elapsed_ns: int = 0
    latencies_ns: tuple[tuple[int, ...], ...] = ()
    digests: tuple[str, ...] = ()
    #: Of streams: when the steady state began, after the warm-up; monotonic clock.
    begin_ns: int = 0
    #: Of streams, by model: the checksum of the outputs of each frame of the clip, by its number,
    #: and how many frames gave other outputs than the same frame before.
    seconds: float = 0.0
    frame_checksums: tuple[dict[str, int], ...] = ()
    unequal_frames: tuple[int, ...] = ()
    #: Whether the heap could be trimmed.
    trimmed: bool = False
    #: Of every step of a plan of cycles.
    usage: Optional[Usage] = None
    #: At the barrier `full` of a plan that fills: of the context that no longer fitted.
    failure: Optional[StepFailure] = None


class Barrier(msgspec.Struct, frozen=True, tag_field="event", tag="barrier"):
    """A step has ended; the process waits."""

    phase: str
    #: Index into Plan.contexts where the step is of one context.
    context: Optional[int]
    #: Monotonic clock.
    at_ns: int
    data: StepData


class DriverFailure(msgspec.Struct, frozen=True, tag_field="event", tag="failure"):
    """The runtime, or the driver, reported an error; the process ends."""

    phase: str
    context: Optional[int]
    #: A key of targets.outcome.OUTCOMES.
    kind: str
    message: Message


class Preparing(msgspec.Struct, frozen=True, tag_field="event", tag="preparing"):
    """A model is being prepared, which takes many inferences; the process has come further since
    the last message.
    """


class Prepared(msgspec.Struct, frozen=True, tag_field="event", tag="prepared"):
    """What the runtime made of each model beforehand, by the model's digest; None if it needs
    nothing.
    """

    models: dict[str, Optional[Preparation]]


class StreamCount(msgspec.Struct, frozen=True):
    """What became of the frames of one stream: counts from the start, and a row for each frame done
    since the last.
    """

    dropped: int
    missed: int
    #: When it was due (monotonic clock), then the time of each of measured.streams.threads.STAGES, in
    #: nanoseconds.
    rows: tuple[tuple[int, ...], ...]


class Frames(msgspec.Struct, frozen=True, tag_field="event", tag="frames"):
    """Streams are running."""

    #: How much of the steady state has passed.
    seconds: float
    streams: tuple[StreamCount, ...]
    #: The least of the heap that was in use since the last message; None if this C library does
    #: not report it.
    heap_bytes: Optional[int]


class Described(msgspec.Struct, frozen=True, tag_field="event", tag="interface"):
    """What a model takes and gives."""

    interface: Interface


DriverMessage = Union[Barrier, DriverFailure, Preparing, Prepared, Described, Frames]


class BarrierReading(msgspec.Struct):
    """A barrier and what was read at it; every one is in the trace."""

    phase: str
    context: Optional[int]
    at_ns: int
    data: StepData
    #: Whether the heap was trimmed at this barrier or before it.
    malloc_trimmed: bool
    process: ProcessMemory
    system: SystemMemory
    npu: Optional[NpuMemory] = None
    #: What the process's NPU buffers took then; None without a ledger.
    npu_live_bytes: Optional[int] = None
    #: When the process was told to go on; None in older traces.
    left_ns: Optional[int] = None
    #: Counted from the start of the process; None in older traces.
    pressure: Optional[Pressure] = None

    @property
    def npu_held_bytes(self) -> Optional[int]:
        """What NPU buffers took then: by the ledger, else the dma-bufs that the process held; None
        where none tells.
        """
        if self.npu_live_bytes is not None:
            return self.npu_live_bytes
        return self.npu.process_dmabuf_bytes if self.npu else None

    @classmethod
    def of(cls, barrier: Barrier, malloc_trimmed: bool, reading: Reading) -> BarrierReading:
        """Return the barrier with its reading."""
        step = (barrier.phase, barrier.context, barrier.at_ns, barrier.data)
        return cls(
            *step,
            malloc_trimmed,
            reading.process,
            reading.system,
            reading.npu,
            pressure=reading.pressure,
        )
