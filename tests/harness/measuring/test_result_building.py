"""The figures of a result that follow from the barriers of its repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec
import pytest

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import ContextMemory
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.measuring.result_building import Provenance, build_result, is_settled
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan, Streams
from reusebench.measured.runtimes.base import Copies, Placement
from reusebench.samplers.readings import SystemMemory
from reusebench.storage.result import FrameCount, Percentiles, Result, Speed, StreamsRun
from reusebench.targets.barriers import BarrierReading, StepData
from reusebench.targets.outcome import Failure
from tests.helpers.support import NPU, barrier, known, make_plan

_COPIES = Copies(600, 40)
_FAILURE = Failure("crashed", "steady", None, Message("process_exited", {"code": 3}), "ouch")
_DIGEST = "0000000a"


def _barriers(plan: Plan, start: int = 1000) -> list[BarrierReading]:
    """Return a walk: PSS rises by 7 or more at each barrier; RSS is 10000 above, USS 500 below."""
    contexts = len(plan.contexts)
    pss_bytes = start
    barriers = []
    for number, step in enumerate(plan.steps()):
        pss_bytes += 7 * (number + 1) if step.phase != "destroy" else -5
        data = {
            "imported": StepData(runtime_version="1", python_version="3.9.1"),
            "context": StepData(load_ns=100 + number),
            "first_inference": StepData(latency_ns=200 + number, digest=_DIGEST, copies=_COPIES),
            "steady": StepData(
                elapsed_ns=2_000_000_000,
                latencies_ns=tuple((30, 10, 20 + context) for context in range(contexts)),
                digests=(_DIGEST,) * contexts,
            ),
        }.get(step.phase, StepData())
        barriers.append(
            _barrier(step.phase, step.context, pss_bytes, data, trimmed=step.phase == "destroy")
        )
        if step.phase == "steady":
            barriers.append(
                _barrier("trimmed", None, pss_bytes - 50, StepData(trimmed=True), trimmed=True)
            )
    return barriers


def _barrier(
    phase: str, context: int | None, pss_bytes: int, data: StepData, trimmed: bool
) -> BarrierReading:
    sizes = {
        "rss_bytes": pss_bytes + 10000,
        "uss_bytes": pss_bytes - 500,
        "peak_rss_bytes": pss_bytes + 20000,
    }
    reading = barrier(phase, context, pss_bytes, data, trimmed, pss_bytes=pss_bytes, **sizes)
    reading.system = SystemMemory(10**6, 0, 10**6 - 10 * pss_bytes, 0, 0, 0, 0, None, None)
    return reading


def _repeat(
    barriers: Sequence[BarrierReading], failure: Failure | None = None, npu: Account | None = None
) -> Repeat:
    return Repeat(barriers, failure, 1.5, 42, 3.5, "traces/run/one.json.gz", npu)


def _result(
    plan: Plan,
    *repeats: Repeat,
    failure: Failure | None = None,
    driver_version: str | None = None,
    computes: bool = True,
) -> Result:
    contexts = len(plan.contexts)
    provenance = Provenance(
        plan, "python", 1, contexts, 1, "run", "1", "3.9.1", driver_version, computes=computes
    )
    return build_result(provenance, repeats, failure)


def _account(plan: Plan, source: Literal["ledger", "runtime"] = "ledger") -> Account:
    """Return an account of NPU memory: every context has 600 bytes of weights, and 60 of each other
    component.
    """
    is_ledger = source == "ledger"
    return Account(
        source=source,
        contexts=(ContextMemory(600, 60, 60, 60, 60, 60),) * len(plan.contexts),
        unattributed_bytes=5,
        total_bytes=900 * len(plan.contexts) + 5,
        peak_bytes=9999 if is_ledger else None,
        left_bytes=0 if is_ledger else None,
        shared=(),
        findings=(),
    )


def _with_dmabuf(barriers: list[BarrierReading], size_bytes: int | None) -> list[BarrierReading]:
    """Return the barriers of a board whose process holds `dmabuf_bytes` of dma-bufs."""
    for reading in barriers:
        reading.npu = msgspec.structs.replace(NPU, process_dmabuf_bytes=size_bytes)
    return barriers


def _pss(barriers: list[BarrierReading], phase: str) -> int:
    return [reading for reading in barriers if reading.phase == phase][-1].process.pss_bytes


@pytest.fixture
def plan() -> Plan:
    """Return a plan of three contexts."""
    return make_plan("full_dup", "plain", contexts=3)


def test_figures_are_those_of_their_barriers(plan: Plan) -> None:
    """Each figure is read at the barrier of its description, one value per repeat, in order."""
    walks = _barriers(plan), _barriers(plan, start=3000)
    memory = _result(plan, *map(_repeat, walks)).memory
    steady, imported, destroyed = (
        [_pss(barriers, phase) for barriers in walks] for phase in ("steady", "imported", "destroy")
    )
    assert memory.application_memory_bytes == tuple(steady)
    assert memory.baseline_memory_bytes == tuple(imported)
    assert memory.application_memory_over_baseline_bytes == (
        steady[0] - imported[0],
        steady[1] - imported[1],
    )
    assert memory.application_memory_trimmed_bytes == tuple(size - 50 for size in steady)
    assert memory.application_rss_bytes == tuple(size + 10000 for size in steady)
    assert memory.application_uss_bytes == tuple(size - 500 for size in steady)
    assert memory.system_memory_bytes == tuple(10 * size for size in steady)
    assert memory.system_memory_noise_bytes == (42, 42)
    assert memory.residue_memory_bytes == (destroyed[0] - imported[0], destroyed[1] - imported[1])
    assert memory.npu_memory_bytes == (None, None)


def test_the_peak_is_of_all_phases_up_to_steady(plan: Plan) -> None:
    """The peak includes a spike while a context is made, but none while contexts are destroyed."""
    barriers = _barriers(plan)
    for index, size_bytes in ((2, 777_777), (-1, 999_999)):
        process = msgspec.structs.replace(barriers[index].process, peak_rss_bytes=size_bytes)
        barriers[index].process = process
    assert _result(plan, _repeat(barriers)).memory.application_peak_rss_bytes == (777_777,)


def test_what_could_not_be_read_is_unknown(plan: Plan) -> None:
    """If the peak of one phase is unknown, so is the highest; without malloc_trim nothing is
    trimmed.
    """
    barriers = _barriers(plan)
    barriers[3].process = msgspec.structs.replace(barriers[3].process, peak_rss_bytes=None)
    for reading in barriers:
        reading.malloc_trimmed = False
    memory = _result(plan, _repeat(barriers)).memory
    assert (memory.application_peak_rss_bytes, memory.application_memory_trimmed_bytes) == (
        (None,),
        (None,),
    )


def test_what_each_context_added() -> None:
    """A context's memory is the growth when it is made, at its internal memory, and at its first
    inference.

    Internal memory counts for the first context of its group.
    """
    plan = make_plan("full_dup_internal_reuse", "plain", contexts=3, cores=1)
    barriers = _barriers(plan)
    levels = [reading.process.pss_bytes for reading in barriers]
    growth = [after - before for before, after in zip(levels, levels[1:])]
    assert [reading.phase for reading in barriers[3:6]] == [
        "context",
        "internal_memory",
        "first_inference",
    ]
    (added,) = _result(plan, _repeat(barriers)).memory.context_memory_bytes
    assert added == (
        growth[0] + growth[3] + growth[4],
        growth[1] + growth[5],
        growth[2] + growth[6],
    )
    assert sum(added) == _pss(barriers, "first_inference") - _pss(barriers, "imported")


def test_speed_is_what_the_process_reported(plan: Plan) -> None:
    """The figures are the median of all inferences, inferences per second of the steady phase, and
    one time per context.
    """
    assert _result(plan, _repeat(_barriers(plan))).speed == Speed(
        latency_median_ns=(21,),
        throughput_per_s=(9 / 2.0,),
        context_load_ns=((101, 102, 103),),
        first_inference_ns=((204, 205, 206),),
        idle_cpu_percent=(3.5,),
        model_latency_ns=((21,),),
    )


def test_no_speed_where_nothing_computes(plan: Plan) -> None:
    """Every figure of speed is empty in each repeat; only the CPU use of the machine is there."""
    result = _result(
        plan,
        _repeat(_barriers(plan)),
        _repeat(_barriers(plan)),
        computes=False,
        driver_version="0.9.8",
    )
    assert (result.computes, result.driver_version) == (False, "0.9.8")
    assert result.speed == Speed(
        latency_median_ns=(None, None),
        throughput_per_s=(None, None),
        context_load_ns=((), ()),
        first_inference_ns=((), ()),
        idle_cpu_percent=(3.5, 3.5),
        model_latency_ns=(None, None),
    )


@pytest.mark.parametrize("computes", [True, False])
def test_speed_of_streams_is_that_of_frames(computes: bool) -> None:
    """Figures are None in a repeat that ended before its steady state, and if nothing computes."""
    plan = make_plan("streams_full_dup", "plain", schedule=Streams(1, 30.0, 0, 0.0, 1.0, None))
    latency_ns = Percentiles(p50=5, p90=6, p99=7, max=8)
    count = FrameCount(due=60, done=45, dropped=9, missed=6, per_s=45.0, latency_ns=latency_ns)
    silent = dict.fromkeys(("streams", "stages_ns", "cpu", "machine", "series"))
    frames = StreamsRun(seconds=1.0, interrupted=False, all=count, **silent)
    repeats = replace(_repeat(()), frames=frames), _repeat((), _FAILURE)
    speed = _result(plan, *repeats, failure=_FAILURE, computes=computes).speed
    figures = (
        speed.latency_median_ns,
        speed.latency_p99_ns,
        speed.throughput_per_s,
        speed.frames_lost_percent,
    )
    assert figures == tuple((figure if computes else None, None) for figure in (5, 7, 45.0, 25.0))


@pytest.mark.parametrize(
    ("source", "held_bytes", "npu_memory_bytes"),
    [
        ("ledger", 7777, 2705),
        ("ledger", None, 2705),
        ("runtime", 7777, 7777),
        ("runtime", None, 2705),
        ("runtime", 0, 0),
        (None, 7777, 7777),
        (None, None, None),
    ],
)
def test_the_most_exact_source_gives_npu_memory(
    plan: Plan,
    source: Literal["ledger", "runtime"] | None,
    held_bytes: int | None,
    npu_memory_bytes: int | None,
) -> None:
    """The figure is the ledger's, otherwise the process's dma-bufs, otherwise the runtime's own;
    the whole account is stored.
    """
    account = _account(plan, source) if source else None
    result = _result(plan, _repeat(_with_dmabuf(_barriers(plan), held_bytes), npu=account))
    of_ledger = source == "ledger"
    assert result.memory.npu_memory_bytes == (npu_memory_bytes,)
    assert result.memory.npu_peak_bytes == (9999 if of_ledger else None,)
    assert result.memory.npu_left_bytes == (0 if of_ledger else None,)
    npu = known(result.repeats[0].phases["steady"].npu)
    assert (npu.process_dmabuf_bytes, result.repeats[0].npu) == (held_bytes, account)


def test_each_phase_is_stored_with_its_last_reading(plan: Plan) -> None:
    """Trimmed readings are marked; a ledger's live bytes are stored with their phases."""
    barriers = _barriers(plan)
    for number, reading in enumerate(barriers):
        reading.npu_live_bytes = number
    (stored,) = _result(plan, _repeat(barriers)).repeats
    live_bytes = {phase: reading.npu_live_bytes for phase, reading in stored.phases.items()}
    assert list(live_bytes) == [
        "imported",
        "context",
        "first_inference",
        "steady",
        "trimmed",
        "destroy",
    ]
    assert list(live_bytes.values()) == [0, 3, 6, 7, 8, 11]
    assert stored.phases["context"].process == barriers[3].process
    assert [phase for phase, reading in stored.phases.items() if reading.malloc_trimmed] == [
        "trimmed",
        "destroy",
    ]
    assert (stored.elapsed_s, stored.trace, stored.failure) == (1.5, "traces/run/one.json.gz", None)


