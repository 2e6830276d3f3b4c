"""`pytest bench/` as a user runs it: a whole pytest in a process of its own, on a tiny model and the real runtime."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import psutil
import pytest

from messages import Message
from storage.run_file import WITHOUT_SPEED
from storage.trace import Trace, read_trace
from targets.chips import chip_of_this_machine
from tests.bench.bench_process import Bench, Done, stored_runs, wait_for
from tests.support import TIME_LIMIT_S, Reusebench

#: What is measured once from end to end: one question that ONNX Runtime can answer, a part of two others, and a
#: scenario whose plan another one has.
_CHOSEN = "test_dup or external_internal or shared_weights or copied_io_4k or runtime_memory"
_NAMES = ["no_reuse", "partial_dup", "no_reuse_one_model", "full_dup", "shared_context", "full_dup_internal_reuse"]
#: Each chooses this scenario and not the other one whose name begins with it.
_NO_REUSE = "(no_reuse and not one_model)"
_FULL_DUP = "(full_dup and not internal)"
#: Leaves behind which modules the harness's process has imported.
_PROBE = """
import json, pathlib, sys

def pytest_unconfigure():
    pathlib.Path(__file__).with_name("modules.json").write_text(json.dumps(sorted(sys.modules)))
"""


@dataclass
class Whole:
    """Two runs on one storage: all scenarios with one model, then two of them with two models."""

    first: Done
    #: What pytest-benchmark has saved, as --benchmark-json and in the storage.
    json: dict[str, Any]
    saved: dict[str, Any]
    modules: list[str]
    second: Done


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, cache: Path, tiny_models: tuple[Path, Path]) -> Whole:
    """Return what `pytest bench/` gave, with pytest-benchmark's own options in use."""
    folder = tmp_path_factory.mktemp("whole")
    bench = Bench(folder, cache)
    output = folder / "out.json"
    options = ["--benchmark-save=mine", "--benchmark-save-data", f"--benchmark-json={output}"]
    first = bench.run("--model", tiny_models[0], *options, *bench.plugin("probe", _PROBE), "-k", _CHOSEN)
    (path,) = bench.storage.glob("*/*.json")
    modules = json.loads((folder / "modules.json").read_text())
    chosen = ["-k", f"{_NO_REUSE} or partial_dup", "--benchmark-compare", "--benchmark-group-by=param:scenario"]
    second = bench.run("--model", tiny_models[0], "--model", tiny_models[1], *chosen)
    return Whole(first, json.loads(output.read_text()), json.loads(path.read_text()), modules, second)


def test_everything_is_measured_and_stored(whole: Whole) -> None:
    """Exit code 0, one file with a result for each scenario, in the order of the list, and the machine."""
    assert whole.first.code == 0, whole.first.words
    run = whole.first.runs()[0]
    infos = [stored.info for stored in run.results]
    assert [info.scenario for info in infos] == [*_NAMES, "runtime_memory", "external_internal"]
    assert len({info.run for info in infos}) == 1
    assert run.is_finished
    assert run.board
    assert run.machine.reusebench.memory_total_bytes > 0
    for info in infos[:-1]:
        assert (info.outcome, info.streams, info.contexts, info.rounds) == ("ok", 2, 2, 2)
        application, baseline = info.memory.application_memory_bytes[0], info.memory.baseline_memory_bytes[0]
        assert (application or 0) > (baseline or 0) > 0
    # With one model these plans are equal.
    equal = [info.scenario for info in infos if info.measured_as == "no_reuse"]
    assert equal == ["no_reuse_one_model", "runtime_memory"]


def test_what_the_runtime_lacks_is_stored_too(whole: Whole) -> None:
    """A mechanism that it has not is skipped and stored as such; a question without models is skipped, and said."""
    (entry,) = whole.saved[WITHOUT_SPEED]
    assert (entry["name"], entry["group"]) == (
        "test_external_memory[onnxruntime-external_internal]",
        "external_memory",
    )
    info = whole.first.runs()[0].results[-1].info
    assert info.outcome == "not_supported"
    assert info.failure is not None
    assert "7 passed, 8 skipped" in whole.first.words
    for words in (
        str(info.failure.reason),
        "onnxruntime: --model is given without --resolution: weights are shared between resolutions",
        "onnxruntime: --model is given, and this scenario needs the built-in network that takes and returns a camera",
    ):
        assert words in whole.first.words


