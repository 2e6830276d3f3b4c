"""Stored runs made from chosen figures, by the code that stores measured ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional

import msgspec

from reusebench.accounting.account import Account
from reusebench.accounting.ledger import Ledger
from reusebench.accounting.sharing import Shared
from reusebench.accounting.sizes import COMMAND_BUFFER, ContextMemory
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.measuring.result_building import Provenance, build_result
from reusebench.measured.messages import Message
from reusebench.measured.plan import LOAD, Context, Model, Plan, Streams
from reusebench.measured.runtimes.base import Copies
from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.grouping import group_results
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits
from reusebench.reports.results.rows import Group, Row
from reusebench.samplers.readings import (
    Environment,
    MemorySource,
    Pressure,
    ProcessMemory,
    SystemMemory,
)
from reusebench.scenarios.catalogue import (
    FRAMES_4K,
    FRAMES_1080P,
    SCENARIOS,
    SESSIONS,
    Parameters,
    find_scenario,
    scenarios_of,
)
from reusebench.scenarios.catalogue import STREAMS as OF_STREAMS
from reusebench.storage.memory_shortage import Shortage
from reusebench.storage.recorded_program import Program
from reusebench.storage.result import Result, StreamsRun
from reusebench.storage.run_file import (
    BOARDS,
    PROGRAMS,
    WITHOUT_SPEED,
    Commit,
    Cpu,
    MachineInfo,
    StoredRun,
    read_storage,
)
from reusebench.storage.trace import NpuTimeline, Timeline, Trace, write_trace
from reusebench.targets.barriers import BarrierReading, StepData
from reusebench.targets.outcome import Failure

MIB = 2**20
IMPORTED = 30 * MIB
#: Memory of decoders when they are opened, and of decoded frames.
DECODERS = 40 * MIB
DECODING = 64 * MIB
MODELS = tuple(Model(f"model-{name}", f"/models/{name}.onnx", name * 64) for name in "abcd")
STREAMS = 4
CONTEXTS = 3
LATENCY_NS = 20_000_000
#: Bytes of an input tensor of the stored runs, by set of models; an output has half as many.
TENSOR_BYTES = {OF_STREAMS: 2 * MIB, FRAMES_1080P: 24 * MIB, FRAMES_4K: 96 * MIB}
_MODEL_SETS = {scenario.name: scenario.model_set for scenario in SCENARIOS}
#: NPU memory of a context of the stored runs that shares nothing: 10 MiB in all.
NPU_SIZES = {
    "weights": 6 * MIB,
    "internal": 2 * MIB,
    "register_commands": MIB,
    "task_list": MIB // 16,
    "task_list_copy": 0,
    "padding": 0,
    "io": 15 * MIB // 16,
    "other": 0,
}

NO_COMMIT = Commit()
#: Statistics of all latencies together, as pytest-benchmark stores them; no figure comes from them.
STATS = {"median": 1.5}

MakeAccount = Callable[[Plan], Account]
#: Values of each output, as every context gives them.
Samples = tuple[tuple[Optional[float], ...], ...]


def in_words(text: str) -> Message:
    """Return a message with these words in every language."""
    return Message("text", {"text": text})


KILLED = Message("process_ended_by_signal", {"signal": "SIGSEGV"})
FAILED = Failure("crashed", "context", 2, KILLED, "<script>alert('last words')</script>")
NOT_SUPPORTED = Failure(
    "not_supported", "context", 1, in_words("the runtime runs a context from one thread at a time")
)

MACHINE = MachineInfo(
    machine="aarch64",
    system="Linux",
    release="6.1.0",
    python_version="3.11.7",
    cpu=Cpu("A CPU"),
    reusebench=Environment(
        board="board-123456",
        memory_total_bytes=4096 * MIB,
        page_size_bytes=4096,
        usable_cpus=2,
        cpu_governor="performance",
        transparent_hugepages="madvise",
        overcommit_memory="0",
        address_randomisation="2",
        swaps=0,
        variables={},
        memory_sources=(
            MemorySource("PSS", True, in_words("memory of the process")),
            MemorySource("/sys/kernel/debug/dma_buf/bufinfo", False, Message("needs_root")),
        ),
    ),
)


def machine(**changes: Any) -> MachineInfo:
    """Return the machine with other facts."""
    return msgspec.structs.replace(
        MACHINE, reusebench=msgspec.structs.replace(MACHINE.reusebench, **changes)
    )


# Parts of a result


def even(mib: float, repeats: int = 3, spread: float = 0.0) -> list[list[int]]:
    """Return repeats in which each of 12 contexts adds `mib`, give or take `spread`."""
    offsets = [
        spread * (2 * index / (repeats - 1) - 1) if repeats > 1 else 0.0 for index in range(repeats)
    ]
    return [[round((mib + offset) * MIB)] * (STREAMS * CONTEXTS) for offset in offsets]


def dup(first_mib: float, further_mib: float, repeats: int = 3) -> list[list[int]]:
    """Return repeats in which the first context adds `first_mib`, and each other `further_mib`."""
    return [
        [round(first_mib * MIB)] + [round(further_mib * MIB)] * (STREAMS * CONTEXTS - 1)
    ] * repeats


def barriers(
    plan: Plan, per_context: Sequence[int], digest: str = "00000001", samples: Samples = ()
) -> list[BarrierReading]:
    """Return readings in which context i adds `per_context[i]` bytes, half at its inference."""
    level = IMPORTED
    at_ns = 1_000_000_000
    readings = []
    for step in plan.steps():
        at_ns += 10_000_000
        data = StepData()
        size = 0 if step.context is None else per_context[step.context]
        if step.phase == "decoders":
            level += DECODERS
        elif step.phase == "context":
            level += size // 2
            data = StepData(load_ns=5_000_000)
        elif step.phase == "first_inference":
            level += size // 2
            copies = copies_of(plan, plan.contexts[step.context or 0])
            data = StepData(latency_ns=LATENCY_NS, digest=digest, samples=samples, copies=copies)
        elif step.phase == "steady":
            if plan.schedule and plan.schedule.video:
                level += DECODING - DECODERS
            count = len(plan.contexts)
            latencies_ns = ((LATENCY_NS,) * plan.rounds,) * count
            data = StepData(
                elapsed_ns=1_000_000_000, latencies_ns=latencies_ns, digests=(digest,) * count
            )
        elif step.phase == "decoders_closed":
            level -= DECODING
        elif step.phase == "destroy":
            level -= size
        readings.append(_reading(step.phase, step.context, at_ns, level, data))
        if step.phase == "steady":
            readings.append(_reading("trimmed", None, at_ns, level - MIB, StepData(trimmed=True)))
    return readings


def copies_of(plan: Plan, context: Context) -> Copies:
    """Return the copies of one inference: each tensor that is not used in place is copied once."""
    size = TENSOR_BYTES.get(_MODEL_SETS.get(plan.scenario, OF_STREAMS), 2 * MIB)
    in_place = {way.replace("native_", "") for way in context.zero_copy}
    is_copied = {
        name: name not in in_place and not context.device_io for name in ("input", "output")
    }
    return Copies(size * is_copied["input"], size // 2 * is_copied["output"])


def _reading(
    phase: str, context: int | None, at_ns: int, level: int, data: StepData
) -> BarrierReading:
    process = ProcessMemory(
        rss_bytes=level,
        pss_bytes=level,
        uss_bytes=level,
        swap_bytes=0,
        # All that stands over the import is anonymous; of the import itself, nothing.
        pss_anon_bytes=level - IMPORTED,
        pss_file_bytes=IMPORTED,
        pss_shmem_bytes=0,
        rss_anon_bytes=level,
        rss_file_bytes=0,
        rss_shmem_bytes=0,
        peak_rss_bytes=level,
        fd_count=5,
        thread_count=2,
        distinct_bytes=level,
    )
    available = 3000 * MIB - level
    system = SystemMemory(4096 * MIB, available, available, 0, 0, 0, 0, None, None)
    return BarrierReading(
        phase, context, at_ns, data, phase in ("trimmed", "destroy"), process, system
    )


def npu_account(plan: Plan, **changes: Any) -> Account:
    """Return the account of a ledger that has seen all sharing of the plan."""
    memories = plan.internal_memories()
    lenders = {member: members[0] for members in memories.values() for member in members[1:]}
    contexts = []
    shared = []
    for index, context in enumerate(plan.contexts):
        sizes = {f"{name}_bytes": size for name, size in NPU_SIZES.items()}
        sizes["weights_bytes"] *= context.mechanism == LOAD
        sizes["internal_bytes"] *= index not in lenders
        contexts.append(ContextMemory(**sizes))
        weights_of = tuple(
            reader for reader, other in enumerate(plan.contexts) if other.source == index
        )
        if weights_of:
            shared.append(
                Shared(3 * index + 2, "weights", sizes["weights_bytes"], index, weights_of)
            )
        internal_of = tuple(member for member, owner in lenders.items() if owner == index)
        if internal_of:
            shared.append(
                Shared(1000 + index, "internal", sizes["internal_bytes"], index, internal_of)
            )
    total = sum(context.total_bytes for context in contexts)
    account = Account(
        source="ledger",
        contexts=tuple(contexts),
        unattributed_bytes=0,
        total_bytes=total,
        peak_bytes=total + MIB,
        left_bytes=0,
        shared=tuple(shared),
        findings=(),
    )
    return msgspec.structs.replace(account, **changes)


def account_with(contexts: Sequence[ContextMemory], account: Account) -> Account:
    """Return the account with these contexts in place of its own, which add up to its total."""
    total = sum(context.total_bytes for context in contexts) + account.unattributed_bytes
    return msgspec.structs.replace(account, contexts=tuple(contexts), total_bytes=total)


def runtime_account(plan: Plan) -> Account:
    """Return an account by the runtime, which tells only weights and internal memory apart."""
    ledger = npu_account(plan, source="runtime", peak_bytes=None, left_bytes=None, shared=())
    other_bytes = NPU_SIZES["task_list"] + sum(NPU_SIZES[name] for name in COMMAND_BUFFER)
    contexts = [
        ContextMemory(context.weights_bytes, context.internal_bytes, other_bytes=other_bytes)
        for context in ledger.contexts
    ]
    return account_with(contexts, ledger)


def _npu_timeline(readings: Sequence[BarrierReading], account: Account) -> NpuTimeline:
    """Return the timeline of a ledger whose contexts come and go at their barriers."""
    times_ns = []
    live_bytes = []
    live = 0
    for reading in readings:
        if reading.phase in ("context", "destroy"):
            size = account.contexts[reading.context or 0].total_bytes
            live += size if reading.phase == "context" else -size
            times_ns.append(reading.at_ns)
            live_bytes.append(live)
    return NpuTimeline(times_ns, live_bytes, Ledger())


# Results


def result(
    storage: Path,
    scenario: str,
    per_context: Sequence[Sequence[int]],
    *,
    models: Sequence[Model] = MODELS,
    failure: Failure | None = None,
    run: str = "run1",
    digest: str = "00000001",
    samples: Samples = (),
    idle_cpu_percent: float = 1.0,
    npu: MakeAccount | None = None,
    computes: bool = True,
    schedule: Streams | None = None,
    frames: Sequence[Optional[StreamsRun]] = (),
    plan: Plan | None = None,
    streams: int = STREAMS,
    contexts: int = CONTEXTS,
) -> Result:
    """Return a result with one repeat per entry of per_context, and write its traces.

    `plan` is a user's plan to run in place of the scenario's. `npu` makes an account of NPU memory,
    and the result one of the runtime rknn. A scenario of streams needs a schedule, and may have
    the frames of each repeat.
    """
    runtime = "rknn" if npu else "onnxruntime"
    parameters = Parameters(
        runtime,
        tuple(models),
        streams,
        contexts,
        cores=2,
        rounds=2,
        schedule=schedule,
        most_contexts=streams * contexts,
    )
    plan = plan or find_scenario(scenario).plans(parameters)[0]
    account = npu(plan) if npu else None
    repeats = []
    for number, costs in enumerate(per_context, start=1):
        readings = barriers(plan, costs, digest, samples)
        times_ns = [reading.at_ns for reading in readings]
        rss_bytes = [reading.process.rss_bytes for reading in readings]
        timeline = Timeline(times_ns, rss_bytes, [1000 * MIB] * len(times_ns))
        ledger = (
            _npu_timeline(readings, account) if account and account.source == "ledger" else None
        )
        trace = write_trace(storage, run, f"{scenario}-{number}", Trace(readings, timeline, ledger))
        run_streams = frames[number - 1] if frames else None
        repeats.append(
            Repeat(readings, None, 1.0, MIB, idle_cpu_percent, trace, account, run_streams)
        )
    provenance = Provenance(
        plan,
        "python" if computes else "vboard:rk3588",
        streams,
        contexts,
        len(models),
        run,
        "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)" if npu else "1.2.3",
        "3.11.7",
        driver_version="0.9.8" if npu else None,
        chip="rk3588" if npu else None,
        computes=computes,
        emulated=not computes,
    )
    return build_result(provenance, repeats, failure)


def changed(info: Result, **changes: Any) -> Result:
    """Return the result with other values in these fields."""
    return msgspec.structs.replace(info, **changes)


def with_memory(info: Result, **figures: Sequence[Optional[int]]) -> Result:
    """Return the result with other figures of memory, one per repeat."""
    changes = {name: tuple(figure) for name, figure in figures.items()}
    return changed(info, memory=msgspec.structs.replace(info.memory, **changes))


def with_short_memory(info: Result) -> Result:
    """Return the result as if the kernel had evicted pages in its first repeat."""
    signs = (Message("shortage_evicted", {"mib": "30.0"}),)
    shortage = Shortage(
        counted=Pressure(), lost_file_bytes=30 * MIB, steady_major_faults=3, signs=signs
    )
    first, *others = info.repeats
    return changed(info, repeats=(msgspec.structs.replace(first, shortage=shortage), *others))


def with_more_memory(info: Result, more_bytes: int) -> Result:
    """Return the result with additional application memory outside the contexts' steps."""
    sizes = info.memory.application_memory_bytes
    return with_memory(info, application_memory_bytes=[(size or 0) + more_bytes for size in sizes])