def test_copies_are_those_of_each_context(plan: Plan) -> None:
    """The accounts are those of the first repeat's contexts after their first inference; before
    that there are none.
    """
    barriers = _barriers(plan)
    assert _result(plan, _repeat(barriers), _repeat(barriers)).copies == (_COPIES,) * 3
    assert _result(plan, _repeat(barriers[:2], _FAILURE), failure=_FAILURE).copies is None


def test_placements_are_those_of_each_model(plan: Plan) -> None:
    """Where a model's operators ran is taken from the first context that tells, by the digest."""
    placement = Placement({"CONV_2D": 4}, {"SOFTMAX": 1}, partitions=1, crossing_bytes=64)
    barriers = _barriers(plan)
    assert _result(plan, _repeat(barriers)).placements == {}
    first = next(reading for reading in barriers if reading.phase == "first_inference")
    first.data = msgspec.structs.replace(first.data, placement=placement)
    assert _result(plan, _repeat(barriers)).placements == {plan.models[0].digest: placement}


def test_digests_of_all_outputs_are_kept(plan: Plan) -> None:
    """A single different output of any context, phase or repeat is found."""
    one = _barriers(plan)
    two = _barriers(plan)
    steady = next(reading for reading in one if reading.phase == "steady")
    steady.data = msgspec.structs.replace(steady.data, digests=(_DIGEST, _DIGEST, "0000000b"))
    first = next(reading for reading in two if reading.phase == "first_inference")
    first.data = msgspec.structs.replace(first.data, digest="0000000c")
    digests = _result(plan, _repeat(one), _repeat(two)).output_digests
    assert list(digests.values()) == [(_DIGEST, "0000000b", "0000000c")]


