"""Messages of the measured process, and the readings taken while it waits at a barrier."""

from __future__ import annotations

from typing import Optional, Union

import msgspec

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import (
    Allocation,
    Copies,
    Interface,
    Placement,
    Preparation,
    Turn,
)
from reusebench.samplers.readings import (
    GroupMemory,
    NpuMemory,
    Pressure,
    ProcessMemory,
    Reading,
    SystemMemory,
)

__all__ = [
    "Barrier",
    "BarrierReading",
    "Described",
    "DriverFailure",
    "DriverMessage",
    "Estimated",
    "Frames",
    "Prepared",
    "Preparing",
    "StepData",
    "StepFailure",
    "StreamCount",
    "Usage",
]


class Usage(msgspec.Struct, frozen=True):
    """Resources of the process, read by itself (measured.usage)."""

    #: Anonymous and shared memory before the heap was trimmed; 0 if the kernel does not tell them
    #: apart from the rest.
    allocated_bytes: int
    #: Heap in use; None if this C library does not report it.
    heap_bytes: Optional[int]
    fds: int
    #: Lines of /proc/self/maps.
    mappings: int
    threads: int


class StepFailure(msgspec.Struct, frozen=True):
    """The failure of a step that the process survived."""

    phase: str
    #: A key of targets.outcome.OUTCOMES.
    kind: str
    message: Message


class StepData(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a step; each step fills in its own fields (measured.driver)."""

    python_version: Optional[str] = None
    runtime_version: Optional[str] = None
    driver_version: Optional[str] = None
    load_ns: int = 0
    #: The runtime's own report on the context: component to bytes; empty if it gives none.
    account: dict[str, int] = {}
    allocations: tuple[Allocation, ...] = ()
    #: Latency of the first inference.
    latency_ns: int = 0
    #: Checksum of the outputs of the first inference.
    digest: str = ""
    #: Some values of each output (runtimes.base.RuntimeContext.samples).
    samples: tuple[tuple[Optional[float], ...], ...] = ()
    copies: Optional[Copies] = None
    #: First context of a model only; None if the runtime does not tell.
    placement: Optional[Placement] = None
    #: Duration of all timed rounds.
    elapsed_ns: int = 0
    #: Latencies of the timed rounds, per context.
    latencies_ns: tuple[tuple[int, ...], ...] = ()
    #: Checksum of the outputs after the timed rounds, per context.
    digests: tuple[str, ...] = ()
    #: Language models only: the turns of each context; the first inference has one.
    turns: tuple[tuple[Turn, ...], ...] = ()
    #: Streams only: start of the steady state, after the warm-up; monotonic clock.
    begin_ns: int = 0
    #: Streams only: duration of the steady state.
    seconds: float = 0.0
    #: Streams only. Per model: output checksum by frame number of the clip.
    frame_checksums: tuple[dict[str, int], ...] = ()
    #: Streams only. Per model: number of frames whose outputs changed between loops of the clip.
    unequal_frames: tuple[int, ...] = ()
    #: Whether the heap could be trimmed.
    trimmed: bool = False
    #: Resource usage; set at every step of a plan with cycles.
    usage: Optional[Usage] = None
    #: Set at the barrier `full`: why the last context did not fit.
    failure: Optional[StepFailure] = None


class Barrier(msgspec.Struct, frozen=True, tag_field="event", tag="barrier"):
    """The end of a step, at which the process waits."""

    phase: str
    #: Index into Plan.contexts if the step concerns one context.
    context: Optional[int]
    #: Time by the monotonic clock.
    at_ns: int
    data: StepData


class DriverFailure(msgspec.Struct, frozen=True, tag_field="event", tag="failure"):
    """An error of the runtime or the driver, after which the process ends."""

    phase: str
    context: Optional[int]
    #: A key of targets.outcome.OUTCOMES.
    kind: str
    message: Message


class Preparing(msgspec.Struct, frozen=True, tag_field="event", tag="preparing"):
    """A sign of progress while a model is prepared, which takes many inferences."""


class Prepared(msgspec.Struct, frozen=True, tag_field="event", tag="prepared"):
    """The end of the preparation of all models."""

    #: Model digest to the preparation; None if the runtime needs none.
    models: dict[str, Optional[Preparation]]


class StreamCount(msgspec.Struct, frozen=True):
    """The frames of one stream."""

    #: Counted from the start.
    dropped: int
    missed: int
    #: A row for each frame done since the last message: its due time (monotonic clock), then the
    #: duration of each of measured.streams.threads.STAGES, in nanoseconds.
    rows: tuple[tuple[int, ...], ...]


class Frames(msgspec.Struct, frozen=True, tag_field="event", tag="frames"):
    """The progress of running streams."""

    #: Time since the steady state began.
    seconds: float
    streams: tuple[StreamCount, ...]
    #: Lowest heap usage since the last message; None if this C library does not report it.
    heap_bytes: Optional[int]


class Described(msgspec.Struct, frozen=True, tag_field="event", tag="interface"):
    """The inputs and outputs of a model."""

    interface: Interface


class Estimated(msgspec.Struct, frozen=True, tag_field="event", tag="estimated"):
    """The accounts that contexts would have (runtimes.base.Runtime.estimate)."""

    #: Per plan, the account of each context, which is empty if another one's includes it.
    accounts: tuple[tuple[dict[str, int], ...], ...]


DriverMessage = Union[Barrier, DriverFailure, Preparing, Prepared, Described, Estimated, Frames]


class BarrierReading(msgspec.Struct):
    """A barrier with the readings taken at it; the trace has all of these."""

    phase: str
    context: Optional[int]
    at_ns: int
    data: StepData
    #: Whether the heap was trimmed at this barrier or at an earlier one.
    malloc_trimmed: bool
    process: ProcessMemory
    system: SystemMemory
    npu: Optional[NpuMemory] = None
    #: Size of the process's NPU buffers by the ledger; None without a ledger.
    npu_live_bytes: Optional[int] = None
    #: Time when the process was told to go on; None in older traces.
    left_ns: Optional[int] = None
    #: Counted from the start of the process; None in older traces.
    pressure: Optional[Pressure] = None
    #: None without a limit, and in older traces.
    group: Optional[GroupMemory] = None

    @property
    def npu_held_bytes(self) -> Optional[int]:
        """Size of the NPU buffers by the ledger, otherwise as the kernel tells, or None."""
        if self.npu_live_bytes is not None:
            return self.npu_live_bytes
        return self.npu.process_bytes if self.npu else None

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
            group=reading.group,
        )