def test_outputs_are_equal_whatever_is_reused(whole: Whole) -> None:
    """One model, which serves two streams, has one digest of its outputs, in all scenarios."""
    digests = set()
    for stored in whole.first.runs()[0].results[:-1]:
        info = stored.info
        assert (info.model_files, len(info.models)) == (1, 1)
        assert [context.stream for context in info.plan.contexts] == [0, 0, 1, 1]
        digests |= {digest for values in info.output_digests.values() for digest in values}
    assert len(digests) == 1


def test_latencies_are_those_of_the_measured_process(whole: Whole) -> None:
    """pytest-benchmark's data and statistics are the reported times to the last bit, and not those of the harness."""
    for entry in whole.saved["benchmarks"]:
        latencies_ns: list[int] = []
        for repeat in entry["extra_info"]["repeats"]:
            trace = read_trace(whole.first.storage, repeat["trace"], Trace)
            assert trace is not None
            for reading in trace.barriers:
                latencies_ns += [ns for latencies in reading.data.latencies_ns for ns in latencies]
        seconds = [ns / 1e9 for ns in latencies_ns]
        stats = entry["stats"]
        assert stats["data"] == seconds
        assert (stats["min"], stats["max"], stats["rounds"]) == (min(seconds), max(seconds), 2 * 2 * 2)
        assert stats["median"] == pytest.approx(statistics.median(seconds))


def test_the_options_of_pytest_benchmark_work(whole: Whole) -> None:
    """A name for the run, raw data, a JSON elsewhere, comparison with the last run, groups by question or parameter."""
    names = [run.path.name[:5] for run in whole.first.runs()]
    assert (names, whole.first.runs()[0].path.name) == (["0001_", "0002_"], "0001_mine.json")
    assert [entry["extra_info"]["scenario"] for entry in whole.json["benchmarks"]] == [*_NAMES, "runtime_memory"]
    assert {entry["group"] for entry in whole.saved["benchmarks"]} == {"dup", "external_memory"}
    assert "benchmark 'dup': 6 tests" in whole.first.words
    assert "Comparing against benchmarks from:" in whole.second.words
    assert "(0001_mine)" in whole.second.words
    for name in ("no_reuse", "partial_dup"):
        assert re.search(rf"benchmark 'scenario={name}': \d tests", whole.second.words)


def test_two_models_for_two_streams(whole: Whole) -> None:
    """Each stream has its own, and each model its own outputs."""
    assert whole.second.code == 0, whole.second.words
    infos = [stored.info for stored in whole.second.runs()[1].results]
    assert [info.scenario for info in infos] == ["no_reuse", "partial_dup"]
    for info in infos:
        assert info.model_files == len(info.models) == 2
        assert [context.model for context in info.plan.contexts] == [0, 0, 1, 1]
        assert len({digest for values in info.output_digests.values() for digest in values}) == 2
    assert infos[0].output_digests == infos[1].output_digests


def test_the_harness_maps_nothing_of_the_runtime(whole: Whole) -> None:
    """The process that reads memory has measured all scenarios without importing what is weighed."""
    packages = {name.partition(".")[0] for name in whole.modules}
    assert not packages & {"numpy", "onnx", "onnxruntime", "pandas", "matplotlib"}
    assert "harness" in packages


def test_what_the_terminal_says(whole: Whole) -> None:
    """Without a terminal nothing is drawn; the end says where the results are, and which command shows them."""
    for words in ("\r", "\x1b", "repeat 1/1"):
        assert words not in whole.first.words
    assert f"reusebench report --storage {whole.first.storage}" in whole.first.words