def test_digests_belong_to_their_models() -> None:
    """Each model has outputs of its own."""
    plan = make_plan("no_reuse", "a", "b", streams=2, contexts=1)
    barriers = _barriers(plan)
    for reading in barriers:
        if reading.phase == "first_inference":
            reading.data = msgspec.structs.replace(reading.data, digest=f"first {reading.context}")
        if reading.phase == "steady":
            reading.data = msgspec.structs.replace(reading.data, digests=("steady 0", "steady 1"))
    digests = _result(plan, _repeat(barriers)).output_digests
    assert digests == {
        model.digest: (f"first {i}", f"steady {i}") for i, model in enumerate(plan.models)
    }


@pytest.mark.parametrize("barriers_passed", range(12))
def test_a_repeat_that_stopped_anywhere_has_what_it_came_to(
    plan: Plan, barriers_passed: int
) -> None:
    """Figures of phases that were not reached are None, earlier ones are kept, and the result can
    be stored and read.
    """
    barriers = _barriers(plan)[:barriers_passed]
    result = _result(plan, _repeat(_barriers(plan)), _repeat(barriers, _FAILURE), failure=_FAILURE)
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
    assert (result.outcome, len(result.speed.context_load_ns)) == ("crashed", 2)
    phases = [reading.phase for reading in barriers]
    memory = result.memory
    assert (memory.baseline_memory_bytes[1] is None) == ("imported" not in phases)
    assert (memory.application_memory_bytes[1] is None) == ("steady" not in phases)
    assert (memory.context_memory_bytes[1] is None) == (phases.count("first_inference") < 3)
    assert memory.residue_memory_bytes[1] is None
    assert memory.system_memory_noise_bytes[1] == 42


