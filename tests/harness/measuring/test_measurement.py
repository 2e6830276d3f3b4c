"""One configuration, measured on a real process with a scripted runtime."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.accounting.sharing import Finding
from reusebench.harness.errors import NoModels
from reusebench.harness.measuring import measurement as measurement_module
from reusebench.harness.measuring import repeat_measurement
from reusebench.harness.measuring.measurement import Bench, Measurement
from reusebench.harness.progress import Progress
from reusebench.measured import runtimes
from reusebench.measured.messages import Message
from reusebench.measured.plan import DUP, INPUT, LOAD, OUTPUT
from reusebench.measured.runtimes.base import Copies
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.storage.result import Result
from reusebench.storage.trace import Trace, read_trace
from reusebench.targets.machine import LOCAL, LocalMachine
from reusebench.targets.target import Target
from tests.harness.measuring.conftest import MakeBench, job
from tests.helpers.scripted_driver import ACCOUNT, ENTRY, FORKED_BYTES
from tests.helpers.support import SCRIPTED, known

pytestmark = pytest.mark.process

#: A target that keeps a ledger and computes nothing, like the virtual board.
_VIRTUAL = replace(
    SCRIPTED,
    name="virtual",
    chip="rk3588",
    keeps_ledger=True,
    computes=False,
    npu_memory_limit_bytes=2**29,
)
_MIB = 2**20
#: A target that keeps a ledger and computes, like a board with the preload library.
_BOARD = replace(SCRIPTED, name="board", keeps_ledger=True)


class _Progress(Progress):
    """Progress that keeps its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def begin(self, title: str, repeats: int, expected_s: float) -> None:  # noqa: ARG002
        self.calls.append(("begin", title, repeats))

    def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:
        self.calls.append((repeat, share, phase, context))

    def end(self) -> None:
        self.calls.append(("end",))


def _result(bench: Bench, scenario: str) -> Result:
    """Measure a scenario, and return the result as it is read again."""
    return msgspec.json.decode(
        msgspec.json.encode(bench.measure(job(scenario)).result), type=Result
    )


def _trace(storage: Path, result: Result, repeat: int) -> Trace:
    return known(read_trace(storage, result.repeats[repeat].trace, Trace))


# One session that all of the following tests read


@dataclass(frozen=True)
class _Session:
    storage: Path
    bench: Bench
    progress: _Progress
    #: Actions of the processes, in order.
    log: Sequence[str]
    full_dup: Measurement
    plain: Measurement
    runtime_memory: Measurement


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, make_bench: MakeBench) -> _Session:
    """Return a session that has measured two repeats of three scenarios, two of which have equal
    plans.
    """
    storage = tmp_path_factory.mktemp("session")
    log = storage / "log"
    bench = make_bench(storage, f"log={log}")
    bench.progress = progress = _Progress()
    full_dup, plain, again = (
        bench.measure(job(name)) for name in ("full_dup", "no_reuse_one_model", "runtime_memory")
    )
    return _Session(storage, bench, progress, log.read_text().splitlines(), full_dup, plain, again)


def test_memory_of_a_child_counts(tmp_path: Path, make_bench: MakeBench) -> None:
    """Memory of a runtime's child is in the figures of the context that made it, and is told."""
    # A forked driver would share its own pages with the process that it was forked from.
    bench = make_bench(tmp_path, "fork@load0", target=SCRIPTED)
    result = _result(bench, "no_reuse_one_model")
    assert (result.outcome, result.counted_by) == ("ok", "pages")
    # An interpreter that has forked also writes to some of the pages that it shared.
    most_bytes = FORKED_BYTES + 4 * _MIB
    for figure in result.memory.application_memory_over_baseline_bytes:
        assert FORKED_BYTES <= known(figure) <= most_bytes
    for contexts in result.memory.context_memory_bytes:
        assert FORKED_BYTES <= known(contexts)[0] <= most_bytes
    (remark,) = [remark for remark in result.memory_remarks if remark.code == "children_counted"]
    assert remark.values["count"] == 1
    # Its part of PSS has half of what it shares with its parent, too.
    assert float(str(remark.values["mib"])) == pytest.approx(32, abs=8)