def with_speed(info: Result, **figures: Sequence[object]) -> Result:
    """Return the result with other figures of speed, one per repeat."""
    changes = {name: tuple(figure) for name, figure in figures.items()}
    return changed(info, speed=msgspec.structs.replace(info.speed, **changes))


def with_account(info: Result, account: Account, repeats: Sequence[int] = (0, 1, 2)) -> Result:
    """Return the result with this account of NPU memory in some of its repeats; its figures
    stay.
    """
    kept = [
        msgspec.structs.replace(repeat, npu=account) if index in repeats else repeat
        for index, repeat in enumerate(info.repeats)
    ]
    return changed(info, repeats=tuple(kept))


def with_steady(info: Result, change: Callable[[int, ProcessMemory], ProcessMemory]) -> Result:
    """Return the result with other readings of the process at the end of the steady phase of each
    repeat.
    """
    repeats = []
    for index, repeat in enumerate(info.repeats):
        steady = repeat.phases["steady"]
        steady = msgspec.structs.replace(steady, process=change(index, steady.process))
        repeats.append(msgspec.structs.replace(repeat, phases={**repeat.phases, "steady": steady}))
    return changed(info, repeats=tuple(repeats))


# Runs


def write_run(
    storage: Path,
    infos: Sequence[Result],
    number: int = 1,
    at: str = "2026-01-02T03:04:05",
    commit: Commit = NO_COMMIT,
    machine: MachineInfo = MACHINE,
    is_finished: bool = True,
    boards: Mapping[str, Optional[MachineInfo]] = MappingProxyType({}),
    programs: Sequence[Program] = (),
) -> Path:
    """Write one run's file as pytest-benchmark lays it out, and return its path.

    `boards` are the machines of a run of several boards.
    """
    with_speed = [info for info in infos if info.outcome == "ok" and info.computes]
    without = [info for info in infos if info not in with_speed]
    document = {
        "machine_info": machine,
        "commit_info": commit,
        "benchmarks": [
            {"name": info.scenario, "extra_info": info, "stats": STATS} for info in with_speed
        ],
        "datetime": f"{at}+00:00",
        "version": "5.3.1",
        WITHOUT_SPEED: [{"name": info.scenario, "extra_info": info} for info in without],
        **({BOARDS: dict(boards)} if boards else {}),
        PROGRAMS: programs,
        **({} if is_finished else {"reusebench_unfinished": True}),
    }
    path = storage / "Linux-CPython-3.11-64bit" / f"{number:04}_run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(document))
    return path