def test_a_failure_before_any_process_has_no_figures(plan: Plan) -> None:
    """A model that cannot be prepared has no repeats at all."""
    result = _result(plan, failure=msgspec.structs.replace(_FAILURE, phase="prepare"))
    assert (result.memory.application_memory_bytes, result.repeats, result.copies) == ((), (), None)


@pytest.mark.parametrize(
    ("more_bytes", "settled"),
    [((0, 1_000), True), ((0, 9_000), False), ((0, 3_000, 1_000), True), ((0, 9_000, 0), False)],
)
def test_memory_is_settled_where_its_spread_is_small(
    plan: Plan, more_bytes: tuple[int, ...], settled: bool
) -> None:
    """The spread may be 2 % of some 100,000 bytes: for two repeats it is their difference, for
    three half of it.
    """
    assert (
        is_settled([_repeat(_barriers(plan, start=100_000 + more)) for more in more_bytes])
        is settled
    )


def test_npu_memory_has_to_be_settled_too(plan: Plan) -> None:
    """One of the two figures that differs is enough for one more repeat; a figure that no repeat
    has does not count.
    """
    walk = _barriers(plan)
    account = _account(plan)
    more = msgspec.structs.replace(account, total_bytes=2 * (account.total_bytes or 0))
    assert is_settled([_repeat(walk, npu=account)] * 2)
    assert not is_settled([_repeat(walk, npu=account), _repeat(walk, npu=more)])
    assert is_settled([_repeat(()), _repeat(())])