def test_a_configuration_that_succeeds(session: _Session) -> None:
    """A result is read as it was written, with its target and versions."""
    result = session.full_dup.result
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
    assert (result.outcome, result.failure, result.scenario) == ("ok", None, "full_dup")
    assert (result.runtime_version, result.python_version) == ("1.2.3", sys.version.split()[0])
    assert (result.streams, result.contexts, result.model_files, result.target) == (
        1,
        2,
        1,
        "scripted",
    )


def test_figures_are_those_of_the_traces(session: _Session) -> None:
    """A trace has every barrier with a timeline around it, and all latencies that the processes
    reported.

    The memory that contexts added, and the figures over the baseline, are from the same readings;
    USS <= PSS <= application memory <= RSS.
    """
    result = session.full_dup.result
    memory = session.full_dup.result.memory
    assert len({repeat.trace for repeat in result.repeats}) == 2
    reported: list[int] = []
    for repeat in range(2):
        trace = _trace(session.storage, result, repeat)
        assert [reading.phase for reading in trace.barriers].count("context") == 2
        times_ns = trace.timeline.times_ns
        assert (
            len(times_ns)
            == len(trace.timeline.rss_bytes)
            == len(trace.timeline.system_memory_bytes)
        )
        assert times_ns == sorted(times_ns)
        # A reading is taken while the harness waits for a barrier, which a process may have reached
        # before.
        assert times_ns[0] < trace.barriers[1].at_ns < trace.barriers[-2].at_ns < times_ns[-1]
        last = {reading.phase: reading for reading in trace.barriers}
        for latencies_ns in last["steady"].data.latencies_ns:
            reported += latencies_ns
        pages = {phase: known(reading.process.distinct_bytes) for phase, reading in last.items()}
        added_bytes = sum(known(memory.context_memory_bytes[repeat])) + pages["steady"]
        assert (
            added_bytes - pages["first_inference"]
            == memory.application_memory_over_baseline_bytes[repeat]
        )
        sizes = (
            memory.application_uss_bytes,
            memory.application_pss_bytes,
            memory.application_memory_bytes,
            memory.application_rss_bytes,
        )
        uss, pss, pages_once, rss = (known(size[repeat]) for size in sizes)
        assert 0 < uss <= pss <= pages_once <= rss
    assert session.full_dup.latencies_ns == reported
    assert len(reported) == 2 * 2 * 3


def test_processes_are_fresh(session: _Session) -> None:
    """Each repeat loads its contexts anew, and the model is prepared before; equal plans are
    measured once.
    """
    counts = [
        session.log.count(word) for word in ("prepare0", "load_prepared0", "dup0", "load0", "load1")
    ]
    assert counts == [1, 2, 2, 2, 2]
    assert not {"load_prepared1", "load2"} & set(session.log)


def test_equal_plans_have_equal_figures(session: _Session) -> None:
    """A copy has the name of the measured scenario; everything else is its own."""
    first = session.plain.result
    again = session.runtime_memory.result
    assert (first.measured_as, again.measured_as) == (None, "no_reuse_one_model")
    assert (again.scenario, again.plan.scenario) == ("runtime_memory", "runtime_memory")
    names: dict[str, Any] = {"scenario": first.scenario, "measured_as": None, "plan": first.plan}
    assert msgspec.structs.replace(again, **names) == first
    assert session.runtime_memory.latencies_ns == session.plain.latencies_ns


def test_results_of_one_session_have_one_name(session: _Session, make_bench: MakeBench) -> None:
    """The run's name is common to its results alone, and is the folder of its traces."""
    results = [session.full_dup.result, session.plain.result]
    assert [result.run for result in results] == [session.bench.run] * 2
    folders = set()
    for result in results:
        folders |= {Path(repeat.trace).parent.name for repeat in result.repeats}
    assert folders == {session.bench.run} != {make_bench(session.storage).run}


