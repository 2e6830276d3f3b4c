"""Builds the stored result of a configuration from its repeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from reusebench.harness.measuring.memory_remarks import memory_remarks
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.measuring.repeat_figures import (
    SPEED_FIGURES,
    STREAM_SPEED_FIGURES,
    TURN_FIGURES,
    counted_by,
    memory_figures,
    model_latencies,
    npu_memory,
)
from reusebench.harness.measuring.shortage_evidence import shortage_of
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import Copies, NodeOrder, Placement
from reusebench.storage.group_charge import charge_of
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import (
    SCHEMA,
    CycleSeries,
    MemoryFigures,
    ModelName,
    PhaseReading,
    Result,
    Speed,
    StoredRepeat,
)
from reusebench.targets.barriers import BarrierReading
from reusebench.targets.outcome import Failure

__all__ = ["Provenance", "build_result", "is_settled"]


@dataclass(frozen=True)
class Provenance:
    """The facts about a result that are no figures: its plan, its target and its versions."""

    plan: Plan
    target: str
    streams: int
    #: Number of contexts per stream.
    contexts: int
    #: Number of model files that the user gave, or that the built-in set has.
    model_files: int
    #: Identity of the session, common to all results of one `pytest bench/`.
    run: str
    #: Versions that the measured processes reported; None before a process of this runtime has.
    runtime_version: str | None
    python_version: str | None
    #: Version of the kernel driver under the runtime.
    driver_version: str | None = None
    #: The Rockchip chip; None if it is not known.
    chip: str | None = None
    #: CPU architecture of the measured process.
    architecture: str | None = None
    #: Limit of all NPU buffers together, on a virtual board that was given one.
    npu_memory_limit_bytes: int | None = None
    #: Session of several boards only.
    board: str | None = None
    #: False if the NPU's arithmetic is missing: no figure of speed, no comparison of outputs.
    computes: bool = True
    #: Whether an emulator of its processor is in the measured process.
    emulated: bool = False
    #: Language of the driver (targets.protocol.base).
    driver: str = "python"
    #: Node orders of prepared models, by the model's digest.
    node_orders: dict[str, NodeOrder] = field(default_factory=dict)


#: Memory is known well enough if its ± is no larger a share of it. Savings are tens of percent;
#: repeats of dups differ by less than 0.1 %, of contexts that are loaded one by one by 1 to 5 %,
#: and some figures have two values 5 to 15 % apart.
_SETTLED_SHARE = 0.02


def build_result(
    provenance: Provenance, repeats: Sequence[Repeat], failure: Failure | None
) -> Result:
    """Return the result as it is stored; with a failure it has no figures to compare."""
    plan = provenance.plan
    kind = counted_by(_barriers(repeats))
    limit = repeats[0].limit if repeats else None
    if limit is None:
        comparable = list(repeats)
    else:
        # Plans that add contexts until one fails have no comparable figures; see `limit`.
        comparable = [replace(repeat, barriers=(), npu=None) for repeat in repeats]
    if provenance.computes:
        timed = comparable
    else:
        # If nothing computes, the only figure of speed is the CPU use of the machine.
        timed = [replace(repeat, barriers=(), frames=None) for repeat in comparable]
    return Result(
        schema=SCHEMA,
        run=provenance.run,
        board=provenance.board,
        runtime=plan.runtime,
        runtime_version=provenance.runtime_version,
        target=provenance.target,
        driver=provenance.driver,
        python_version=provenance.python_version,
        driver_version=provenance.driver_version,
        chip=provenance.chip,
        architecture=provenance.architecture,
        npu_memory_limit_bytes=provenance.npu_memory_limit_bytes,
        computes=provenance.computes,
        emulated=provenance.emulated,
        scenario=plan.scenario,
        baseline=plan.baseline,
        streams=provenance.streams,
        contexts=provenance.contexts,
        cores=plan.cores,
        rounds=plan.rounds,
        models=tuple(ModelName(name=model.name, digest=model.digest) for model in plan.models),
        model_files=provenance.model_files,
        node_orders=provenance.node_orders,
        outcome=failure.kind if failure else "ok",
        failure=failure,
        output_digests=_output_digests(plan, repeats),
        output_samples=_output_samples(plan, repeats),
        runtime_accounts=_runtime_accounts(repeats),
        copies=_copies(repeats),
        placements=_placements(plan, repeats),
        counted_by=kind,
        memory=_memory(comparable, kind),
        speed=_speed(plan, timed),
        frames=tuple(repeat.frames for repeat in repeats) if plan.schedule else (),
        cycles=_cycle_series(repeats[0].barriers) if plan.cycles and repeats else None,
        limit=limit,
        repeats=tuple(_stored_repeat(repeat) for repeat in repeats),
        plan=plan.limited_to(limit.contexts) if limit else plan,
    )


def is_settled(repeats: Sequence[Repeat]) -> bool:
    """Whether these repeats tell application memory and NPU memory well enough.

    Speed does not count: most of its noise is the machine's, which more processes do not narrow.
    """
    figures = memory_figures(counted_by(_barriers(repeats)))
    for figure_of in (figures["application_memory_bytes"], npu_memory):
        figure = Figure.of(map(figure_of, repeats))
        if figure and (figure.spread or 0) > _SETTLED_SHARE * figure.median:
            return False
    return True


def _barriers(repeats: Iterable[Repeat]) -> Iterator[BarrierReading]:
    for repeat in repeats:
        yield from repeat.barriers


def _memory(repeats: Sequence[Repeat], kind: str) -> MemoryFigures:
    figures = {}
    for name, figure_of in memory_figures(kind).items():
        figures[name] = tuple(map(figure_of, repeats))
    return MemoryFigures(**figures)


def _speed(plan: Plan, repeats: Sequence[Repeat]) -> Speed:
    figures = STREAM_SPEED_FIGURES if plan.schedule else SPEED_FIGURES
    if plan.conversation:
        figures = {**figures, **TURN_FIGURES}
    speed = {name: tuple(map(figure_of, repeats)) for name, figure_of in figures.items()}
    if plan.schedule:
        return Speed(**speed)
    latencies = tuple(model_latencies(plan, repeat) for repeat in repeats)
    medians = tuple(map(_only_latency, latencies))
    return Speed(**speed, latency_median_ns=medians, model_latency_ns=latencies)


def _only_latency(latencies_ns: Sequence[int | None] | None) -> int | None:
    """Return the latency of a single model; latencies of several are not one figure."""
    if latencies_ns is None or len(latencies_ns) != 1:
        return None
    return latencies_ns[0]


def _copies(repeats: Sequence[Repeat]) -> tuple[Copies, ...] | None:
    """Return the copies of each context's first inference in the first repeat; None without any."""
    if not repeats:
        return None
    copies = [
        barrier.data.copies or Copies(0, 0) for barrier in repeats[0].of_contexts("first_inference")
    ]
    return tuple(copies) or None


