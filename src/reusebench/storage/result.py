"""The stored form of a result: one configuration, measured in several fresh processes.

Every figure is a tuple with one value per repeat, in order; None if that repeat did not give it.
docs/reference/results.md explains the figures. `msgspec.json.schema(Result)` is the JSON schema.
"""

from __future__ import annotations

from typing import Annotated, Literal, Optional

import msgspec

from reusebench.accounting.account import Account
from reusebench.accounting.domains import DomainUse
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import Copies, NodeOrder, Placement
from reusebench.samplers.readings import (
    CpuUse,
    MachineState,
    NpuMemory,
    ProcessMemory,
    SystemMemory,
)
from reusebench.storage.decoding import check_lengths
from reusebench.storage.group_charge import GroupCharge
from reusebench.storage.memory_shortage import Shortage, once, signs_of
from reusebench.targets.outcome import OUTCOMES, Failure

__all__ = [
    "BUSY_PERCENT",
    "OF_STEADY_STATE",
    "PAGES",
    "PSS",
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
    "Placement",
    "Result",
    "Series",
    "Speed",
    "StoredRepeat",
    "StreamsRun",
]

#: Schema of every result; raise the number if a name or a meaning changes. Other versions are not
#: read. Version 2 (2026-11): failures have messages (code and values); `frames` has series, whose
#: trends are computed when shown.
SCHEMA = "reusebench-result-2"

#: Other work above this share of the CPUs' time shows in latencies: with both of 2 cores taken, a
#: median doubled.
BUSY_PERCENT = 10.0

#: Ways in which application memory is counted: pages of the process, each once, whoever else maps
#: them; or PSS, which depends on who else maps them (results before 2026-12, and kernels that do
#: not show pages).
PAGES = "pages"
PSS = "pss"

#: Figures of MemoryFigures that one reading gives: a repeat has all of them or none.
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
    """Memory in bytes."""

    application_memory_bytes: _Bytes
    application_memory_trimmed_bytes: _Bytes
    application_memory_over_baseline_bytes: _Bytes
    baseline_memory_bytes: _Bytes
    application_rss_bytes: _Bytes
    application_uss_bytes: _Bytes
    application_peak_rss_bytes: _Bytes
    residue_memory_bytes: _Bytes
    #: Per repeat, the memory of each context.
    context_memory_bytes: tuple[Optional[tuple[int, ...]], ...]
    decoder_memory_bytes: _Bytes = ()
    system_memory_bytes: _Bytes
    system_memory_noise_bytes: _Bytes
    npu_memory_bytes: _Bytes
    npu_peak_bytes: _Bytes = ()
    npu_left_bytes: _Bytes = ()
    #: Empty in results before application memory was counted by pages: it is PSS there.
    application_pss_bytes: _Bytes = ()
    hugetlb_memory_bytes: _Bytes = ()
    held_memory_bytes: _Bytes = ()
    dmabuf_memory_bytes: _Bytes = ()
    #: Language models only, by the runtime's own account of all contexts: the keys and values of
    #: the tokens, and the buffers in which it computes.
    kv_cache_bytes: _Bytes = ()
    scratch_bytes: _Bytes = ()

    def __post_init__(self) -> None:
        """Refuse a repeat with only some of the figures OF_STEADY_STATE."""
        missing = set()
        for name in OF_STEADY_STATE:
            missing.add(tuple(value is None for value in getattr(self, name)))
        if len(missing) > 1:
            raise ValueError("figures of the steady state are not of the same repeats")


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Speed, and how busy the machine was before each process."""

    #: None with several models, which have a latency each: see model_latency_ns.
    latency_median_ns: _Bytes
    throughput_per_s: _Rates
    #: Per repeat, the time of each context.
    context_load_ns: tuple[tuple[int, ...], ...]
    first_inference_ns: tuple[tuple[int, ...], ...]
    #: Share of the CPUs that other work had.
    idle_cpu_percent: tuple[float, ...]
    #: Streams only.
    latency_p99_ns: _Bytes = ()
    frames_lost_percent: _Rates = ()
    #: Per repeat, the latency of each of the plan's models; None if nothing was timed. Empty for
    #: streams, and in runs before this was stored.
    model_latency_ns: tuple[Optional[tuple[Optional[int], ...]], ...] = ()
    #: Language models only. Median time from the beginning of a turn to its first token.
    first_token_ns: _Bytes = ()
    #: Median speed of computing a prompt, in tokens per second.
    prompt_tokens_per_s: _Rates = ()
    #: Median speed at which one conversation generates, in tokens per second.
    generated_tokens_per_s: _Rates = ()
    #: Tokens that all conversations together generated, per second of the steady state.
    all_generated_tokens_per_s: _Rates = ()


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of durations, in nanoseconds."""

    p50: int
    p90: int
    p99: int
    max: int


