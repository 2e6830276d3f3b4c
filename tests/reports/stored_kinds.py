"""Storages with every kind of stored value, and the places of these values in their files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from reusebench.accounting.account import Account, ApplicationBuffers
from reusebench.accounting.domains import DomainUse
from reusebench.accounting.ledger import Buffer, Ledger, Mapping, Read, Submit
from reusebench.accounting.sharing import Finding
from reusebench.measured.messages import Message
from reusebench.measured.plan import DUP, Context, Plan
from reusebench.measured.runtimes.base import NodeOrder
from reusebench.samplers.readings import NpuMemory
from reusebench.scenarios.catalogue import without_reuse
from reusebench.storage.fit_answer import (
    FitAnswer,
    FitGroup,
    FitPatch,
    FitPoint,
    FitShortage,
    write_answer,
)
from reusebench.storage.fit_sessions import SessionsAnswer, write_session_answer
from reusebench.storage.recorded_program import Program
from reusebench.storage.result import Result
from reusebench.storage.run_file import PROGRAMS, WITHOUT_SPEED, Commit, MachineInfo
from reusebench.storage.trace import (
    FrameTime,
    FrameTimes,
    NpuTimeline,
    ProgramTrace,
    Timeline,
    Trace,
    write_trace,
)
from tests.reports.sections.test_leaks import cycles_result
from tests.reports.sections.test_limit import limited
from tests.reports.stored import (
    FAILED,
    MIB,
    MODELS,
    barriers,
    changed,
    dup,
    even,
    npu_account,
    result,
    runtime_account,
    with_account,
    with_short_memory,
    write_run,
)
from tests.reports.stored_fit_sessions import sessions_answer
from tests.reports.stored_programs import Repeat, program, trace, write_programs
from tests.reports.stored_streams import HOT, Frames, streams_result
from tests.reports.versions.stored_versions import three_versions

__all__ = ["KINDS", "StoredValue", "plan_results"]

_PLAN = Plan(
    "gate",
    "gate.no_reuse",
    "onnxruntime",
    MODELS[:1],
    (Context(0, 0, name="first"), Context(1, 0, DUP, 0, name="second")),
    cores=2,
    rounds=2,
)


@dataclass(frozen=True)
class StoredValue:
    """A value in a stored file."""

    file: Path
    #: Keys and indexes from the root of the file's document.
    path: tuple[Any, ...]
    kind: Any

    def document(self) -> Any:
        """Return the document of the file."""
        content = self.file.read_bytes()
        return json.loads(gzip.decompress(content) if self.file.suffix == ".gz" else content)

    def value_in(self, document: Any) -> Any:
        """Return the value in the document of its file."""
        value = document
        for key in self.path:
            value = value[key]
        return value

    def put(self, document: Any, value: Any) -> Any:
        """Return the document with this value in place of its own."""
        if not self.path:
            return value
        *before, last = self.path
        holder = document
        for key in before:
            holder = holder[key]
        holder[last] = value
        return document

    def content(self, document: Any) -> bytes:
        """Return the bytes of the file with this document."""
        content = msgspec.json.encode(document)
        return gzip.compress(content, 1) if self.file.suffix == ".gz" else content


def _results(storage: Path, *infos: Result) -> list[StoredValue]:
    """Write a run of the results, and return each with its file."""
    return _results_in(write_run(storage, infos))


def _results_in(file: Path) -> list[StoredValue]:
    document = json.loads(file.read_bytes())
    values = []
    for part in ("benchmarks", WITHOUT_SPEED):
        for index in range(len(document[part])):
            values.append(StoredValue(file, (part, index, "extra_info"), Result))
    return values


def _of_scenarios(*names: str, **options: Any) -> Callable[[Path], list[StoredValue]]:
    """Return a function that writes a run of these scenarios, the first without reuse."""

    def write(storage: Path) -> list[StoredValue]:
        costs = [even(40, spread=0.5), *[dup(40, 10)] * (len(names) - 1)]
        samples = ((1.0, None),)
        infos = []
        for name, cost in zip(names, costs):
            infos.append(result(storage, name, cost, samples=samples, **options))
        return _results(storage, *infos)

    return write


def _short_and_failed(storage: Path) -> list[StoredValue]:
    failed = result(storage, "shared_context", [], failure=FAILED)
    short = with_short_memory(result(storage, "no_reuse_one_model", even(40)))
    return _results(storage, short, failed)


def _streams(storage: Path) -> list[StoredValue]:
    frames = [Frames(machine=HOT, seconds=20.0)] * 3
    names = ("streams_decode_only", "streams_no_reuse_one_model", "streams_full_dup")
    return _results(storage, *(streams_result(storage, name, frames) for name in names))


def _leaks(storage: Path) -> list[StoredValue]:
    return _results(
        storage,
        cycles_result(storage, memory=lambda cycle: MIB * cycle),
        cycles_result(storage, "cycles_dups"),
    )


def _limit(storage: Path) -> list[StoredValue]:
    domains = (DomainUse(0, 3 << 30, (0, 1)), DomainUse(1, 1 << 30, (2,)))
    return _results(
        storage,
        limited(storage, "limit_no_reuse", 4),
        limited(storage, "limit_full_dup", 9, domains=domains),
    )


def plan_results(storage: Path) -> list[Result]:
    """Return the results of a plan of two contexts, and of the same without reuse."""
    plans = (without_reuse(_PLAN), _PLAN)
    costs = [[40 * MIB, 20 * MIB]] * 3
    infos = []
    for plan in plans:
        infos.append(result(storage, plan.scenario, costs, plan=plan, models=plan.models))
    return infos


def _plans(storage: Path) -> list[StoredValue]:
    return _results(storage, *plan_results(storage))


def _programs(storage: Path) -> list[StoredValue]:
    signs = (Message("shortage_evicted", {"mib": "30.0"}),)
    repeat = Repeat({"load": 20, "steady": 40}, npu=True, signs=signs)
    file = write_programs(storage, [program("player", [repeat] * 2), program("other", [repeat])])
    return [StoredValue(file, (PROGRAMS, 0), Program)]


def _fit(storage: Path) -> list[StoredValue]:
    info = result(storage, "no_reuse", even(40))
    write_run(storage, [info])
    words = (Message("shortage_evicted", {"mib": "30.0"}),)
    point = FitPoint(
        layout=(FitGroup("model-a", ()),),
        contexts=2,
        lanes=1,
        bytes=MIB,
        limited_bytes=MIB,
        frames_per_s=30.0,
    )
    optional: dict[str, Any] = {}
    for name in FitAnswer.__struct_fields__:
        if name.startswith(("predicted_", "measured_")):
            optional[name] = {"weights": MIB} if name.endswith("components_bytes") else 40 * MIB
    answer = FitAnswer(
        recorded_at="2026-11-30T12:00:00+00:00",
        runtime="onnxruntime",
        runtime_version="1.2.3",
        target="python",
        chip=None,
        models=("model-a",),
        streams=(1,),
        contexts=2,
        cores=2,
        fps=25.0,
        limit_of="application_memory",
        limit_bytes=64 * MIB,
        fits=True,
        recommended=info.plan,
        least_bytes=MIB,
        today=point,
        best=point,
        frontier=(point,),
        points=(point, msgspec.structs.replace(point, bytes=2.0 * MIB)),
        layouts=2,
        busy_percent=0.0,
        patches=(FitPatch("Mesa", 2, MIB, {"weights": MIB}),),
        short=(FitShortage("fit", words),),
        **optional,
    )
    return [StoredValue(write_answer(storage, answer), (), FitAnswer)]


def _fit_sessions(storage: Path) -> list[StoredValue]:
    info = result(storage, "no_reuse", even(40))
    write_run(storage, [info])
    signs = (Message("shortage_evicted", {"mib": "30.0"}),)
    answer = sessions_answer(
        tokens_per_s=5.0,
        recommended=info.plan,
        measured_kv_bytes=MIB,
        measured_application_memory_bytes=MIB,
        measured_peak_bytes=MIB,
        measured_tokens_per_s=1.0,
        refused=(Message("fit_sessions_refused", {"layout": "unified", "reason": "none"}),),
        short=(FitShortage("fit", signs),),
    )
    return [StoredValue(write_session_answer(storage, answer), (), SessionsAnswer)]


def _wrong_reads(storage: Path) -> list[StoredValue]:
    """Write accounts with all that a ledger may tell: domains, buffers, findings."""

    def account(plan: Plan) -> Account:
        return npu_account(
            plan,
            left_bytes=MIB,
            unattributed_bytes=MIB,
            findings=(
                Finding("reads_freed", 1, 5, 0, 3),
                Finding("reads_unknown", 1, 5, None, 3, 4096),
                Finding("not_run", 1, 5, None, 4),
                Finding("leak", None, None, None, MIB),
            ),
            application_buffers=(ApplicationBuffers("internal", 2, 4 * MIB, 1),),
            domains=(DomainUse(0, 3 << 30, (0, 1)), DomainUse(1, 1 << 30, (2,))),
        )

    return _of_scenarios("no_reuse_one_model", "full_dup_internal_reuse", npu=account)(storage)


def _node_orders(storage: Path) -> list[StoredValue]:
    orders = (
        NodeOrder(4, 9 * MIB, 6 * MIB),
        NodeOrder(0, None, None, Message("text", {"text": "one node"})),
    )
    infos = [result(storage, "no_reuse", even(4)), result(storage, "partial_dup", dup(4, 1))]
    prepared = {model.digest: order for model, order in zip(MODELS, orders)}
    return _results(storage, infos[0], changed(infos[1], node_orders=prepared))


def _versions(storage: Path) -> list[StoredValue]:
    three_versions(storage)
    newest = sorted(storage.glob("*/0*.json"))[-1]
    return _results_in(newest)


def _reported(storage: Path) -> list[StoredValue]:
    """Write accounts as the runtime itself reports them, and readings of NPU memory."""
    infos = []
    for name in ("no_reuse_one_model", "full_dup"):
        info = result(storage, name, dup(40, 10), npu=runtime_account)
        infos.append(with_account(info, runtime_account(info.plan), (0, 2)))
    memory = NpuMemory(4 * MIB, 3, {"drm": 4 * MIB}, 5 * MIB, "/sys/x", MIB, 0, MIB)
    repeats = []
    for repeat in infos[0].repeats:
        phases = {}
        for name, reading in repeat.phases.items():
            phases[name] = msgspec.structs.replace(reading, npu=memory, npu_live_bytes=MIB)
        repeats.append(msgspec.structs.replace(repeat, phases=phases))
    infos[0] = changed(infos[0], repeats=tuple(repeats), npu_memory_limit_bytes=64 * MIB)
    return _results(storage, *infos)


def _run_parts(storage: Path) -> list[StoredValue]:
    """Write two runs, and return the parts of the newer one that are no results."""
    for number in (1, 2):
        infos = [result(storage, "no_reuse", even(4)), result(storage, "partial_dup", dup(4, 1))]
        file = write_run(storage, infos, number, f"2026-01-{number:02}T00:00:00")
    return [
        StoredValue(file, ("machine_info",), MachineInfo),
        StoredValue(file, ("commit_info",), Commit),
    ]


def _traces(storage: Path) -> list[StoredValue]:
    """Write a trace with a ledger and frames, and one without."""
    info = result(storage, "no_reuse", even(90, repeats=2), npu=npu_account, computes=False)
    readings = barriers(info.plan, [MIB] * 12)
    times_ns = [reading.at_ns for reading in readings]
    ledger = Ledger(
        buffers={1: Buffer(1, 5000, 8192, 2, "rknpu", times_ns[0], 7, times_ns[-1])},
        submits=(
            Submit(times_ns[2], 1, (1,), (Read("0x1070", 1, "live", 2), Read("0x1", 0, "dead", 1))),
        ),
        mode="virtual",
        refused=("/sys/x",),
        mappings=(Mapping(1, 0, 8192, times_ns[0], times_ns[-1]),),
    )
    frame = FrameTime(0, times_ns[0], (1000, 2000, 3000))
    full = Trace(
        readings,
        Timeline(times_ns, [MIB] * len(times_ns), [MIB] * len(times_ns)),
        NpuTimeline(times_ns[:2], [4096, 8192], ledger),
        times_ns[0] - 5,
        FrameTimes([frame], [frame], 4),
    )
    write_trace(storage, "run1", Path(info.repeats[0].trace).name.removesuffix(".json.gz"), full)
    write_run(storage, [info])
    return [StoredValue(storage / repeat.trace, (), Trace) for repeat in info.repeats]


def _program_traces(storage: Path) -> list[StoredValue]:
    path = trace(storage, "player", npu=True)
    repeats = [Repeat({"load": 20, "steady": 40}, path, npu=True)]
    write_programs(storage, [program("player", repeats)])
    return [StoredValue(storage / path, (), ProgramTrace)]


#: Key: a kind; value: a function that writes such a run and returns its values.
KINDS: dict[str, Callable[[Path], list[StoredValue]]] = {
    "reuse": _of_scenarios("no_reuse_one_model", "full_dup"),
    "npu": _of_scenarios(
        "no_reuse_one_model", "full_dup_internal_reuse", npu=npu_account, computes=False
    ),
    "shared weights": _of_scenarios("resolutions_2", "shared_weights_2", npu=npu_account),
    "copies": _of_scenarios("copied_io", "zero_copy_io", npu=npu_account),
    "options": _of_scenarios("default_options", "light=1"),
    "steps": _of_scenarios("plain", "lean_weights", "lean_internal"),
    "short memory, a failure": _short_and_failed,
    "streams": _streams,
    "leaks": _leaks,
    "limit": _limit,
    "plans": _plans,
    "programs": _programs,
    "fit": _fit,
    "fit of conversations": _fit_sessions,
    "wrong reads": _wrong_reads,
    "node orders": _node_orders,
    "versions": _versions,
    "reported": _reported,
    "parts of a run": _run_parts,
    "traces": _traces,
    "traces of programs": _program_traces,
}