def fleet_run(storage: Path, boards: Sequence[str], number: int = 1) -> Path:
    """Write a run of these boards, each with one scenario."""
    infos = []
    for board in boards:
        info = result(storage, "no_reuse_one_model", even(40), run=f"run{number}")
        infos.append(changed(info, board=board, target=board))
    machines = {board: machine(board=board) for board in boards}
    return write_run(storage, infos, number, f"2026-01-0{number + 1}T00:00:00", boards=machines)


def full_run(storage: Path, number: int = 1, machine: MachineInfo = MACHINE) -> Path:
    """Write a run of dup: no reuse 12 x 40 MiB, dup 40 + 11 x 10 MiB, and one failure."""
    infos = [
        result(storage, "no_reuse", even(40, spread=0.5)),
        result(storage, "partial_dup", even(20)),
        result(storage, "no_reuse_one_model", even(40)),
        result(storage, "full_dup", dup(40, 10)),
        result(storage, "shared_context", [], failure=FAILED),
    ]
    return write_run(storage, infos, number, machine=machine)


def npu_run(
    storage: Path, number: int = 1, *, computes: bool = False, account: MakeAccount = npu_account
) -> Path:
    """Write a run of each mechanism on the NPU; a shared context is not supported."""
    infos = []
    for scenario in SCENARIOS:
        if not scenario.is_variant and scenario.name not in scenarios_of(SESSIONS):
            failure = NOT_SUPPORTED if scenario.name == "shared_context" else None
            costs = even(90, spread=0.9) if failure is None else []
            run = f"run{number}"
            infos.append(
                result(
                    storage,
                    scenario.name,
                    costs,
                    failure=failure,
                    run=run,
                    npu=account,
                    computes=computes,
                )
            )
    return write_run(storage, infos, number)