def _placements(plan: Plan, repeats: Sequence[Repeat]) -> dict[str, Placement]:
    """Return the placement of each model, by its digest, from the first repeat that tells one."""
    placements: dict[str, Placement] = {}
    for repeat in repeats:
        for barrier in repeat.of_contexts("first_inference"):
            if barrier.data.placement:
                model = plan.models[plan.contexts[barrier.context or 0].model]
                placements.setdefault(model.digest, barrier.data.placement)
    return placements


def _cycle_series(barriers: Sequence[BarrierReading]) -> CycleSeries | None:
    """Return the readings before the first cycle and after each; None if none was done."""
    phases = [barrier.phase for barrier in barriers]
    if "cycle" not in phases:
        return None
    before = barriers[phases.index("cycle") - 1]
    readings = [before, *(barrier for barrier in barriers if barrier.phase == "cycle")]
    usages = [reading.data.usage for reading in readings if reading.data.usage]
    return CycleSeries(
        allocated_bytes=tuple(usage.allocated_bytes for usage in usages),
        pss_bytes=tuple(reading.process.pss_bytes for reading in readings),
        pss_without_files_bytes=_complete(map(_pss_without_files, readings)),
        heap_bytes=_complete(usage.heap_bytes for usage in usages),
        npu_memory_bytes=_complete(reading.npu_held_bytes for reading in readings),
        fds=tuple(usage.fds for usage in usages),
        mappings=tuple(usage.mappings for usage in usages),
        threads=tuple(usage.threads for usage in usages),
        children=tuple(reading.process.child_count for reading in readings),
        zombies=tuple(reading.process.zombie_count for reading in readings),
        held_file_bytes=_complete(reading.process.held_file_bytes for reading in readings),
    )


