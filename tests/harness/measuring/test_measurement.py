"""One configuration, measured on a real process with a scripted runtime."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from storage.files import check_result

import runtimes
from accounting.sharing import Finding
from harness.errors import NoModels
from harness.measuring import repeat as one_repeat
from harness.measuring.measurement import Bench
from harness.measuring.videos import Videos
from harness.settings import Settings
from messages import Message
from storage.trace import read_trace
from targets.base import Target
from tests.scripted_driver import ACCOUNT, ENTRY
from tests.support import SCRIPTED, TIME_LIMIT_S, models_of

_SETTINGS = Settings(
    streams=1,
    contexts=2,
    repeats=2,
    rounds=3,
    sample_hz=500,
    time_limit_s=TIME_LIMIT_S,
    idle_s=0,
    cpus=2,
    npu_cores=1,
)
#: As the virtual board: it keeps a ledger, and computes nothing.
_VIRTUAL = dataclasses.replace(SCRIPTED, name="virtual", chip="rk3588", keeps_ledger=True, computes=False)
#: As a board with the preload library: it keeps a ledger, and computes.
_BOARD = dataclasses.replace(SCRIPTED, name="board", keeps_ledger=True)


class Told:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def begin(self, title: str, repeats: int) -> None:
        """Begin a configuration."""
        self.calls.append(("begin", title, repeats))

    def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:
        """Show a step."""
        self.calls.append(("step", repeat, share, phase, context))

    def end(self) -> None:
        """End a configuration."""
        self.calls.append(("end",))


class Scripts:
    """Model sets that are the same scripts for every set."""

    def __init__(self, *scripts: str) -> None:
        self._models = models_of(*scripts)

    def of(self, *_: str) -> Any:
        """Return them."""
        return self._models


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache out of it, and have the scripted runtime in the list."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runtimes, "RUNTIMES", (*runtimes.RUNTIMES, ENTRY))


def _bench(storage: Path, *scripts: str, target: Target = SCRIPTED) -> Bench:
    models: Any = Scripts(*scripts)
    targets = {"scripted": target}
    return Bench(_SETTINGS, models, targets, Videos(targets), storage, Told())


def _checked(bench: Bench, scenario: str) -> dict[str, Any]:
    """Return the result, which is of the schema."""
    info: dict[str, Any] = json.loads(json.dumps(bench.measure("scripted", scenario).info))
    check_result(info)
    return info


def test_a_configuration_that_succeeds(tmp_path: Path) -> None:
    """Its result is valid, and its latencies are those of all contexts and repeats, as the processes reported them."""
    measured = _bench(tmp_path, "plain").measure("scripted", "full_dup")
    info = json.loads(json.dumps(measured.info))
    check_result(info)
    assert (info["outcome"], info["failure"], info["scenario"]) == ("ok", None, "full_dup")
    assert (info["runtime_version"], info["python_version"]) == ("1.2.3", sys.version.split()[0])
    assert (info["streams"], info["contexts"], info["model_files"], info["target"]) == (1, 2, 1, "scripted")
    reported = []
    for repeat in info["repeats"]:
        trace = read_trace(tmp_path, repeat["trace"])
        assert trace is not None
        steady = next(each for each in trace["barriers"] if each["phase"] == "steady")
        reported += [ns for latencies in steady["data"]["latencies_ns"] for ns in latencies]
    assert measured.latencies_ns == reported
    assert len(reported) == 2 * 2 * 3


def test_each_repeat_has_its_trace(tmp_path: Path) -> None:
    """Every barrier is in it, and a timeline that reaches from the first to the last."""
    info = _bench(tmp_path, "plain").measure("scripted", "full_dup").info
    assert len({repeat["trace"] for repeat in info["repeats"]}) == 2
    for repeat in info["repeats"]:
        trace = read_trace(tmp_path, repeat["trace"])
        assert trace is not None
        assert [each["phase"] for each in trace["barriers"]].count("context") == 2
        timeline = trace["timeline"]
        assert len(timeline["times_ns"]) == len(timeline["rss_bytes"]) == len(timeline["system_memory_bytes"]) > 3
        assert timeline["times_ns"] == sorted(timeline["times_ns"])
        assert timeline["times_ns"][0] < trace["barriers"][0]["at_ns"]
        assert timeline["times_ns"][-1] > trace["barriers"][-2]["at_ns"]


def test_processes_are_fresh(tmp_path: Path) -> None:
    """Each repeat loads its contexts anew, and preparing has a process of its own."""
    log = tmp_path / "log"
    _bench(tmp_path, f"log={log}").measure("scripted", "full_dup")
    lines = log.read_text().splitlines()
    assert [lines.count(word) for word in ("prepare0", "load_prepared0", "dup0", "destroy0")] == [2, 2, 2, 2]
    assert "load_prepared1" not in lines


def test_a_failure_ends_the_configuration(tmp_path: Path) -> None:
    """What had come before it is kept, no further repeat is made, and no latency is given."""
    log = tmp_path / "log"
    measured = _bench(tmp_path, f"log={log};raise@infer1").measure("scripted", "full_dup")
    check_result(json.loads(json.dumps(measured.info)))
    assert measured.latencies_ns == []
    assert measured.info["outcome"] == "failed"
    assert measured.info["failure"]["phase"] == "first_inference"
    assert len(measured.info["repeats"]) == 1
    assert measured.info["memory"]["baseline_memory_bytes"][0] > 0
    assert log.read_text().splitlines().count("load_prepared0") == 1


def test_a_failure_of_a_later_repeat(tmp_path: Path) -> None:
    """The repeats that succeeded are stored, but the configuration has no figures to compare."""
    flag = tmp_path / "second"
    script = f'if [ -e "{flag}" ]; then exit 5; fi; touch "{flag}"; exec "$@"'
    target = Target("once", ("sh", "-c", script, "sh", *SCRIPTED.command))
    measured = _bench(tmp_path, "plain", target=target).measure("scripted", "shared_context")
    check_result(json.loads(json.dumps(measured.info)))
    assert measured.latencies_ns == []
    assert measured.info["outcome"] == "crashed"
    assert measured.info["failure"]["message"] == {"code": "process_exited", "values": {"code": 5}}
    assert [each["failure"] is None for each in measured.info["repeats"]] == [True, False]
    assert [each is None for each in measured.info["memory"]["application_memory_bytes"]] == [False, True]


def test_a_model_that_cannot_be_prepared(tmp_path: Path) -> None:
    """There is no repeat, but a result; what earlier processes said of the runtime is in it."""
    bench = _bench(tmp_path, "raise@prepare0")
    failed = bench.measure("scripted", "full_dup").info
    check_result(json.loads(json.dumps(failed)))
    assert (failed["outcome"], failed["failure"]["phase"], failed["repeats"]) == ("failed", "prepare", [])
    assert failed["runtime_version"] is None
    assert bench.measure("scripted", "no_reuse_one_model").info["outcome"] == "ok"
    assert bench.measure("scripted", "full_dup").info["runtime_version"] == "1.2.3"


def test_what_a_runtime_does_not_have(tmp_path: Path) -> None:
    """A missing mechanism is an outcome of its own."""
    measured = _bench(tmp_path, "not_supported@shared_context0").measure("scripted", "shared_context")
    assert measured.info["outcome"] == "not_supported"
    assert measured.latencies_ns == []


def test_the_best_plan_that_the_runtime_has(tmp_path: Path) -> None:
    """Where a mechanism is missing the next plan is measured, and the result has the plan that it is of."""
    bench = _bench(tmp_path, "not_supported@share_internal0")
    for name in ("plain", "lean"):
        assert _checked(bench, name)["outcome"] == "ok"
    info = _checked(bench, "lean")
    assert (info["outcome"], info["failure"], len(info["repeats"])) == ("ok", None, 2)
    assert [context["internal"] for context in info["plan"]["contexts"]] == [None, None]
    assert [context["mechanism"] for context in info["plan"]["contexts"]] == ["load", "dup"]
    assert [context["zero_copy"] for context in info["plan"]["contexts"]] == [["input", "output"]] * 2
    assert info["copies"] == [{"input_bytes": 0, "output_bytes": 0}] * 2


def test_the_last_plans_answer_stands(tmp_path: Path) -> None:
    """A runtime that has nothing of it is said to lack what the last plan wanted; all plans are one configuration."""
    bench = _bench(tmp_path, "not_supported@load0;not_supported@load_prepared0")
    info = _checked(bench, "lean")
    assert (info["outcome"], info["scenario"], info["baseline"]) == ("not_supported", "lean", "plain")
    plans = bench.plans("scripted", "lean")
    assert json.loads(json.dumps(plans[-1].to_json())) == info["plan"]
    ends = [call for call in bench.progress.calls if call[0] != "step"]  # type: ignore[attr-defined]
    assert ends == [("begin", "scripted lean", 2), ("end",)]


def test_a_failure_is_no_reason_for_another_plan(tmp_path: Path) -> None:
    """What was tried and went wrong is the result."""
    info = _checked(_bench(tmp_path, "raise@dup0"), "lean")
    assert info["outcome"] == "failed"
    assert info["plan"]["contexts"][0]["internal"] is not None


def test_a_scenario_of_more_models_than_there_are(tmp_path: Path) -> None:
    """It is no failure of the runtime, and said before anything is measured."""
    with pytest.raises(NoModels, match="about the first 3 resolutions and there are 2"):
        _bench(tmp_path, "plain", "plain too").measure("scripted", "shared_weights_3")


def test_each_runtime_runs_on_its_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one target cannot do is no matter of the others."""
    monkeypatch.setattr(runtimes, "RUNTIMES", (ENTRY, dataclasses.replace(ENTRY, name="elsewhere")))
    bench = _bench(tmp_path, "plain", target=_VIRTUAL)
    gone = Target("gone", ("false",))
    bench.targets = {**bench.targets, "elsewhere": gone}
    results = {name: bench.measure(name, "no_reuse").info for name in ("scripted", "elsewhere")}
    assert {name: (info["outcome"], info["target"], info["computes"]) for name, info in results.items()} == {
        "scripted": ("ok", "virtual", False),
        "elsewhere": ("crashed", "gone", True),
    }