class FrameCount(msgspec.Struct, frozen=True, kw_only=True):
    """Frames of one stream, or of all streams.

    A frame that is still on its way at the end counts as neither due nor done.
    """

    due: int
    done: int
    dropped: int
    missed: int
    per_s: float
    #: Time from when a frame is due until its output has been read; None without frames.
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
    """The streams of one process; figures of speed are None if nothing computes."""

    seconds: float
    #: Whether Ctrl-C ended the streams before their time.
    interrupted: bool
    all: Optional[FrameCount]
    streams: Optional[tuple[FrameCount, ...]]
    #: Key: a name of streams.threads.STAGES.
    stages_ns: Optional[dict[str, Optional[Percentiles]]]
    cpu: Optional[CpuUse]
    machine: Optional[MachineState]
    series: Optional[Series]


class CycleSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Readings before the first of many equal cycles, and after each of them.

    A list without figures is None.
    """

    #: Anonymous and shared memory (RSS), before the heap is trimmed for the other readings.
    allocated_bytes: tuple[int, ...]
    pss_bytes: tuple[int, ...]
    #: PSS without the pages of files, which other processes map too.
    pss_without_files_bytes: Optional[tuple[int, ...]]
    heap_bytes: Optional[tuple[int, ...]]
    npu_memory_bytes: Optional[tuple[int, ...]]
    #: Open file descriptors.
    fds: tuple[int, ...]
    #: Lines of /proc/self/maps.
    mappings: tuple[int, ...]
    threads: tuple[int, ...]
    #: Processes that it has started, and those of them that have ended and are not waited for.
    children: Optional[tuple[int, ...]] = None
    zombies: Optional[tuple[int, ...]] = None
    #: Memory of files that they hold and do not map, as Memory.held_memory_bytes.
    held_file_bytes: Optional[tuple[int, ...]] = None

    def __post_init__(self) -> None:
        """Refuse lists of different length."""
        check_lengths("a series of cycles", msgspec.structs.astuple(self), 0, len(self.pss_bytes))


class ContextLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The number of contexts that fitted: one process made and ran them until one failed."""

    contexts: int
    #: Upper bound of contexts to make.
    bound: int
    #: Failure of the next context; None if none failed: the bound was reached or, with fewer
    #: contexts, too little of the system's memory was left.
    failure: Optional[Failure]
    #: Whether the process survived the failure.
    survived: bool
    #: Later failure of the contexts that had fitted; None if they ran once more and were destroyed.
    afterwards: Optional[Failure]
    #: NPU memory after the last context that fitted had run; by the ledger if there is one,
    #: otherwise by the dma-bufs of the process.
    npu_memory_bytes: Optional[int]
    #: Mean growth of npu_memory_bytes by each context after the first.
    further_npu_bytes: Optional[float]
    #: NPU memory after the failed context was given up; None if the process did not get there.
    npu_after_failure_bytes: Optional[int]
    #: NPU memory after all contexts were destroyed; None if the process did not get there.
    npu_left_bytes: Optional[int]
    #: Address spaces of the NPU's IOMMU, including the failed attempt; empty without an IOMMU, or a
    #: ledger.
    domains: tuple[DomainUse, ...]
    #: PSS with all contexts that fitted; the following figures were read at the same time.
    application_memory_bytes: int
    #: MemAvailable.
    system_available_bytes: int
    #: Open file descriptors.
    fd_count: int
    #: Mean growth of fd_count by each context after the first.
    further_fds: Optional[float]
    #: Limit of open file descriptors.
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
    #: Path of the trace, relative to the storage; empty if the session was cut off before writing.
    trace: str
    #: The last reading of each phase, in order; every barrier is in the trace.
    phases: dict[str, PhaseReading]
    npu: Optional[Account] = None
    #: None in runs before this was stored.
    shortage: Optional[Shortage] = None
    #: None without a limit of its control group, and in runs before this was stored.
    charge: Optional[GroupCharge] = None
    #: Remarks for a reader of its memory, in addition to a shortage.
    remarks: tuple[Message, ...] = ()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration."""

    schema: str
    #: Identity of the session, common to all results of one `pytest bench/`.
    run: str
    #: Run of several boards only: the one that it was measured on.
    board: Optional[str] = None
    runtime: str
    runtime_version: Optional[str]
    target: str
    #: Language of the measured process: "python" or, for Rockchip's runtime only, "c".
    driver: str = "python"
    #: None with the C driver.
    python_version: Optional[str]
    #: Version of the kernel driver under the runtime.
    driver_version: Optional[str] = None
    #: The Rockchip chip, if known.
    chip: Optional[str] = None
    #: Architecture of the measured process: "aarch64", "armhf" or "x86_64".
    architecture: Optional[str] = None
    #: Limit of NPU buffers on a virtual board; None if there is none.
    npu_memory_limit_bytes: Optional[int] = None
    #: False if the NPU's arithmetic is missing: no figure of speed, no comparison of outputs.
    computes: bool = True
    #: Whether the measured process contains an emulator of its processor; None in runs before this
    #: was stored.
    emulated: Optional[bool] = None
    scenario: str
    baseline: Optional[str]
    #: Scenario of the session with an equal plan, whose processes gave these figures; None if the
    #: result has processes of its own.
    measured_as: Optional[str] = None
    streams: _Count
    #: Per stream.
    contexts: _Count
    cores: _Count
    rounds: _Count
    models: tuple[ModelName, ...]
    #: Number of model files that the user gave, or that the built-in set has.
    model_files: _Count
    #: Key: digest of a prepared model; value: the order of its nodes.
    node_orders: dict[str, NodeOrder] = {}
    #: "ok", or the kind of the failure.
    outcome: str
    failure: Optional[Failure]
    #: Key: digest of a model; value: every distinct digest of its outputs, over contexts, phases
    #: and repeats.
    output_digests: dict[str, tuple[str, ...]]
    #: Key: digest of a model whose outputs are not compared; value: the reason.
    not_compared: dict[str, Message] = {}
    #: Key: digest of a model; value: per output, evenly spaced values of the first context. A null
    #: is no finite number.
    output_samples: dict[str, tuple[tuple[Optional[float], ...], ...]] = {}
    #: CPU only, per context: bytes by component ("weights_bytes") that the runtime reports, and
    #: that the application allocated for it; empty if nothing is reported. Shared memory belongs to
    #: the first context.
    runtime_accounts: tuple[dict[str, int], ...] = ()
    #: Per context, the copies of one inference; None if none ran.
    copies: Optional[tuple[Copies, ...]] = None
    #: Key: digest of a model; value: the operators that the accelerator runs, and the others. Empty
    #: if the runtime does not tell, and in runs before this was stored.
    placements: dict[str, Placement] = {}
    #: The unit of application memory and of all figures computed from it: PAGES or PSS.
    counted_by: Literal["pages", "pss"] = "pss"
    memory: MemoryFigures
    speed: Speed
    #: Streams only, one per repeat.
    frames: tuple[Optional[StreamsRun], ...] = ()
    #: Plans with cycles only; one process runs them all.
    cycles: Optional[CycleSeries] = None
    #: Plans that add contexts until one fails; they have one repeat, and `plan` has the contexts
    #: that fitted.
    limit: Optional[ContextLimit] = None
    repeats: tuple[StoredRepeat, ...]
    plan: Plan

    def __post_init__(self) -> None:
        """Refuse lists of other lengths than the repeats, streams, models and contexts."""
        repeats = len(self.repeats)
        for figures in (self.memory, self.speed):
            check_lengths("repeats", msgspec.structs.astuple(figures), 0, repeats)
        check_lengths("repeats", [self.frames], 0, repeats)

        streams = self.plan.schedule.count if self.plan.schedule else 0
        check_lengths("streams", (frames.streams for frames in self.frames if frames), streams)
        check_lengths("models", [self.models], len(self.plan.models) or 1)
        check_lengths("models", self.speed.model_latency_ns, len(self.plan.models))
        if self.outcome not in OUTCOMES:
            raise ValueError(f"unknown outcome {self.outcome!r}; valid: {', '.join(OUTCOMES)}")

        # The plan has other contexts than its figures if contexts are added until one fails, or
        # cycles make them as they go.
        if self.outcome == "ok" and not self.plan.fills and self.plan.cycles is None:
            self._check_contexts()

    def _check_contexts(self) -> None:
        contexts = len(self.plan.contexts)
        accounts = [repeat.npu for repeat in self.repeats if repeat.npu]
        check_lengths("contexts", self.memory.context_memory_bytes, contexts)
        check_lengths("contexts", (account.contexts for account in accounts), contexts)
        check_lengths("contexts", [self.runtime_accounts, self.copies], *range(contexts + 1))
        for account in accounts:
            for part in account.shared:
                if not {part.owner, *part.readers} <= set(range(contexts)):
                    raise ValueError("memory is shared with a context that is not in the plan")

        application_memory = self.memory.application_memory_bytes
        if contexts and (None in application_memory or not application_memory):
            raise ValueError("a repeat that came to its end has no memory")

    @property
    def has_several_latencies(self) -> bool:
        """Whether the inferences are of several models; frames of all streams have one latency."""
        return len(self.models) > 1 and self.plan.schedule is None

    @property
    def shortage_signs(self) -> tuple[Message, ...]:
        """Evidence that memory was short: each kind once, from the first repeat that has it."""
        return signs_of(repeat.shortage for repeat in self.repeats)

    @property
    def is_short(self) -> bool:
        """Whether memory was short, and its main memory is not that of an NPU, which stays."""
        has_npu = any(size is not None for size in self.memory.npu_memory_bytes)
        return bool(self.shortage_signs) and not has_npu

    @property
    def memory_remarks(self) -> tuple[Message, ...]:
        """Remarks on its memory: each kind once, from the first repeat that has it."""
        remarks = [repeat.remarks for repeat in self.repeats]
        remarks += [repeat.shortage.remarks for repeat in self.repeats if repeat.shortage]
        return once(remarks)
