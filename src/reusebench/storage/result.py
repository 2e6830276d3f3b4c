"""A result: one configuration, measured in several fresh processes, as it is stored.

Every figure is a tuple with one value per repeat, in order; None if that repeat did not give it.
docs/results.md explains them. `msgspec.json.schema(Result)` is the JSON schema.
"""

from __future__ import annotations

from typing import Annotated, Optional

import msgspec

from reusebench.accounting.account import Account
from reusebench.accounting.domains import DomainUse
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import Copies, NodeOrder
from reusebench.samplers.readings import (
    CpuUse,
    MachineState,
    NpuMemory,
    ProcessMemory,
    SystemMemory,
)
from reusebench.storage.decoding import check_lengths
from reusebench.storage.memory_shortage import Shortage, signs_of
from reusebench.targets.outcome import OUTCOMES, Failure

__all__ = [
    "BUSY_PERCENT",
    "OF_STEADY_STATE",
    "SCHEMA",
    "ContextLimit",
    "CycleSeries",
    "Failure",
    "FrameCount",
    "MemoryFigures",
    "ModelName",
    "NodeOrder",
    "Percentiles",
    "PhaseReading",
    "Result",
    "Series",
    "Speed",
    "StoredRepeat",
    "StreamsRun",
]

#: Written into every result; a change of names or meanings makes a new number. Files of another one
#: are not read. 2 (2026-11): failures have messages (code and values); `frames` has series, whose
#: trends are computed when shown.
SCHEMA = "reusebench-result-2"

#: Other work above this share of the CPUs' time shows in latencies: with both of 2 cores taken, a
#: median doubled.
BUSY_PERCENT = 10.0

#: Figures of Memory that a repeat has all or none of: one reading gives them.
OF_STEADY_STATE = (
    "application_memory_bytes",
    "application_memory_over_baseline_bytes",
    "application_rss_bytes",
    "application_uss_bytes",
    "system_memory_bytes",
)

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Bytes = tuple[Optional[int], ...]
_Rates = tuple[Optional[float], ...]