def test_progress_gets_every_step(session: _Session) -> None:
    """Every step of every repeat stands between begin and end; a copy has no steps."""
    calls = session.progress.calls
    assert [call for call in calls if isinstance(call[0], str)] == [
        ("begin", "scripted     Full dup", 2),
        ("end",),
        ("begin", "scripted     No reuse, one model", 2),
        ("end",),
    ]
    repeats, shares, phases, contexts = zip(*calls[1 : calls.index(("end",))])
    assert repeats == (1,) * 8 + (2,) * 8
    assert list(zip(phases, contexts))[:3] == [("imported", None), ("context", 0), ("context", 1)]
    assert shares == tuple(step / 8 for step in range(8)) * 2


def test_a_target_without_a_ledger_gives_the_runtimes_own_account(session: _Session) -> None:
    """The NPU account is the runtime's; figures that only a ledger has are missing."""
    memory = session.full_dup.result.memory
    for repeat in session.full_dup.result.repeats:
        assert known(repeat.npu).source == "runtime"
        assert known(repeat.npu).contexts[0].weights_bytes == ACCOUNT["weights_bytes"]
        assert memory.npu_memory_bytes == (known(repeat.npu).total_bytes,) * 2
        assert repeat.phases["steady"].npu_live_bytes is None
    assert memory.npu_peak_bytes == memory.npu_left_bytes == (None, None)


@pytest.mark.parametrize(
    ("settled_after", "most", "made"), [(2, 4, 2), (3, 4, 3), (9, 4, 4), (9, None, 2)]
)
def test_repeats_end_when_memory_is_known(
    tmp_path: Path,
    make_bench: MakeBench,
    monkeypatch: pytest.MonkeyPatch,
    settled_after: int,
    most: int | None,
    made: int,
) -> None:
    """There are two repeats at least, and no more than the upper bound; an equal plan has the same
    ones.
    """
    monkeypatch.setattr(
        measurement_module, "is_settled", lambda repeats: len(repeats) >= settled_after
    )
    bench = make_bench(tmp_path, "plain", repeats=2, most_repeats=most)
    measured = bench.measure(job("no_reuse_one_model"))
    assert (
        len(measured.result.repeats) == len(measured.result.memory.application_memory_bytes) == made
    )
    assert len(measured.latencies_ns) == made * 2 * 3
    assert bench.measure(job("runtime_memory")).result.repeats == measured.result.repeats


# Failures


def test_an_interrupted_measurement_is_not_reused(tmp_path: Path, make_bench: MakeBench) -> None:
    """Its figures are from fewer repeats, so an equal plan is measured anew."""
    bench = make_bench(tmp_path, f"log={tmp_path / 'log'}", repeats=1)
    measure_plan = Bench._measure_plan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Bench,
            "_measure_plan",
            lambda *arguments: replace(measure_plan(*arguments), interrupted=True),
        )
        assert bench.measure(job("no_reuse_one_model")).interrupted
    assert bench.measure(job("runtime_memory")).result.measured_as is None
    assert (tmp_path / "log").read_text().splitlines().count("load0") == 2


def test_a_failure_ends_the_configuration(tmp_path: Path, make_bench: MakeBench) -> None:
    """A failure keeps earlier figures; there are no more repeats, plans or latencies, and progress
    ends.
    """
    log = tmp_path / "log"
    bench = make_bench(tmp_path, f"log={log};raise@infer1")
    bench.progress = progress = _Progress()
    measurement = bench.measure(job("lean"))
    result = measurement.result
    assert (measurement.latencies_ns, result.outcome, len(result.repeats)) == ([], "failed", 1)
    failure = known(result.failure)
    assert (failure.phase, failure.context) == ("first_inference", 1)
    assert result.plan == job("lean").plans(bench.supplies)[0]
    assert (result.memory.baseline_memory_bytes[0] or 0) > 0
    assert log.read_text().splitlines().count("dup0") == 1
    assert progress.calls[-1] == ("end",)


