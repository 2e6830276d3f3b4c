"""The result of a configuration: the figures that follow from its repeats."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reusebench.accounting.account import Account
from reusebench.harness.measuring.shortage import shortage_of
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import Copies, NodeOrder
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import (
    SCHEMA,
    ContextLimit,
    CycleSeries,
    FrameCount,
    MemoryFigures,
    ModelName,
    PhaseReading,
    Result,
    Speed,
    StoredRepeat,
    StreamsRun,
)
from reusebench.targets.barriers import BarrierReading
from reusebench.targets.outcome import Failure

__all__ = ["Configuration", "Repeat", "build_result", "is_settled"]


@dataclass(frozen=True)
class Configuration:
    """What was measured: the plan and what it was made from."""

    plan: Plan
    target: str
    streams: int
    #: Per stream.
    contexts: int
    #: How many model files the user gave, or the built-in set has.
    model_files: int
    #: The session's identity, common to all results of one `pytest bench/`.
    run: str
    #: What the measured processes reported; None before one of this runtime has come so far.
    runtime_version: str | None
    python_version: str | None
    #: Of the kernel driver under the runtime.
    driver_version: str | None = None
    #: The Rockchip chip, where it is known.
    chip: str | None = None
    #: Of the measured process.
    architecture: str | None = None
    #: What NPU buffers may take on a virtual board that was given a limit.
    npu_memory_limit_bytes: int | None = None
    #: False where the NPU's arithmetic is missing: no figure of speed, no comparison of outputs.
    computes: bool = True
    #: Whether an emulator of its processor is in the measured process.
    emulated: bool = False
    #: What the measured process is written in (targets.talks).
    driver: str = "python"
    #: Of prepared models, by digest.
    node_orders: dict[str, NodeOrder] = field(default_factory=dict)


@dataclass(frozen=True)
class Repeat:
    """What one fresh process gave."""

    #: In order.
    barriers: Sequence[BarrierReading]
    failure: Failure | None
    elapsed_s: float
    system_memory_noise_bytes: int
    #: How busy the machine was in the idle time before the process started.
    idle_cpu_percent: float
    #: Path of the trace, relative to the storage.
    trace: str
    #: None if nothing gives an account of NPU memory.
    npu: Account | None = None
    #: None without streams, or before their steady state.
    frames: StreamsRun | None = None
    #: None if the plan does not fill, or the process failed otherwise.
    limit: ContextLimit | None = None
    #: When the process was started; monotonic clock of its machine.
    start_ns: int = 0

    @property
    def all_frames(self) -> FrameCount | None:
        """The frames of all streams; None without streams, before their steady state, or where
        nothing computes.
        """
        return self.frames.all if self.frames else None

    def last(self, phase: str) -> BarrierReading | None:
        """Return the last barrier of a phase."""
        return next(
            (barrier for barrier in reversed(self.barriers) if barrier.phase == phase), None
        )

    def of_contexts(self, phase: str) -> list[BarrierReading]:
        """Return the barriers of a phase that has one per context, in the order of the contexts."""
        barriers = [barrier for barrier in self.barriers if barrier.phase == phase]
        return sorted(barriers, key=lambda barrier: barrier.context or 0)


#: Memory is known well enough where its ± is no larger a share of it. Savings are tens of percent;
#: repeats of dups differ by less than 0.1 %, of contexts that are loaded one by one by 1 to 5 %,
#: and some figures have two values 5 to 15 % apart.
_SETTLED_SHARE = 0.02

#: Phases whose steps are of one context and add memory to it.
_OF_A_CONTEXT = ("context", "internal_memory", "first_inference")


def build_result(
    configuration: Configuration, repeats: Sequence[Repeat], failure: Failure | None
) -> Result:
    """Return the result as it is stored; with a failure the configuration has no figures to
    compare.
    """
    plan = configuration.plan
    firsts = repeats[0].of_contexts("first_inference") if repeats else []
    copies = tuple(barrier.data.copies or Copies(0, 0) for barrier in firsts)
    limit = next((repeat.limit for repeat in repeats), None)
    speed_figures = _SPEED_OF_STREAMS if plan.schedule else _SPEED
    # Of as many contexts as fit no figure can be compared; `limit` has what they took.
    figured = (
        repeats if limit is None else [replace(repeat, barriers=(), npu=None) for repeat in repeats]
    )
    # Where nothing computes there is no figure of speed, only how busy the machine was.
    timed = (
        figured
        if configuration.computes
        else [replace(repeat, barriers=(), frames=None) for repeat in figured]
    )
    return Result(
        schema=SCHEMA,
        run=configuration.run,
        runtime=plan.runtime,
        runtime_version=configuration.runtime_version,
        target=configuration.target,
        driver=configuration.driver,
        python_version=configuration.python_version,
        driver_version=configuration.driver_version,
        chip=configuration.chip,
        architecture=configuration.architecture,
        npu_memory_limit_bytes=configuration.npu_memory_limit_bytes,
        computes=configuration.computes,
        emulated=configuration.emulated,
        scenario=plan.scenario,
        baseline=plan.baseline,
        streams=configuration.streams,
        contexts=configuration.contexts,
        cores=plan.cores,
        rounds=plan.rounds,
        models=tuple(ModelName(name=model.name, digest=model.digest) for model in plan.models),
        model_files=configuration.model_files,
        node_orders=configuration.node_orders,
        outcome=failure.kind if failure else "ok",
        failure=failure,
        output_digests=_output_digests(plan, repeats),
        output_samples=_output_samples(plan, repeats),
        runtime_accounts=_runtime_accounts(repeats),
        copies=copies or None,
        memory=MemoryFigures(
            **{name: tuple(map(figure, figured)) for name, figure in _MEMORY.items()}
        ),
        speed=Speed(**{name: tuple(map(figure, timed)) for name, figure in speed_figures.items()}),
        frames=tuple(repeat.frames for repeat in repeats) if plan.schedule else (),
        cycles=_cycle_series(repeats[0].barriers) if plan.cycles and repeats else None,
        limit=limit,
        repeats=tuple(_stored_repeat(repeat) for repeat in repeats),
        plan=plan.limited_to(limit.contexts) if limit else plan,
    )


def is_settled(repeats: Sequence[Repeat]) -> bool:
    """Whether application memory and NPU memory are known well enough by these repeats.

    Speed is not looked at: most of its noise is the machine's, which a further process does not
    narrow.
    """
    figures = (
        Figure.of(map(figure, repeats))
        for figure in (_MEMORY["application_memory_bytes"], _npu_memory)
    )
    return all(
        (figure.spread or 0) <= _SETTLED_SHARE * figure.median for figure in figures if figure
    )


def _cycle_series(barriers: Sequence[BarrierReading]) -> CycleSeries | None:
    """Return what was read before the first cycle and after each; None if none was done."""
    first = next(
        (index for index, barrier in enumerate(barriers) if barrier.phase == "cycle"), None
    )
    if first is None:
        return None
    read = [barriers[first - 1], *(barrier for barrier in barriers if barrier.phase == "cycle")]
    usages = [barrier.data.usage for barrier in read if barrier.data.usage]
    return CycleSeries(
        allocated_bytes=tuple(usage.allocated_bytes for usage in usages),
        pss_bytes=tuple(barrier.process.pss_bytes for barrier in read),
        pss_without_files_bytes=_whole(map(_pss_without_files, read)),
        heap_bytes=_whole(usage.heap_bytes for usage in usages),
        npu_memory_bytes=_whole(barrier.npu_held_bytes for barrier in read),
        fds=tuple(usage.fds for usage in usages),
        mappings=tuple(usage.mappings for usage in usages),
        threads=tuple(usage.threads for usage in usages),
    )


def _whole(readings: Iterable[int | None]) -> tuple[int, ...] | None:
    """Return the readings; None if one is missing."""
    known: list[int] = []
    for reading in readings:
        if reading is None:
            return None
        known.append(reading)
    return tuple(known)


def _pss_without_files(barrier: BarrierReading) -> int | None:
    anon = barrier.process.pss_anon_bytes
    shmem = barrier.process.pss_shmem_bytes
    return None if anon is None or shmem is None else anon + shmem


def _output_digests(plan: Plan, repeats: Sequence[Repeat]) -> dict[str, tuple[str, ...]]:
    """Return, by the model's digest, every distinct digest of its outputs, over contexts, phases
    and repeats.
    """
    digests: dict[str, set[str]] = {}
    for repeat in repeats:
        outputs = [
            (barrier.context or 0, barrier.data.digest)
            for barrier in repeat.of_contexts("first_inference")
        ]
        # Contexts of a cycle are all of one model.
        cycles = (barrier.data.digest for barrier in repeat.barriers if barrier.phase == "cycle")
        outputs += [(0, digest) for digest in cycles if digest]
        steady = repeat.last("steady")
        if steady and plan.schedule is None:  # those of frames are compared frame by frame
            outputs += enumerate(steady.data.digests)
        for context, digest in outputs:
            digests.setdefault(plan.models[plan.contexts[context].model].digest, set()).add(digest)
    return {model: tuple(sorted(of_model)) for model, of_model in digests.items()}


def _output_samples(
    plan: Plan, repeats: Sequence[Repeat]
) -> dict[str, tuple[tuple[float | None, ...], ...]]:
    """Return, by the model's digest, the samples of its outputs: those of the first repeat that has
    them.
    """
    samples: dict[str, tuple[tuple[float | None, ...], ...]] = {}
    for repeat in repeats:
        for barrier in repeat.of_contexts("first_inference"):
            if barrier.data.samples:
                samples.setdefault(
                    plan.models[plan.contexts[barrier.context or 0].model].digest,
                    barrier.data.samples,
                )
    return samples


def _runtime_accounts(repeats: Sequence[Repeat]) -> tuple[dict[str, int], ...]:
    """Return, by context, what the runtime and the adapter say of it after its first inference, in
    the first repeat.

    Nothing on an NPU, whose account is that of the repeat.
    """
    accounts = []
    for barrier in (
        repeats[0].of_contexts("first_inference") if repeats and not repeats[0].npu else ()
    ):
        account = dict(barrier.data.account)
        for allocation in barrier.data.allocations:
            name = f"{allocation.kind}_bytes"
            account[name] = account.get(name, 0) + allocation.asked_bytes
        accounts.append(account)
    return tuple(accounts) if any(accounts) else ()


def _at_end_of(
    phase: str, figure_of: Callable[[BarrierReading], int | None]
) -> Callable[[Repeat], int | None]:
    """Return the figure of a repeat that is read at the end of a phase; None if it was not
    reached.
    """

    def figure(repeat: Repeat) -> int | None:
        barrier = repeat.last(phase)
        return figure_of(barrier) if barrier else None

    return figure


def _pss_over_baseline(phase: str) -> Callable[[Repeat], int | None]:
    """Return the figure of PSS at the end of a phase above the do-nothing baseline of the same
    process.
    """

    def figure(repeat: Repeat) -> int | None:
        barrier = repeat.last(phase)
        baseline = repeat.last("imported")
        return (
            barrier.process.pss_bytes - baseline.process.pss_bytes if barrier and baseline else None
        )

    return figure


def _peak(repeat: Repeat) -> int | None:
    """Return the highest RSS from the start of the process to the end of the steady phase."""
    if repeat.last("steady") is None:
        return None
    peaks = [
        barrier.process.peak_rss_bytes for barrier in repeat.barriers if barrier.phase != "destroy"
    ]
    known = [peak for peak in peaks if peak is not None]
    return max(known) if len(known) == len(peaks) else None


def _context_memory(repeat: Repeat) -> tuple[int, ...] | None:
    """Return the PSS that each context added: when it was made, and in the steps of its memory and
    first inference.

    None if contexts come and go.
    """
    made = repeat.of_contexts("context")
    if not made or repeat.last("cycle") or len(made) != len(repeat.of_contexts("first_inference")):
        return None
    added = [0] * len(made)
    for before, after in zip(repeat.barriers, repeat.barriers[1:]):
        if after.phase in _OF_A_CONTEXT:
            added[after.context or 0] += after.process.pss_bytes - before.process.pss_bytes
    return tuple(added)


def _npu_memory(repeat: Repeat) -> int | None:
    """Return the NPU's memory by its most exact source: ledger, the process's dma-bufs, the
    runtime's own account.
    """
    total = repeat.npu.total_bytes if repeat.npu else None
    if repeat.npu is not None and repeat.npu.source == "ledger":
        return total
    barrier = repeat.last("steady")
    held = barrier.npu.process_dmabuf_bytes if barrier and barrier.npu else None
    return total if held is None else held


_MEMORY: dict[str, Callable[[Repeat], Any]] = {
    "application_memory_bytes": _at_end_of("steady", lambda barrier: barrier.process.pss_bytes),
    "application_memory_trimmed_bytes": _at_end_of(
        "trimmed", lambda barrier: barrier.process.pss_bytes if barrier.malloc_trimmed else None
    ),
    "application_memory_over_baseline_bytes": _pss_over_baseline("steady"),
    "baseline_memory_bytes": _at_end_of("imported", lambda barrier: barrier.process.pss_bytes),
    "application_rss_bytes": _at_end_of("steady", lambda barrier: barrier.process.rss_bytes),
    "application_uss_bytes": _at_end_of("steady", lambda barrier: barrier.process.uss_bytes),
    "application_peak_rss_bytes": _peak,
    "residue_memory_bytes": lambda repeat: (
        None if repeat.failure else _pss_over_baseline("destroy")(repeat)
    ),
    "context_memory_bytes": _context_memory,
    "decoder_memory_bytes": _pss_over_baseline("decoders"),
    "system_memory_bytes": _at_end_of("steady", lambda barrier: barrier.system.used_bytes),
    "system_memory_noise_bytes": lambda repeat: repeat.system_memory_noise_bytes,
    "npu_memory_bytes": _npu_memory,
    "npu_peak_bytes": lambda repeat: repeat.npu.peak_bytes if repeat.npu else None,
    "npu_left_bytes": lambda repeat: repeat.npu.left_bytes if repeat.npu else None,
}


def _latency_median(repeat: Repeat) -> int | None:
    steady = repeat.last("steady")
    if steady is None:
        return None
    return round(
        statistics.median(ns for latencies in steady.data.latencies_ns for ns in latencies)
    )


def _throughput(repeat: Repeat) -> float | None:
    steady = repeat.last("steady")
    return (
        sum(map(len, steady.data.latencies_ns)) / (steady.data.elapsed_ns / 1e9) if steady else None
    )


def _frame_latency(percentile: str) -> Callable[[Repeat], int | None]:
    """Return the figure of the latency of all frames, from when a frame is due to when its output
    has been read.
    """

    def figure(repeat: Repeat) -> int | None:
        latency = repeat.all_frames.latency_ns if repeat.all_frames else None
        return getattr(latency, percentile) if latency else None

    return figure


def _frames_lost_percent(repeat: Repeat) -> float | None:
    frames = repeat.all_frames
    return 100 * (frames.dropped + frames.missed) / frames.due if frames and frames.due else None


_SPEED: dict[str, Callable[[Repeat], Any]] = {
    "latency_median_ns": _latency_median,
    "throughput_per_s": _throughput,
    "context_load_ns": lambda repeat: tuple(
        row.data.load_ns for row in repeat.of_contexts("context")
    ),
    "first_inference_ns": lambda repeat: tuple(
        row.data.latency_ns for row in repeat.of_contexts("first_inference")
    ),
    "idle_cpu_percent": lambda repeat: repeat.idle_cpu_percent,
}
_SPEED_OF_STREAMS = {
    **_SPEED,
    "latency_median_ns": _frame_latency("p50"),
    "latency_p99_ns": _frame_latency("p99"),
    "throughput_per_s": lambda repeat: repeat.all_frames.per_s if repeat.all_frames else None,
    "frames_lost_percent": _frames_lost_percent,
}


def _stored_repeat(repeat: Repeat) -> StoredRepeat:
    """Return the repeat with the reading at the end of each phase; every barrier is in the
    trace.
    """
    phases = {}
    for barrier in repeat.barriers:
        phases[barrier.phase] = PhaseReading(
            malloc_trimmed=barrier.malloc_trimmed,
            process=barrier.process,
            system=barrier.system,
            npu=barrier.npu,
            npu_live_bytes=barrier.npu_live_bytes,
        )
    return StoredRepeat(
        failure=repeat.failure,
        elapsed_s=repeat.elapsed_s,
        trace=repeat.trace,
        phases=phases,
        npu=None if repeat.limit else repeat.npu,
        shortage=shortage_of(repeat.barriers, repeat.start_ns),
    )
