"""Stored runs made from chosen figures, in the form that the harness writes."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from storage.files import WITHOUT_SPEED, check_result
from storage.mechanisms import RuntimeTrials, Trial

from scenarios.catalogue import (
    FRAMES_4K,
    FRAMES_1080P,
    SCENARIOS,
    Parameters,
    build_plans,
    find_scenario,
)
from scenarios.catalogue import (
    STREAMS as OF_STREAMS,
)
from scenarios.plan import Context, Model, Plan
from storage.result import Configuration, Repeat, build_result
from storage.trace import write_trace

MIB = 2**20
IMPORTED = 30 * MIB
MODELS = tuple(Model(f"model-{name}", f"/models/{name}.onnx", name * 64) for name in "abcd")
STREAMS, CONTEXTS = 4, 3
LATENCY_NS = 20_000_000


def barriers(plan: Plan, per_context: Sequence[int], digest: str = "00000001") -> list[dict[str, Any]]:
    """Return a walk in which context i adds per_context[i] bytes, half when made and half at its first inference."""
    level, time_ns, records = IMPORTED, 1_000_000_000, []
    for step in plan.steps():
        data: dict[str, Any] = {}
        time_ns += 10_000_000
        if step.phase == "imported":
            data = {"runtime_version": "1.2.3", "python_version": "3.11.7"}
        elif step.phase == "context":
            level += per_context[step.context or 0] // 2
            data = {"load_ns": 5_000_000, "account": {}}
        elif step.phase == "first_inference":
            level += per_context[step.context or 0] // 2
            copies = copies_of(plan, plan.contexts[step.context or 0])
            data = {"latency_ns": LATENCY_NS, "digest": digest, "copies": copies, "account": {}}
        elif step.phase == "steady":
            count = len(plan.contexts)
            data = {
                "elapsed_ns": 1_000_000_000,
                "latencies_ns": [[LATENCY_NS] * plan.rounds] * count,
                "digests": [digest] * count,
                "accounts": [{}] * count,
            }
        elif step.phase == "destroy":
            level -= per_context[step.context or 0]
        records.append(_record(step.phase, step.context, time_ns, level, data))
        if step.phase == "steady":
            records.append(_record("trimmed", None, time_ns, level - MIB, {"trimmed": True}))
    return records


#: Bytes of an input tensor of the stored runs, by the scenario's models; an output has half of it.
TENSOR_BYTES = {OF_STREAMS: 2 * MIB, FRAMES_1080P: 24 * MIB, FRAMES_4K: 96 * MIB}


def copies_of(plan: Plan, context: Context) -> dict[str, int]:
    """Return what an inference of the context copies: every tensor that is not used where it is, once."""
    size = TENSOR_BYTES.get(find_scenario(plan.scenario).model_set, 2 * MIB)
    copied = {name: name not in context.zero_copy and not context.device_io for name in ("input", "output")}
    return {"input_bytes": size * copied["input"], "output_bytes": size // 2 * copied["output"]}


#: What a context of the stored runs has in NPU memory, where it shares nothing: 10 MiB in all.
NPU_SIZES = {
    "weights": 6 * MIB,
    "internal": 2 * MIB,
    "register_commands": MIB,
    "task_list": MIB // 16,
    "io": 15 * MIB // 16,
    "other": 0,
}


def npu_account(plan: Plan, **changes: Any) -> dict[str, Any]:
    """Return the account of a ledger in which all that the plan shares is shared, and seen to be."""
    memories = plan.internal_memories()
    lenders = {member: members[0] for members in memories.values() for member in members[1:]}
    contexts, shared = [], []
    for index, context in enumerate(plan.contexts):
        sizes = dict(NPU_SIZES)
        sizes["weights"] *= context.mechanism == "load"
        sizes["internal"] *= index not in lenders
        contexts.append({f"{name}_bytes": size for name, size in sizes.items()})
        weights_of = [place for place, other in enumerate(plan.contexts) if other.source == index]
        internal_of = [member for member, owner in lenders.items() if owner == index]
        for buffer, component, readers in (
            (3 * index + 2, "weights", weights_of),
            (1000 + index, "internal", internal_of),
        ):
            memory = {"buffer": buffer, "component": component, "size_bytes": sizes[component]}
            shared += [{**memory, "owner": index, "readers": readers}] if readers else []
    total = sum(sum(context.values()) for context in contexts)
    account = {"source": "ledger", "contexts": contexts, "unattributed_bytes": 0, "total_bytes": total}
    return {**account, "peak_bytes": total + MIB, "left_bytes": 0, "shared": shared, "findings": [], **changes}


def runtime_account(plan: Plan) -> dict[str, Any]:
    """Return an account in the runtime's own words: it tells only weights and internal memory apart."""
    account = npu_account(plan, source="runtime", peak_bytes=None, left_bytes=None, shared=[])
    for context in account["contexts"]:
        context["other_bytes"] = context["register_commands_bytes"] + context["task_list_bytes"]
        account["total_bytes"] -= context["io_bytes"]
        context.update(dict.fromkeys(("register_commands_bytes", "task_list_bytes", "io_bytes")))
    return account