def _complete(values: Iterable[int | None]) -> tuple[int, ...] | None:
    """Return the values; None if one is missing."""
    known: list[int] = []
    for value in values:
        if value is None:
            return None
        known.append(value)
    return tuple(known)


def _pss_without_files(barrier: BarrierReading) -> int | None:
    anon_bytes = barrier.process.pss_anon_bytes
    shmem_bytes = barrier.process.pss_shmem_bytes
    if anon_bytes is None or shmem_bytes is None:
        return None
    return anon_bytes + shmem_bytes


def _output_digests(plan: Plan, repeats: Sequence[Repeat]) -> dict[str, tuple[str, ...]]:
    """Return every distinct digest of outputs over contexts, phases and repeats, by the model's
    digest.
    """
    digests: dict[str, set[str]] = {}
    for repeat in repeats:
        for context, digest in _outputs(plan, repeat):
            model = plan.models[plan.contexts[context].model]
            digests.setdefault(model.digest, set()).add(digest)
    return {model: tuple(sorted(distinct)) for model, distinct in digests.items()}


def _outputs(plan: Plan, repeat: Repeat) -> list[tuple[int, str]]:
    """Return pairs of a context and a digest of its outputs."""
    outputs = [
        (barrier.context or 0, barrier.data.digest)
        for barrier in repeat.of_contexts("first_inference")
    ]
    for barrier in repeat.barriers:
        if barrier.phase == "cycle" and barrier.data.digest:
            # All contexts of a cycle have the same model.
            outputs.append((0, barrier.data.digest))
    steady = repeat.last("steady")
    if steady and plan.schedule is None:  # outputs of frames are compared frame by frame
        outputs += enumerate(steady.data.digests)
    return outputs


def _output_samples(
    plan: Plan, repeats: Sequence[Repeat]
) -> dict[str, tuple[tuple[float | None, ...], ...]]:
    """Return samples of outputs by the model's digest, from the first repeat that has them."""
    samples: dict[str, tuple[tuple[float | None, ...], ...]] = {}
    for repeat in repeats:
        for barrier in repeat.of_contexts("first_inference"):
            if barrier.data.samples:
                model = plan.models[plan.contexts[barrier.context or 0].model]
                samples.setdefault(model.digest, barrier.data.samples)
    return samples


def _runtime_accounts(repeats: Sequence[Repeat]) -> tuple[dict[str, int], ...]:
    """Return the account of the runtime and its adapter for each context of the first repeat, after
    its first inference.

    Empty on an NPU, whose account belongs to the repeat.
    """
    if not repeats or repeats[0].npu:
        return ()
    accounts = []
    for barrier in repeats[0].of_contexts("first_inference"):
        account = dict(barrier.data.account)
        for allocation in barrier.data.allocations:
            name = f"{allocation.kind}_bytes"
            account[name] = account.get(name, 0) + allocation.asked_bytes
        accounts.append(account)
    return tuple(accounts) if any(accounts) else ()


def _stored_repeat(repeat: Repeat) -> StoredRepeat:
    """Return the repeat with the reading at the end of each phase; the trace has every barrier."""
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
        charge=charge_of(barrier.group for barrier in repeat.barriers),
        remarks=tuple(memory_remarks(repeat.barriers)),
    )