def test_outputs_that_differ_within_a_configuration(tmp_path: Path) -> None:
    """One context with other outputs is enough: the saving would be worthless."""
    measured = _bench(tmp_path, "differ@dup").measure("scripted", "full_dup")
    check_result(json.loads(json.dumps(measured.info)))
    assert measured.info["outcome"] == "outputs_differ"
    assert measured.latencies_ns == []
    assert len(measured.info["repeats"]) == 2
    ((first, second),) = measured.info["output_digests"].values()
    assert measured.info["failure"]["message"]["values"]["digests"] == f"{first}, {second}"


def test_outputs_that_differ_from_those_without_reuse(tmp_path: Path) -> None:
    """Reuse that changes all outputs alike is found by comparing with the baseline of the same model."""
    bench = _bench(tmp_path, "differ@load_prepared;differ@dup")
    assert bench.measure("scripted", "no_reuse_one_model").info["outcome"] == "ok"
    measured = bench.measure("scripted", "full_dup")
    assert measured.info["outcome"] == "outputs_differ"
    assert len(next(iter(measured.info["output_digests"].values()))) == 1
    assert measured.info["failure"]["message"]["values"]["scenario"] == "no_reuse_one_model"


def test_outputs_are_compared_by_model(tmp_path: Path) -> None:
    """Two models may well have different outputs."""
    bench = _bench(tmp_path, "plain", "plain too")
    bench.settings = dataclasses.replace(_SETTINGS, streams=2, contexts=1)
    measured = bench.measure("scripted", "no_reuse")
    assert measured.info["outcome"] == "ok"
    ((first,), (second,)) = measured.info["output_digests"].values()
    assert first != second