def _npu_steps(walk: Sequence[dict[str, Any]], account: dict[str, Any]) -> dict[str, Any]:
    """Return what the ledger's timeline is when contexts come and go at their barriers."""
    times_ns, live_bytes, live = [], [], 0
    for record in walk:
        if record["phase"] in ("context", "destroy"):
            size = sum(account["contexts"][record["context"]].values())
            live += size if record["phase"] == "context" else -size
            times_ns.append(record["at_ns"])
            live_bytes.append(live)
    return {"times_ns": times_ns, "live_bytes": live_bytes, "ledger": {}}


def _record(phase: str, context: int | None, at_ns: int, level: int, data: dict[str, Any]) -> dict[str, Any]:
    process = dict.fromkeys(("rss_bytes", "pss_bytes", "uss_bytes", "rss_anon_bytes", "peak_rss_bytes"), level)
    # All that stands over the import is anonymous; of the import itself, nothing.
    process.update(pss_anon_bytes=level - IMPORTED, pss_file_bytes=IMPORTED)
    rest = dict.fromkeys(("pss_shmem_bytes", "rss_file_bytes", "rss_shmem_bytes", "swap_bytes"), 0)
    return {
        "phase": phase,
        "context": context,
        "at_ns": at_ns,
        "data": data,
        "malloc_trimmed": phase in ("trimmed", "destroy"),
        "process": {**process, **rest, "fd_count": 5, "thread_count": 2},
        "system": {"total_bytes": 4096 * MIB, "available_bytes": 3000 * MIB - level},
    }


def result(
    storage: Path,
    scenario: str,
    per_context: Sequence[Sequence[int]],
    *,
    models: Sequence[Model] = MODELS,
    failure: dict[str, Any] | None = None,
    run: str = "run1",
    digest: str = "00000001",
    idle_cpu_percent: float = 1.0,
    npu: Callable[[Plan], dict[str, Any]] | None = None,
    computes: bool = True,
) -> dict[str, Any]:
    """Return a schema-valid result with one repeat per entry of per_context, and write its traces.

    With an account of NPU memory it is a result of the runtime rknn.
    """
    runtime = "rknn" if npu else "onnxruntime"
    plan = build_plans(scenario, Parameters(runtime, tuple(models), STREAMS, CONTEXTS, cores=2, rounds=2))[0]
    account = npu(plan) if npu else None
    repeats = []
    for number, costs in enumerate(per_context, start=1):
        walk = barriers(plan, costs, digest)
        times = [record["at_ns"] for record in walk]
        timeline = {
            "times_ns": times,
            "rss_bytes": [record["process"]["rss_bytes"] for record in walk],
            "system_memory_bytes": [1000 * MIB] * len(times),
        }
        ledger = {"npu": _npu_steps(walk, account)} if account and account["source"] == "ledger" else {}
        trace = write_trace(storage, run, f"{scenario}-{number}", {"barriers": walk, "timeline": timeline, **ledger})
        repeats.append(Repeat(walk, None, 1.0, MIB, idle_cpu_percent, trace, account))
    version = "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)" if npu else "1.2.3"
    configuration = Configuration(
        plan,
        "python" if computes else "vboard:rk3588",
        STREAMS,
        CONTEXTS,
        len(models),
        run,
        version,
        "3.11.7",
        driver_version="0.9.8" if npu else None,
        chip="rk3588" if npu else None,
        computes=computes,
    )
    info = build_result(configuration, repeats, failure)
    check_result(info)
    return info


def even(mib: float, repeats: int = 3, spread: float = 0.0) -> list[list[int]]:
    """Return repeats in which each of the 12 contexts adds so many MiB, the first repeat less, the last more."""
    offsets = [spread * (2 * index / (repeats - 1) - 1) if repeats > 1 else 0.0 for index in range(repeats)]
    return [[round((mib + offset) * MIB)] * (STREAMS * CONTEXTS) for offset in offsets]


def dup(first_mib: float, further_mib: float, repeats: int = 3) -> list[list[int]]:
    """Return repeats in which the first context adds first_mib and each further one further_mib."""
    return [[round(first_mib * MIB)] + [round(further_mib * MIB)] * (STREAMS * CONTEXTS - 1)] * repeats