def test_a_failure_of_a_later_repeat(tmp_path: Path, make_bench: MakeBench) -> None:
    """The repeats that succeeded are stored, but the configuration has no figures to compare."""
    flag = tmp_path / "second"
    script = f'if [ -e "{flag}" ]; then exit 5; fi; touch "{flag}"; exec "$@"'
    target = replace(SCRIPTED, name="once", command=("sh", "-c", script, "sh", *SCRIPTED.command))
    measurement = make_bench(tmp_path, "plain", target=target).measure(job("shared_context"))
    result = measurement.result
    assert (measurement.latencies_ns, result.outcome) == ([], "crashed")
    assert known(result.failure).message == Message("process_exited", {"code": 5})
    assert [repeat.failure is None for repeat in result.repeats] == [True, False]
    assert [size is None for size in result.memory.application_memory_bytes] == [False, True]


@pytest.mark.parametrize("machine", [LOCAL, LocalMachine()])
def test_a_file_that_is_replaced_while_it_is_measured(
    tmp_path: Path, make_bench: MakeBench, machine: LocalMachine
) -> None:
    """Earlier results stay; the configuration that is measured then fails, and so does each later
    one.
    """
    library = tmp_path / "library.so"
    other = tmp_path / "other.so"
    now = tmp_path / "now"
    library.write_bytes(b"one")
    other.write_bytes(b"two")
    script = f'if [ -e "{now}" ]; then mv "{other}" "{library}"; fi; exec "$@"'
    command = ("sh", "-c", script, "sh", *SCRIPTED.command)
    environment = {LIBRARY_VARIABLE: str(library)}
    target = replace(
        SCRIPTED, name="once", command=command, environment=environment, machine=machine
    )
    bench = make_bench(tmp_path, "plain", target=target)
    assert _result(bench, "no_reuse").outcome == "ok"
    now.touch()
    outcomes = []
    for scenario in ("shared_context", "full_dup"):
        measurement = bench.measure(job(scenario))
        failure = known(measurement.result.failure)
        assert measurement.latencies_ns == []
        assert failure.message == Message("input_changed", {"file": str(library)})
        outcomes.append(
            (measurement.result.outcome, failure.phase, len(measurement.result.repeats))
        )
    assert outcomes == [("input_changed", "steady", 1), ("input_changed", "prepare", 0)]
    assert _result(bench, "no_reuse").outcome == "ok"


def test_the_library_is_that_of_the_sessions_start(tmp_path: Path, make_bench: MakeBench) -> None:
    """A library that is replaced before the first process, for example during a conversion, is not
    measured.
    """
    library = tmp_path / "library.so"
    library.write_bytes(b"one")
    bench = make_bench(
        tmp_path, "plain", target=replace(SCRIPTED, environment={LIBRARY_VARIABLE: str(library)})
    )
    library.write_bytes(b"two")
    assert _result(bench, "no_reuse").outcome == "input_changed"


def test_a_model_that_cannot_be_prepared(tmp_path: Path, make_bench: MakeBench) -> None:
    """A plan that needs the prepared model is not supported; reported versions are in all later
    results.
    """
    bench = make_bench(tmp_path, "driver=0.9.8;raise@prepare0", repeats=1)
    failed = _result(bench, "full_dup")
    assert (failed.outcome, known(failed.failure).phase, failed.repeats) == (
        "not_supported",
        "prepare",
        (),
    )
    assert (failed.runtime_version, failed.driver_version) == (None, None)
    plain = _result(bench, "no_reuse_one_model")
    assert (plain.outcome, plain.driver_version, plain.chip) == ("ok", "0.9.8", None)
    later = _result(bench, "full_dup_internal_reuse")
    assert (later.outcome, later.runtime_version, later.driver_version) == (
        "not_supported",
        "1.2.3",
        "0.9.8",
    )


def test_the_best_plan_that_the_runtime_has(tmp_path: Path, make_bench: MakeBench) -> None:
    """If a mechanism is missing, the next plan is measured, and the result has that plan."""
    result = _result(make_bench(tmp_path, "not_supported@share_internal0", repeats=1), "lean")
    assert (result.outcome, result.failure) == ("ok", None)
    contexts = result.plan.contexts
    assert [(context.mechanism, context.internal) for context in contexts] == [
        (LOAD, None),
        (DUP, None),
    ]
    assert [context.zero_copy for context in contexts] == [(INPUT, OUTPUT)] * 2
    assert result.copies == (Copies(0, 0),) * 2