def test_progress_is_told_everything(tmp_path: Path) -> None:
    """Each configuration begins and ends, also when it fails, and each step of each repeat is between."""
    bench = _bench(tmp_path, "raise@dup0")
    bench.measure("scripted", "no_reuse_one_model")
    bench.measure("scripted", "full_dup")
    calls = bench.progress.calls  # type: ignore[attr-defined]
    assert [call for call in calls if call[0] != "step"] == [
        ("begin", "scripted no_reuse_one_model", 2),
        ("end",),
        ("begin", "scripted full_dup", 2),
        ("end",),
    ]
    steps = [call[1:] for call in calls[: calls.index(("end",))] if call[0] == "step"]
    assert [step[0] for step in steps] == [1] * 8 + [2] * 8
    assert [step[2:] for step in steps[:3]] == [("imported", None), ("context", 0), ("context", 1)]
    shares = [step[1] for step in steps[:8]]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 7 / 8)


def test_progress_ends_also_when_the_user_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is erased before pytest says that it was interrupted."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(one_repeat, "run_plan", interrupt)
    bench = _bench(tmp_path, "plain")
    with pytest.raises(KeyboardInterrupt):
        bench.measure("scripted", "no_reuse")
    assert bench.progress.calls[-1] == ("end",)  # type: ignore[attr-defined]


def test_results_of_one_session_have_one_name(tmp_path: Path) -> None:
    """The run's name is common to its results and no other's, and is the folder of its traces."""
    first, second = _bench(tmp_path, "plain"), _bench(tmp_path, "plain")
    infos = [first.measure("scripted", name).info for name in ("no_reuse", "shared_context")]
    assert infos[0]["run"] == infos[1]["run"] == first.run != second.run
    folders = {Path(repeat["trace"]).parent.name for info in infos for repeat in info["repeats"]}
    assert folders == {first.run}