FAILED: dict[str, Any] = {
    "kind": "crashed",
    "phase": "context",
    "context": 2,
    "message": {"code": "process_ended_by_signal", "values": {"signal": "SIGSEGV"}},
    "last_words": "<script>alert('last words')</script>",
}


#: As version 0.1.0 stored it: the message is a sentence.
NOT_SUPPORTED: dict[str, Any] = {
    "kind": "not_supported",
    "phase": "context",
    "context": 1,
    "message": "the runtime runs a context from one thread at a time",
    "last_words": "",
}


def write_run(
    storage: Path,
    infos: Sequence[dict[str, Any]],
    number: int = 1,
    at: str = "2026-01-02T03:04:05",
    commit: dict[str, Any] | None = None,
) -> Path:
    """Write one run's file as pytest-benchmark lays it out, and return its path."""
    measured = [info for info in infos if info["outcome"] == "ok" and info.get("computes", True)]
    others = [info for info in infos if info not in measured]
    data = {
        "machine_info": MACHINE,
        "commit_info": commit or {},
        "benchmarks": [{"name": info["scenario"], "extra_info": info, "stats": _stats()} for info in measured],
        "datetime": f"{at}+00:00",
        "version": "5.3.1",
        WITHOUT_SPEED: [{"name": info["scenario"], "extra_info": info} for info in others],
    }
    path = storage / "Linux-CPython-3.11-64bit" / f"{number:04}_run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


def full_run(storage: Path) -> Path:
    """Write a run of every scenario: no reuse 12 x 40 MiB, dup 40 + 11 x 10 MiB, and one failure."""
    assert find_scenario("shared_context")
    return write_run(
        storage,
        [
            result(storage, "no_reuse", even(40, spread=0.5)),
            result(storage, "partial_dup", even(20)),
            result(storage, "no_reuse_one_model", even(40)),
            result(storage, "full_dup", dup(40, 10)),
            result(storage, "shared_context", [], failure=FAILED),
        ],
    )


def npu_run(
    storage: Path,
    number: int = 1,
    *,
    computes: bool = False,
    account: Callable[[Plan], dict[str, Any]] = npu_account,
) -> Path:
    """Write a run of a scenario for each mechanism on the NPU; a context shared by threads is not supported."""
    infos = []
    for scenario in (each for each in SCENARIOS if not each.is_variant):
        failure = NOT_SUPPORTED if scenario.name == "shared_context" else None
        costs = even(90, spread=0.9) if failure is None else []
        run = f"run{number}"
        infos.append(result(storage, scenario.name, costs, failure=failure, run=run, npu=account, computes=computes))
    return write_run(storage, infos, number)


def tried(runtime: str = "onnxruntime", **changes: Any) -> RuntimeTrials:
    """Return the trials of a runtime: dup works, zero copy saves copies alone, and the others do not work."""
    trials = (
        Trial("full_dup", "works", "", 30 * MIB, MIB, 60 * MIB, copies_avoided_bytes=0),
        Trial("internal_reuse", "saves_nothing", "no measurable saving", 0, MIB, 60 * MIB),
        Trial("external_memory", "not_supported", "no allocator <from> Python"),
        Trial("external_mmz", "not_supported", "no allocator <from> Python"),
        Trial("zero_copy_io", "works", "", None, copies_avoided_bytes=3 * MIB),
        Trial("lean", "fails", "it crashed | twice\nor more"),
    )
    identity = {"runtime_version": "1.2.3", "target": "python", "python_version": "3.11.7", "chip": None}
    values = {"runtime": runtime, **identity, "recorded_at": "2026-01-02T03:04:05+00:00", "trials": trials}
    return RuntimeTrials(**{**values, **changes})


def _stats() -> dict[str, Any]:
    return {"median": statistics.median([LATENCY_NS / 1e9]), "rounds": 24}


MACHINE: dict[str, Any] = {
    "node": "board",
    "machine": "aarch64",
    "system": "Linux",
    "release": "6.1.0",
    "python_version": "3.11.7",
    "cpu": {"brand_raw": "A CPU"},
    "reusebench": {
        "board": "board-123456",
        "board_model": None,
        "memory_total_bytes": 4096 * MIB,
        "cma_total_bytes": None,
        "page_size_bytes": 4096,
        "usable_cpus": 2,
        "cpu_governor": "performance",
        "cpu_max_khz": None,
        "transparent_hugepages": "madvise",
        "overcommit_memory": "0",
        "address_randomisation": "2",
        "swaps": 0,
        "variables": {},
        "memory_sources": [
            {"name": "PSS", "readable": True, "remark": "memory of the process"},
            {"name": "/sys/kernel/debug/dma_buf/bufinfo", "readable": False, "remark": "needs root"},
        ],
    },
}