def test_progress_on_a_terminal(bench: Bench, tiny_model: Path) -> None:
    """A person sees which configuration, which repeat and which step is under way, on a line that is erased."""
    ours, theirs = pty.openpty()
    process = bench.start("--model", tiny_model, "-k", _FULL_DUP, "--repeats=2", stdout=theirs, stderr=theirs)
    os.close(theirs)
    words = b""
    while select.select([ours], [], [], TIME_LIMIT_S)[0]:
        try:
            words += os.read(ours, 4096)
        except OSError:  # a terminal that nobody holds any more
            break
    os.close(ours)
    done = bench.finish(process)
    assert done.code == 0, words.decode()
    expected = ("onnxruntime full_dup", "preparing", "repeat 1/2", "repeat 2/2", "first inference 2", "s left")
    assert [part for part in expected if part.encode() not in words] == []
    # Each line is written over the one before: a new line of the terminal only begins with pytest's own words.
    assert all(b"\n" not in line.rstrip() for line in words.split(b"\r") if b"repeat 1/2" in line)


# What goes wrong in a measured process


def test_a_damaged_model_spoils_only_what_uses_it(bench: Bench, tiny_model: Path) -> None:
    """Its configurations are stored as failures with words, the others are measured, and the exit code is 1."""
    damaged = bench.folder / "damaged.onnx"
    damaged.write_bytes(tiny_model.read_bytes()[:-2000])
    done = bench.run("--model", tiny_model, "--model", damaged, "-k", f"{_NO_REUSE} or partial_dup or {_FULL_DUP}")
    assert done.code == 1, done.words
    failures = {name: info.failure for name, info in done.results().items()}
    message = Message("onnx_model_unreadable", {"model": str(damaged)})
    assert [
        (name, failure and (failure.kind, failure.phase, failure.context, failure.message))
        for name, failure in failures.items()
    ] == [
        ("full_dup", None),
        ("no_reuse", ("failed", "context", 2, message)),
        ("partial_dup", ("failed", "prepare", None, message)),
    ]
    assert f"failed in phase 'context 2': {damaged}" in done.words
    assert "Traceback" not in done.words


def _measured_process(process: subprocess.Popen[bytes]) -> psutil.Process:
    """Return the next measured process that this pytest starts."""

    def look() -> psutil.Process | None:
        for child in psutil.Process(process.pid).children():
            try:
                if "scenarios.driver" in child.cmdline():
                    return child
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return None

    return wait_for(look)


def test_a_process_that_is_killed_is_a_row(bench: Bench, tiny_model: Path) -> None:
    """The configuration has crashed, the next one is measured, and the exit code is 1."""
    process = bench.start("--model", tiny_model, "-k", "no_reuse_one_model or shared_context")
    _measured_process(process).kill()
    done = bench.finish(process)
    assert done.code == 1, done.words
    assert done.outcomes() == {"no_reuse_one_model": "crashed", "shared_context": "ok"}
    failure = done.results()["no_reuse_one_model"].failure
    assert failure is not None
    assert failure.message == Message("process_ended_by_signal", {"signal": "SIGKILL"})
    assert "Traceback" not in done.words