# NPU memory

#: Buffers of two loaded contexts of one model, each with a task list and weights with register commands, given back.
_TWO_LOADS = (
    "create-1-100@load0;create-2-9000@load0;create-3-100@load1;create-4-9000@load1;"
    "submit-1-2-2@infer0;destroy-3@destroy0;destroy-4@destroy0;destroy-1@destroy1"
)
_PAGE = 4096


def test_a_target_without_a_ledger_gives_the_runtimes_own_words(tmp_path: Path) -> None:
    """The account is the runtime's; what only a ledger knows is not there."""
    info = _checked(_bench(tmp_path, "plain"), "full_dup")
    for repeat in info["repeats"]:
        assert repeat["npu"]["source"] == "runtime"
        assert repeat["npu"]["contexts"][0]["weights_bytes"] == ACCOUNT["weights_bytes"]
        assert (repeat["npu"]["peak_bytes"], repeat["npu"]["left_bytes"]) == (None, None)
        assert "npu_live_bytes" not in repeat["phases"]["steady"]
    total = info["repeats"][0]["npu"]["total_bytes"]
    assert info["memory"]["npu_memory_bytes"] == [total, total]
    assert info["memory"]["npu_peak_bytes"] == info["memory"]["npu_left_bytes"] == [None, None]


def test_a_runtime_on_the_cpu_has_no_npu_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No account and no bytes, not zero bytes: also where the target keeps a ledger of what others do."""
    monkeypatch.setattr(runtimes, "RUNTIMES", (dataclasses.replace(ENTRY, device="cpu"),))
    info = _checked(_bench(tmp_path, "plain", target=_BOARD), "full_dup")
    assert [repeat["npu"] for repeat in info["repeats"]] == [None, None]
    assert info["memory"]["npu_memory_bytes"] == [None, None]


def test_a_target_with_a_ledger_gives_every_buffer(tmp_path: Path) -> None:
    """Total, peak and what is left are the ledger's, at each barrier its live bytes, and the trace has it all."""
    info = _checked(_bench(tmp_path, f"{_TWO_LOADS};destroy-2@destroy1", target=_BOARD), "no_reuse_one_model")
    assert info["outcome"] == "ok"
    assert info["memory"]["npu_memory_bytes"] == info["memory"]["npu_peak_bytes"] == [8 * _PAGE] * 2
    assert info["memory"]["npu_left_bytes"] == [0, 0]
    for repeat in info["repeats"]:
        assert (repeat["npu"]["source"], repeat["npu"]["total_bytes"]) == ("ledger", 8 * _PAGE)
        assert repeat["npu"]["findings"] == []
        live = {phase: reading["npu_live_bytes"] for phase, reading in repeat["phases"].items()}
        assert (live["imported"], live["context"], live["steady"], live["destroy"]) == (0, 8 * _PAGE, 8 * _PAGE, 0)
        trace = read_trace(tmp_path, repeat["trace"])
        assert trace is not None
        sizes = (1, 4, 5, 8, 7, 4, 3, 0)
        assert trace["npu"]["live_bytes"] == [size * _PAGE for size in sizes]
        assert trace["npu"]["times_ns"] == sorted(trace["npu"]["times_ns"])
        assert list(trace["npu"]["ledger"]["buffers"]) == ["1", "2", "3", "4"]


def test_each_process_has_a_ledger_of_its_own(tmp_path: Path) -> None:
    """A second repeat does not find the first one's buffers; a process without buffers has an empty ledger."""
    bench = _bench(tmp_path, "create-1-100@load0", target=_BOARD)
    assert _checked(bench, "no_reuse_one_model")["memory"]["npu_memory_bytes"] == [_PAGE, _PAGE]
    empty = _checked(_bench(tmp_path, "plain", target=_BOARD), "no_reuse_one_model")
    assert empty["memory"]["npu_memory_bytes"] == [0, 0]
    assert [repeat["npu"]["source"] for repeat in empty["repeats"]] == ["ledger", "ledger"]


def test_memory_that_is_not_given_back_is_a_leak(tmp_path: Path) -> None:
    """It is a finding with its size, and the configuration was measured all the same."""
    info = _checked(_bench(tmp_path, _TWO_LOADS, target=_BOARD), "no_reuse_one_model")
    assert info["outcome"] == "ok"
    assert info["memory"]["npu_left_bytes"] == [3 * _PAGE] * 2
    leak = dataclasses.asdict(Finding("leak", None, None, None, 3 * _PAGE))
    assert [repeat["npu"]["findings"] for repeat in info["repeats"]] == [[leak], [leak]]