def runs_of(storage: Path) -> list[StoredRun]:
    """Return the readable runs of the storage."""
    return [file for file in read_storage(storage) if isinstance(file, StoredRun)]


def groups_of(storage: Path) -> list[Group]:
    """Return the groups of the storage's runs."""
    return group_results(runs_of(storage))


def as_measured(original: Result, scenario: str) -> Result:
    """Return the stored result of a scenario whose plan was measured as `original`."""
    names: dict[str, Any] = {"scenario": scenario, "baseline": find_scenario(scenario).baseline}
    plan = dataclasses.replace(original.plan, **names)
    return changed(original, measured_as=original.scenario, plan=plan, **names)


def first_look(storage: Path) -> list[Result]:
    """Return the results of --quick: 12 x 40, 30, 12 and 10 MiB, and equal scenarios."""
    names = ("no_reuse_one_model", "full_dup", "full_dup_internal_reuse", "lean")
    infos = [result(storage, name, even(mib)) for name, mib in zip(names, (40, 30, 12, 10))]
    steps = ("plain", "lean_weights", "lean_internal")
    return [*infos, *(as_measured(info, name) for info, name in zip(infos, steps))]


def group_of(storage: Path, *infos: Result, leak_limits: LeakLimits = DEFAULT_LEAK_LIMITS) -> Group:
    """Write a run of these results, and return their one group."""
    write_run(storage, infos)
    (group,) = group_results(runs_of(storage), leak_limits)
    return group


def numbers(figure: Figure | None) -> tuple[float, float | None]:
    """Return median and spread of a figure, for an approximate comparison."""
    assert figure is not None
    return figure.median, figure.spread


def row_of(group: Group, scenario: str) -> Row:
    """Return the group's row of a scenario."""
    return next(row for row in group.rows if row.scenario == scenario)