def test_a_model_that_the_adapter_cannot_feed_is_skipped(bench: Bench) -> None:
    """It is no failure of the run, but stored and said, also when there is nothing else to store."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, "width"]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "free", ends[:1], ends[1:])
    model = bench.folder / "free.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]), str(model))
    done = bench.run("--model", model, "-k", "shared_context")
    assert done.code == 0, done.words
    assert "1 skipped" in done.words
    assert "free sizes (width)" in done.words
    assert done.outcomes() == {"shared_context": "not_supported"}


def test_a_hang_ends_at_the_time_limit_of_the_option(bench: Bench, tiny_model: Path) -> None:
    """A limit that is too short for a start shows that the option arrives."""
    done = bench.run("--model", tiny_model, "-k", "shared_context", "--time-limit=0.01")
    assert done.code == 1
    assert "time limit of 0.01 s (--time-limit)" in done.words
    assert done.outcomes() == {"shared_context": "hung"}


# Sessions that end early


def test_an_interrupted_run_keeps_what_is_finished(bench: Bench, tiny_model: Path) -> None:
    """After Ctrl-C the finished configurations are a finished run, and no process is left behind."""
    process = bench.start("--model", tiny_model, "-v", "-k", "test_dup")
    assert process.stdout is not None
    words = b""
    while b"PASSED" not in words:
        piece = os.read(process.stdout.fileno(), 4096)
        assert piece, words.decode()
        words += piece
    measured = _measured_process(process)
    process.send_signal(signal.SIGINT)
    done = bench.finish(process, words)
    assert done.code == pytest.ExitCode.INTERRUPTED, done.words
    outcomes = done.outcomes()
    assert outcomes["no_reuse"] == "ok"
    assert "full_dup_internal_reuse" not in outcomes, "it was not interrupted"
    assert done.runs()[0].is_finished
    assert not measured.is_running() or measured.status() == psutil.STATUS_ZOMBIE


def test_a_session_that_is_killed_leaves_what_it_measured(
    bench: Bench, tiny_model: Path, reusebench: Reusebench
) -> None:
    """As a power cut would: the run has every finished configuration, and all commands work on it as it is."""
    process = bench.start("--model", tiny_model, "-v", "-k", "test_dup")
    stored = wait_for(lambda: [run for run in stored_runs(bench.storage) if len(run.results) >= 2])
    process.kill()
    words = bench.finish(process).words
    (run,) = stored_runs(bench.storage)
    names = [result.info.scenario for result in run.results]
    assert run.path == stored[0].path
    assert not run.is_finished
    assert words.count("PASSED") <= len(names) < len(_NAMES)
    assert names == _NAMES[: len(names)]
    assert {result.info.outcome for result in run.results} == {"ok"}
    listed = reusebench("runs", "list", "--storage", bench.storage)
    assert (listed.exit_code, "(unfinished)" in listed.out) == (0, True)
    output = bench.folder / "out"
    report = reusebench("report", "--storage", bench.storage, "--output", output, "--format", "csv")
    assert (report.exit_code, report.err) == (0, "")
    assert "partial_dup" in (output / "tables" / "comparison.csv").read_text()


# What a user can get wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--streams", "0"], "argument --streams: '0' is not valid; valid: a whole number from 1"),
        (["--target", "moon"], "--target moon: no such target; valid: python, "),
        (
            ["--model", "{model}", "--benchmark-storage=file://{model}/storage"],
            "the storage {model}/storage cannot be written (Not a directory). Choose another",
        ),
        (["--benchmark-storage=nothing://x"], "results and traces need a folder; valid: file://PATH or a path"),
        (["--model", "{model}", "-k", "shared_weights"], "--model is given without --resolution"),
    ],
)
def test_mistakes_of_a_user(bench: Bench, tiny_model: Path, arguments: list[str], words: str) -> None:
    """pytest's own exit code for them, the words, no traceback, and nothing is measured."""
    done = bench.run(*(argument.format(model=tiny_model) for argument in arguments))
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.words
    assert words.format(model=tiny_model) in done.words
    assert "Traceback" not in done.words
    assert "INTERNALERROR" not in done.words
    assert done.runs() == []


def test_a_python_without_runtimes(bench: Bench) -> None:
    """It is a mistake to put right like any other, and no error of the collection."""
    hidden = "from targets import interpreters\ninterpreters.available = lambda _: False\n"
    # In an empty cache there is no environment of a runtime's own.
    done = bench.run(*bench.plugin("hidden", hidden), "--target=python", cache=bench.folder)
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.words
    assert "no runtime is installed for this Python. `reusebench doctor` says what to install" in done.words
    assert "Traceback" not in done.words
    assert "conftest.py" not in done.words


@pytest.mark.skipif(chip_of_this_machine() is not None, reason="this board has models for its runtime")
def test_a_runtime_that_was_only_found_may_lack_models(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is skipped with the reason and the others are measured; asked for by name, it is a mistake."""
    monkeypatch.setenv("REUSEBENCH_RKNN_LIBRARY", str(tmp_path / "librknnrt.so"))
    bench = Bench(tmp_path, cache)
    done = bench.run("--target=python", "-k", _FULL_DUP, "--streams=1")
    assert done.code == 0, done.words
    assert list(done.results()) == ["full_dup"]
    assert "a .rknn file is made for one chip" in done.words
    assert bench.run("--runtime=rknn", "-k", _FULL_DUP).code == pytest.ExitCode.USAGE_ERROR


def test_nothing_is_stored_when_benchmarks_are_disabled(bench: Bench, tiny_model: Path) -> None:
    """--benchmark-disable is a dry run."""
    done = bench.run("--model", tiny_model, "-k", "shared_context", "--benchmark-disable")
    assert done.code == 0, done.words
    assert done.runs() == []