@pytest.mark.parametrize(
    ("read", "kind", "words"),
    [
        ("submit-3-4-2-dead@infer1", "reads_freed", "freed memory of context 1"),
        ("submit-3-4-2@infer1", "reads_foreign", "memory that the plan does not share of context 1"),
    ],
)
@pytest.mark.parametrize("target", [_VIRTUAL, _BOARD])
def test_a_context_that_reads_foreign_memory(tmp_path: Path, target: Target, read: str, kind: str, words: str) -> None:
    """Its figures are worth nothing: an outcome of its own, with the context and the owner, and no latencies."""
    measured = _bench(tmp_path, f"{_TWO_LOADS};{read}", target=target).measure("scripted", "no_reuse_one_model")
    info = json.loads(json.dumps(measured.info))
    check_result(info)
    assert measured.latencies_ns == []
    assert info["outcome"] == "wrong_memory"
    assert (info["failure"]["phase"], info["failure"]["context"]) == ("steady", 1)
    assert words in str(Message.from_json(info["failure"]["message"]))
    findings = [(each["kind"], each["context"], each["owner"]) for each in info["repeats"][0]["npu"]["findings"]]
    assert (kind, 1, 0) in findings
    assert len(info["repeats"]) == 2


def test_memory_that_the_plan_shares_is_not_foreign(tmp_path: Path) -> None:
    """A dup that reads its source's weights does what it is for, and the account says that they are shared."""
    script = _TWO_LOADS.replace("@load0", "@load_prepared0").replace("@load1", "@dup0")
    info = _checked(_bench(tmp_path, f"{script};submit-3-4-2@infer1", target=_BOARD), "full_dup")
    assert info["outcome"] == "ok"
    shared = [each for repeat in info["repeats"] for each in repeat["npu"]["shared"]]
    assert [(each["buffer"], each["component"], each["owner"], each["readers"]) for each in shared] == [
        (2, "weights", 0, [1])
    ] * 2


def test_a_process_that_dies_has_no_account(tmp_path: Path) -> None:
    """A last line of the ledger that was cut does not matter, and the crash is what is told."""
    measured = _bench(tmp_path, f"{_TWO_LOADS};abort@infer1", target=_BOARD).measure("scripted", "no_reuse_one_model")
    info = json.loads(json.dumps(measured.info))
    check_result(info)
    assert info["outcome"] == "crashed"
    assert [repeat["npu"] for repeat in info["repeats"]] == [None]
    assert info["memory"]["npu_memory_bytes"] == [None]
    assert info["repeats"][0]["phases"]["context"]["npu_live_bytes"] == 8 * _PAGE


# Where nothing computes


def test_no_speed_where_nothing_computes(tmp_path: Path) -> None:
    """The result says so, has memory and no figure of speed, and gives no latency to whoever asks."""
    measured = _bench(tmp_path, "plain", target=_VIRTUAL).measure("scripted", "full_dup")
    info = json.loads(json.dumps(measured.info))
    check_result(info)
    assert measured.latencies_ns == []
    assert (info["outcome"], info["computes"], info["chip"], info["target"]) == ("ok", False, "rk3588", "virtual")
    assert info["speed"]["latency_median_ns"] == info["speed"]["throughput_per_s"] == [None, None]
    assert info["speed"]["context_load_ns"] == info["speed"]["first_inference_ns"] == [[], []]
    assert all(value > 0 for value in info["memory"]["application_memory_bytes"])


def test_outputs_are_not_compared_where_nothing_computes(tmp_path: Path) -> None:
    """They mean nothing there; elsewhere they have to be equal."""
    assert _checked(_bench(tmp_path, "differ@dup", target=_VIRTUAL), "full_dup")["outcome"] == "ok"
    assert _checked(_bench(tmp_path, "differ@dup", target=_BOARD), "full_dup")["outcome"] == "outputs_differ"


def test_versions_are_kept_from_the_last_that_knew_them(tmp_path: Path) -> None:
    """The driver's version comes with the first context, and stands in later results too that had none."""
    bench = _bench(tmp_path, "driver=0.9.8;raise@dup0")
    info = _checked(bench, "no_reuse_one_model")
    assert (info["runtime_version"], info["driver_version"], info["chip"]) == ("1.2.3", "0.9.8", None)
    failed = _checked(bench, "full_dup")
    assert (failed["outcome"], failed["driver_version"]) == ("failed", "0.9.8")
    assert info["computes"] is True