def test_a_runtime_that_has_no_plans_mechanisms(tmp_path: Path, make_bench: MakeBench) -> None:
    """The result is that of the last plan; all plans are one configuration."""
    bench = make_bench(tmp_path, "not_supported@load0;not_supported@load_prepared0", repeats=1)
    result = _result(bench, "lean")
    assert (result.outcome, result.scenario, result.baseline) == ("not_supported", "lean", "plain")
    assert result.plan == job("lean").plans(bench.supplies)[-1]


def test_a_scenario_of_more_models_than_there_are(tmp_path: Path, make_bench: MakeBench) -> None:
    """Too few models are no failure of the runtime, and raised before anything is measured; so is a
    missing video.
    """
    bench = make_bench(tmp_path, "plain", "plain too")
    with pytest.raises(NoModels, match="more than 3 resolutions and there are 2"):
        bench.measure(job("shared_weights_3"))
    with pytest.raises(NoModels, match="video is not decoded there"):
        job("streams_decode_only").plans(bench.supplies)


def test_each_runtime_runs_on_its_target(
    tmp_path: Path, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nothing computes, there is memory but no speed, and outputs are not compared; another
    target may fail.
    """
    monkeypatch.setattr(runtimes, "RUNTIMES", (ENTRY, replace(ENTRY, name="elsewhere")))
    bench = make_bench(tmp_path, "differ@dup", target=_VIRTUAL, repeats=1)
    bench.add_target("elsewhere", Target("gone", ("false",)))
    measurement = bench.measure(job("full_dup"))
    result = measurement.result
    assert (result.outcome, result.computes, result.chip, result.target) == (
        "ok",
        False,
        "rk3588",
        "virtual",
    )
    assert result.npu_memory_limit_bytes == 2**29
    assert (measurement.latencies_ns, result.speed.latency_median_ns) == ([], (None,))
    assert (result.memory.application_memory_bytes[0] or 0) > 0
    other = bench.measure(job("no_reuse", "elsewhere")).result
    assert (other.outcome, other.target, other.computes) == ("crashed", "gone", True)


def test_progress_ends_also_when_the_user_interrupts(
    tmp_path: Path, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is erased before pytest reports the interruption."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(repeat_measurement, "run_plan", interrupt)
    bench = make_bench(tmp_path, "plain")
    bench.progress = progress = _Progress()
    with pytest.raises(KeyboardInterrupt):
        bench.measure(job("no_reuse"))
    assert progress.calls[-1] == ("end",)


# Outputs


def test_outputs_that_differ_within_a_configuration(tmp_path: Path, make_bench: MakeBench) -> None:
    """One context with other outputs is enough to lose the saving."""
    measurement = make_bench(tmp_path, "differ@dup", repeats=1).measure(job("full_dup"))
    result = measurement.result
    assert (measurement.latencies_ns, result.outcome, len(result.repeats)) == (
        [],
        "outputs_differ",
        1,
    )
    ((first, second),) = result.output_digests.values()
    assert known(result.failure).message.values["digests"] == f"{first}, {second}"


def test_outputs_that_differ_from_those_without_reuse(
    tmp_path: Path, make_bench: MakeBench
) -> None:
    """Reuse that changes all outputs alike is found by comparing with the baseline of the same
    model.
    """
    bench = make_bench(tmp_path, "differ@load_prepared;differ@dup", repeats=1)
    assert _result(bench, "no_reuse_one_model").outcome == "ok"
    result = _result(bench, "full_dup")
    assert (result.outcome, list(map(len, result.output_digests.values()))) == (
        "outputs_differ",
        [1],
    )
    assert known(result.failure).message.values["scenario"] == "no_reuse_one_model"


def test_a_model_that_keeps_state_is_measured(tmp_path: Path, make_bench: MakeBench) -> None:
    """Outputs of a model are not compared if a context alone gives others in each inference."""
    result = _result(make_bench(tmp_path, "varies=1", repeats=1), "full_dup")
    assert (result.outcome, len(result.repeats)) == ("ok", 1)
    assert list(result.not_compared.values()) == [Message("outputs_vary")]


def test_outputs_are_compared_by_model(tmp_path: Path, make_bench: MakeBench) -> None:
    """Two models may have different outputs."""
    result = _result(
        make_bench(tmp_path, "plain", "plain too", streams=2, contexts=1, repeats=1), "no_reuse"
    )
    assert result.outcome == "ok"
    ((first,), (second,)) = result.output_digests.values()
    assert first != second


# NPU memory

#: Buffers of two loaded contexts of one model, each with a task list and weights with register
#: commands, which are freed again.
_TWO_LOADS = (
    "create-1-100@load0;create-2-9000@load0;create-3-100@load1;create-4-9000@load1;"
    "submit-1-2-2@infer0;destroy-3@destroy0;destroy-4@destroy0;destroy-1@destroy1"
)
_PAGE = 4096


def test_a_runtime_on_the_cpu_has_no_npu_memory(
    tmp_path: Path, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no account and no figure, instead of zero bytes, even if the target keeps a ledger
    of other processes.
    """
    monkeypatch.setattr(runtimes, "RUNTIMES", (replace(ENTRY, device="cpu"),))
    result = _result(make_bench(tmp_path, "plain", target=_BOARD, repeats=1), "full_dup")
    assert (result.repeats[0].npu, result.memory.npu_memory_bytes) == (None, (None,))


def test_a_target_with_a_ledger_gives_every_buffer(tmp_path: Path, make_bench: MakeBench) -> None:
    """Total, peak and remaining bytes come from each process's own ledger, as do the live bytes at
    each barrier.
    """
    bench = make_bench(tmp_path, f"{_TWO_LOADS};destroy-2@destroy1", target=_BOARD)
    result = _result(bench, "no_reuse_one_model")
    memory = result.memory
    assert result.outcome == "ok"
    assert memory.npu_memory_bytes == memory.npu_peak_bytes == (8 * _PAGE,) * 2
    assert memory.npu_left_bytes == (0, 0)
    for number, repeat in enumerate(result.repeats):
        account = known(repeat.npu)
        assert (account.source, account.total_bytes, account.findings) == ("ledger", 8 * _PAGE, ())
        live = [
            repeat.phases[phase].npu_live_bytes
            for phase in ("imported", "context", "steady", "destroy")
        ]
        assert live == [0, 8 * _PAGE, 8 * _PAGE, 0]
        npu = known(_trace(tmp_path, result, number).npu)
        assert npu.live_bytes == [pages * _PAGE for pages in (1, 4, 5, 8, 7, 4, 3, 0)]
        assert npu.times_ns == sorted(npu.times_ns)
        assert list(npu.ledger.buffers) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("script", "npu_bytes", "left_bytes"), [("plain", 0, 0), (_TWO_LOADS, 8 * _PAGE, 3 * _PAGE)]
)
def test_memory_that_is_not_given_back_is_a_leak(
    tmp_path: Path, make_bench: MakeBench, script: str, npu_bytes: int, left_bytes: int
) -> None:
    """A buffer that is left is a finding with its size in an ordinary result; a process without
    buffers has no finding.
    """
    result = _result(make_bench(tmp_path, script, target=_BOARD, repeats=1), "no_reuse_one_model")
    memory = result.memory
    assert (result.outcome, memory.npu_memory_bytes, memory.npu_left_bytes) == (
        "ok",
        (npu_bytes,),
        (left_bytes,),
    )
    (npu,) = (repeat.npu for repeat in result.repeats)
    assert npu is not None
    assert npu.source == "ledger"
    assert npu.findings == ((Finding("leak", None, None, None, left_bytes),) if left_bytes else ())