class ModelName(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the plan."""

    name: str
    digest: str


class MemoryFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Memory, in bytes."""

    application_memory_bytes: _Bytes
    application_memory_trimmed_bytes: _Bytes
    application_memory_over_baseline_bytes: _Bytes
    baseline_memory_bytes: _Bytes
    application_rss_bytes: _Bytes
    application_uss_bytes: _Bytes
    application_peak_rss_bytes: _Bytes
    residue_memory_bytes: _Bytes
    #: Of each context.
    context_memory_bytes: tuple[Optional[tuple[int, ...]], ...]
    decoder_memory_bytes: _Bytes = ()
    system_memory_bytes: _Bytes
    system_memory_noise_bytes: _Bytes
    npu_memory_bytes: _Bytes
    npu_peak_bytes: _Bytes = ()
    npu_left_bytes: _Bytes = ()

    def __post_init__(self) -> None:
        """Refuse some of the figures of a steady state without the others: one reading has them
        all.
        """
        figures = (getattr(self, name) for name in OF_STEADY_STATE)
        if len({tuple(value is None for value in of_repeats) for of_repeats in figures}) > 1:
            raise ValueError("figures of the steady state are not of the same repeats")


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Speed, and how busy the machine was before each process."""

    latency_median_ns: _Bytes
    throughput_per_s: _Rates
    #: Of each context.
    context_load_ns: tuple[tuple[int, ...], ...]
    first_inference_ns: tuple[tuple[int, ...], ...]
    idle_cpu_percent: tuple[float, ...]
    #: Of streams.
    latency_p99_ns: _Bytes = ()
    frames_lost_percent: _Rates = ()


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in nanoseconds: so many percent of them are no longer."""

    p50: int
    p90: int
    p99: int
    max: int


class FrameCount(msgspec.Struct, frozen=True, kw_only=True):
    """Frames of one stream, or of all; those still on their way at the end count as neither due nor
    done.
    """

    due: int
    done: int
    dropped: int
    missed: int
    per_s: float
    #: From when a frame is due to when its output has been read; None without frames.
    latency_ns: Optional[Percentiles]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Points over the steady state of streams; a list without figures is None."""

    seconds: tuple[float, ...]
    #: The lowest reading between two points.
    rss_bytes: tuple[int, ...]
    heap_bytes: Optional[_Bytes] = None
    npu_memory_bytes: Optional[_Bytes] = None
    done_per_s: Optional[_Rates] = None
    lost_per_s: Optional[_Rates] = None

    def __post_init__(self) -> None:
        """Refuse lists of different length."""
        check_lengths("a series", msgspec.structs.astuple(self), len(self.seconds))


class StreamsRun(msgspec.Struct, frozen=True, kw_only=True):
    """What streams came to in one process; figures of speed are None if nothing computes."""

    seconds: float
    #: Whether Ctrl-C ended them before their time.
    interrupted: bool
    all: Optional[FrameCount]
    streams: Optional[tuple[FrameCount, ...]]
    #: By the names of scenarios.frames.STAGES.
    stages_ns: Optional[dict[str, Optional[Percentiles]]]
    cpu: Optional[CpuUse]
    machine: Optional[MachineState]
    series: Optional[Series]


class CycleSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Readings while the same is done again and again: before the first cycle, then after each, as
    many as there were.

    A list without figures is None.
    """

    #: Anonymous and shared memory (RSS), before the heap is trimmed for the other readings.
    allocated_bytes: tuple[int, ...]
    pss_bytes: tuple[int, ...]
    #: Without the pages of files, which other processes map too.
    pss_without_files_bytes: Optional[tuple[int, ...]]
    heap_bytes: Optional[tuple[int, ...]]
    npu_memory_bytes: Optional[tuple[int, ...]]
    #: Open file descriptors.
    fds: tuple[int, ...]
    #: Lines of /proc/self/maps.
    mappings: tuple[int, ...]
    threads: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse lists of different length."""
        check_lengths("a series of cycles", msgspec.structs.astuple(self), 0, len(self.pss_bytes))


class ContextLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How many contexts one process made and ran, one after the other, until one failed."""

    contexts: int
    #: So many were to be made at most.
    bound: int
    #: Of the next one; None if none failed: the bound was reached or, with fewer contexts, too
    #: little of the system's memory was left.
    failure: Optional[Failure]
    #: Whether the process outlived the failure.
    survived: bool
    #: What then became of the contexts that had fitted; None if they ran once more, and were
    #: destroyed.
    afterwards: Optional[Failure]
    #: When the last that fitted had run; by the ledger, else the dma-bufs of the process.
    npu_memory_bytes: Optional[int]
    #: What each context after the first took of it, the mean.
    further_npu_bytes: Optional[float]
    #: The same as npu_memory_bytes when the context that failed had been given up, and when all had
    #: been destroyed; None if the process did not come so far.
    npu_after_failure_bytes: Optional[int]
    npu_left_bytes: Optional[int]
    #: Address spaces of the NPU's IOMMU, the attempt that failed included; empty without an IOMMU,
    #: or a ledger.
    domains: tuple[DomainUse, ...]
    #: PSS with all contexts that fitted.
    application_memory_bytes: int
    #: MemAvailable then.
    system_available_bytes: int
    #: Open file descriptors then, what each context after the first took of them, and how many
    #: there may be.
    fd_count: int
    further_fds: Optional[float]
    fd_limit: Optional[int]


class PhaseReading(msgspec.Struct, frozen=True, kw_only=True):
    """The reading at the end of a phase."""

    malloc_trimmed: bool
    process: ProcessMemory
    system: SystemMemory
    npu: Optional[NpuMemory] = None
    npu_live_bytes: Optional[int] = None


class StoredRepeat(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh process."""

    failure: Optional[Failure]
    elapsed_s: float
    #: Path of its trace, relative to the storage; empty if the session was cut off before it.
    trace: str
    #: The last reading of each phase, in order; every barrier is in the trace.
    phases: dict[str, PhaseReading]
    npu: Optional[Account] = None
    #: None in runs before this was stored.
    shortage: Optional[Shortage] = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration."""

    schema: str
    #: The session's identity, common to all results of one `pytest bench/`.
    run: str
    runtime: str
    runtime_version: Optional[str]
    target: str
    #: What the measured process is written in: "python" or, of Rockchip's runtime alone, "c".
    driver: str = "python"
    #: None if it is no Python.
    python_version: Optional[str]
    #: Of the kernel driver under the runtime.
    driver_version: Optional[str] = None
    #: The Rockchip chip, where it is known.
    chip: Optional[str] = None
    #: Of the measured process: "aarch64", "armhf" or "x86_64".
    architecture: Optional[str] = None
    #: What NPU buffers may take on a virtual board that was given a limit.
    npu_memory_limit_bytes: Optional[int] = None
    #: False where the NPU's arithmetic is missing: no figure of speed, no comparison of outputs.
    computes: bool = True
    #: Whether an emulator of its processor is in the measured process; None in runs before this was
    #: stored.
    emulated: Optional[bool] = None
    scenario: str
    baseline: Optional[str]
    #: The scenario of the session that has an equal plan, and whose processes these figures are of;
    #: None: its own.
    measured_as: Optional[str] = None
    streams: _Count
    #: Per stream.
    contexts: _Count
    cores: _Count
    rounds: _Count
    models: tuple[ModelName, ...]
    #: How many model files the user gave, or the built-in set has.
    model_files: _Count
    #: By the digest of a model that was prepared: in which order its nodes run.
    node_orders: dict[str, NodeOrder] = {}
    #: "ok", or the kind of the failure.
    outcome: str
    failure: Optional[Failure]
    #: By the model's digest: every distinct digest of its outputs, over contexts, phases and
    #: repeats.
    output_digests: dict[str, tuple[str, ...]]
    #: By the model's digest and output: values at even distances, of the first context; a null is
    #: no finite number.
    output_samples: dict[str, tuple[tuple[Optional[float], ...], ...]] = {}
    #: On a CPU, by context: what the runtime says that it takes, and what the application allocated
    #: for it, in bytes by component ("weights_bytes"); empty if nothing is said. Memory that
    #: contexts share is the first one's.
    runtime_accounts: tuple[dict[str, int], ...] = ()
    #: What one inference of each context copies; None if none ran.
    copies: Optional[tuple[Copies, ...]] = None
    memory: MemoryFigures
    speed: Speed
    #: Of streams, one per repeat.
    frames: tuple[Optional[StreamsRun], ...] = ()
    #: Of cycles, which one process walks.
    cycles: Optional[CycleSeries] = None
    #: Of a plan that fills, which has a single repeat; `plan` has the contexts that fitted.
    limit: Optional[ContextLimit] = None
    repeats: tuple[StoredRepeat, ...]
    plan: Plan

    def __post_init__(self) -> None:
        """Refuse figures that are not of these repeats, and accounts that are not of these
        contexts.
        """
        repeats = len(self.repeats)
        for figures in (self.memory, self.speed):
            check_lengths("repeats", msgspec.structs.astuple(figures), 0, repeats)
        check_lengths("repeats", [self.frames], 0, repeats)
        streams = self.plan.schedule.count if self.plan.schedule else 0
        check_lengths("streams", (frames.streams for frames in self.frames if frames), streams)
        check_lengths("models", [self.models], len(self.plan.models) or 1)
        if self.outcome not in OUTCOMES:
            raise ValueError(f"unknown outcome {self.outcome!r}; valid: {', '.join(OUTCOMES)}")
        # A plan that fills has the contexts that fitted alone, and cycles make them as they go.
        if self.outcome == "ok" and not self.plan.fills and self.plan.cycles is None:
            self._check_contexts()
            repeats_bytes = self.memory.application_memory_bytes
            if self.plan.contexts and (None in repeats_bytes or not repeats_bytes):
                raise ValueError("there is no memory of a repeat that came to its end")

    def _check_contexts(self) -> None:
        contexts = len(self.plan.contexts)
        accounts = [repeat.npu for repeat in self.repeats if repeat.npu]
        check_lengths("contexts", self.memory.context_memory_bytes, contexts)
        check_lengths("contexts", (account.contexts for account in accounts), contexts)
        check_lengths("contexts", [self.runtime_accounts, self.copies], *range(contexts + 1))
        shared = (part for account in accounts for part in account.shared)
        if any(
            not 0 <= index < contexts for part in shared for index in (part.owner, *part.readers)
        ):
            raise ValueError("memory is shared with a context that is not in the plan")

    @property
    def shortage_signs(self) -> tuple[Message, ...]:
        """What shows that memory was short: each kind of sign once, of the first repeat that has
        it.
        """
        return signs_of(repeat.shortage for repeat in self.repeats)