def test_cycles_are_read_one_by_one(tmp_path: Path, make_bench: MakeBench) -> None:
    """There is a reading before the first cycle and after each, in one process, with the ledger's
    NPU memory.
    """
    leaks = ";".join(f"create-{number + 1}-5000@dup{number}" for number in range(4))
    bench = make_bench(tmp_path, leaks, target=_VIRTUAL, cycles=4, repeats=3)
    result = _result(bench, "cycles_dups")
    series = known(result.cycles)
    assert (result.outcome, len(result.repeats), result.computes) == ("ok", 1, False)
    assert series.npu_memory_bytes == tuple(2 * _PAGE * number for number in range(5))
    for name in (
        "pss_bytes",
        "pss_without_files_bytes",
        "allocated_bytes",
        "fds",
        "mappings",
        "threads",
    ):
        assert len(getattr(series, name)) == 5
    assert min(series.allocated_bytes) > 0
    assert result.memory.context_memory_bytes == (None,)


def test_cycles_of_a_process_that_dies(tmp_path: Path, make_bench: MakeBench) -> None:
    """The readings before the failure are in the result."""
    bench = make_bench(tmp_path, "abort@dup2", cycles=4)
    result = _result(bench, "cycles_dups")
    assert (result.outcome, known(result.failure).phase) == ("crashed", "cycle")
    assert len(known(result.cycles).fds) == 3


@pytest.mark.parametrize(
    ("target", "read", "kind", "words"),
    [
        (_BOARD, "submit-3-4-2-dead@infer1", "reads_freed", "freed memory of context 1"),
        (
            _VIRTUAL,
            "submit-3-4-2@infer1",
            "reads_foreign",
            "memory that the plan does not share of context 1",
        ),
    ],
)
def test_a_context_that_reads_foreign_memory(
    tmp_path: Path, make_bench: MakeBench, target: Target, read: str, kind: str, words: str
) -> None:
    """Its figures are worthless: the outcome is its own kind, with the context and the owner, and
    without latencies.
    """
    bench = make_bench(tmp_path, f"{_TWO_LOADS};{read}", target=target, repeats=1)
    measurement = bench.measure(job("no_reuse_one_model"))
    result = measurement.result
    assert (measurement.latencies_ns, result.outcome, len(result.repeats)) == (
        [],
        "wrong_memory",
        1,
    )
    assert (known(result.failure).phase, known(result.failure).context) == ("steady", 1)
    assert words in str(known(result.failure).message)
    findings = [
        (finding.kind, finding.context, finding.owner)
        for finding in known(result.repeats[0].npu).findings
    ]
    assert (kind, 1, 0) in findings


def test_memory_that_the_plan_shares_is_not_foreign(tmp_path: Path, make_bench: MakeBench) -> None:
    """A dup that reads its source's weights does its work, and the account has the weights as
    shared.
    """
    script = _TWO_LOADS.replace("@load0", "@load_prepared0").replace("@load1", "@dup0")
    result = _result(
        make_bench(tmp_path, f"{script};submit-3-4-2@infer1", target=_BOARD, repeats=1), "full_dup"
    )
    assert result.outcome == "ok"
    (shared,) = known(result.repeats[0].npu).shared
    assert (shared.buffer, shared.component, shared.owner, shared.readers) == (
        2,
        "weights",
        0,
        (1,),
    )


def test_a_process_that_dies_has_no_account(tmp_path: Path, make_bench: MakeBench) -> None:
    """An incomplete last line of the ledger does not matter: the crash is the failure."""
    result = _result(
        make_bench(tmp_path, f"{_TWO_LOADS};abort@infer1", target=_BOARD), "no_reuse_one_model"
    )
    assert (result.outcome, result.memory.npu_memory_bytes) == ("crashed", (None,))
    (repeat,) = result.repeats
    assert (repeat.npu, repeat.phases["context"].npu_live_bytes) == (None, 8 * _PAGE)


def test_a_ledger_that_somebody_else_wrote_to(tmp_path: Path, make_bench: MakeBench) -> None:
    """The repeat has failed with the reason, and no figure is taken from the ledger."""
    script = f"create-1-{_PAGE}@load0;create-1-{_PAGE}@load1"
    result = _result(make_bench(tmp_path, script, target=_BOARD), "no_reuse_one_model")
    assert result.outcome == "failed"
    (repeat,) = result.repeats
    failure = known(repeat.failure)
    assert failure.message.code == "ledger_broken"
    assert "line 3: buffer 1 is made twice" in str(failure)
    assert known(repeat.npu).source == "runtime"
