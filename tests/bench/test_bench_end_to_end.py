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
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from storage.files import WITHOUT_SPEED, check_result

from messages import Message
from storage.trace import read_trace
from targets.chips import chip_of_this_machine
from tests.bench.bench_process import Bench, Done
from tests.support import TIME_LIMIT_S

#: What is measured once from end to end: one question that ONNX Runtime can answer, and a part of two others.
_CHOSEN = "test_dup or external_internal or shared_weights or copied_io_4k"
_NAMES = ["no_reuse", "partial_dup", "no_reuse_one_model", "full_dup", "shared_context", "full_dup_internal_reuse"]
#: Each chooses this scenario and not the other one whose name begins with it.
_NO_REUSE = "(no_reuse and not one_model)"
_FULL_DUP = "(full_dup and not internal)"


@dataclass
class Whole:
    """Two runs on one storage: all scenarios with one model, then two of them with two models."""

    first: Done
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
    options = ["--benchmark-save=mine", "--benchmark-save-data", f"--benchmark-json={output}", "-p", "probe"]
    first = bench.run("--model", tiny_models[0], *options, "-k", _CHOSEN)
    (path,) = bench.storage.glob("*/*.json")
    modules = json.loads((folder / "modules.json").read_text())
    chosen = ["-k", f"{_NO_REUSE} or partial_dup", "--benchmark-compare", "--benchmark-group-by=param:scenario"]
    second = bench.run("--model", tiny_models[0], "--model", tiny_models[1], *chosen)
    return Whole(first, json.loads(output.read_text()), json.loads(path.read_text()), modules, second)


def test_everything_is_measured_and_stored(whole: Whole) -> None:
    """Exit code 0, one file with a valid result for each scenario, in the order of the list."""
    assert whole.first.code == 0, whole.first.words
    infos = [each["extra_info"] for each in whole.saved["benchmarks"]]
    assert [info["scenario"] for info in infos] == _NAMES
    for info in infos:
        check_result(info)
        assert (info["outcome"], info["streams"], info["contexts"], info["rounds"]) == ("ok", 2, 2, 2)
        assert info["memory"]["application_memory_bytes"][0] > info["memory"]["baseline_memory_bytes"][0] > 0
    assert len({info["run"] for info in infos}) == 1


def test_what_the_runtime_lacks_is_stored_too(whole: Whole) -> None:
    """A mechanism that it has not is skipped and stored as such."""
    (result,) = whole.saved[WITHOUT_SPEED]
    assert (result["name"], result["group"]) == (
        "test_external_memory[onnxruntime-external_internal]",
        "external_memory",
    )
    info = result["extra_info"]
    check_result(info)
    assert (info["scenario"], info["outcome"]) == ("external_internal", "not_supported")
    assert str(Message.from_json(info["failure"]["message"])) in whole.first.words


def test_what_has_no_models_is_skipped(whole: Whole) -> None:
    """What cannot be asked of the user's models is skipped with what to give, and all the rest is measured."""
    assert "6 passed, 8 skipped" in whole.first.words
    assert (
        "onnxruntime: --model is given without --resolution: weights are shared between resolutions"
        in whole.first.words
    )
    assert (
        "onnxruntime: --model is given, and this scenario needs the built-in network that takes and returns a camera"
        in whole.first.words
    )


def test_outputs_are_equal_whatever_is_reused(whole: Whole) -> None:
    """One model has one digest of its outputs, in all scenarios."""
    digests = [info["extra_info"]["output_digests"] for info in whole.saved["benchmarks"]]
    assert all(each == digests[0] for each in digests)
    assert [len(values) for values in digests[0].values()] == [1]


def test_one_file_serves_two_streams(whole: Whole) -> None:
    """Fewer files than streams are used in turn, and the result says how many were given."""
    for info in (each["extra_info"] for each in whole.saved["benchmarks"]):
        assert info["model_files"] == 1
        assert len(info["models"]) == 1
        assert [context["stream"] for context in info["plan"]["contexts"]] == [0, 0, 1, 1]


def test_latencies_are_those_of_the_measured_process(whole: Whole) -> None:
    """pytest-benchmark's data and statistics are the reported times to the last bit, and not those of the harness."""
    for each in whole.saved["benchmarks"]:
        latencies_ns = []
        for repeat in each["extra_info"]["repeats"]:
            trace = read_trace(whole.first.storage, repeat["trace"])
            assert trace is not None
            steady = next(barrier for barrier in trace["barriers"] if barrier["phase"] == "steady")
            latencies_ns += [ns for latencies in steady["data"]["latencies_ns"] for ns in latencies]
        seconds = [ns / 1e9 for ns in latencies_ns]
        stats = each["stats"]
        assert stats["data"] == seconds
        assert (stats["min"], stats["max"], stats["rounds"]) == (min(seconds), max(seconds), 2 * 2 * 2)
        assert stats["median"] == pytest.approx(statistics.median(seconds))


def test_the_options_of_pytest_benchmark_work(whole: Whole) -> None:
    """A name for the run, raw data, a JSON elsewhere, comparison with the last run, groups by parameter."""
    (first, second) = whole.first.files()
    assert [file.path.name[:5] for file in (first, second)] == ["0001_", "0002_"]
    assert first.path.name == "0001_mine.json"
    scenarios = [each["extra_info"]["scenario"] for each in whole.json["benchmarks"]]
    assert scenarios == _NAMES
    assert "Comparing against benchmarks from:" in whole.second.words
    assert "(0001_mine)" in whole.second.words
    for name in ("no_reuse", "partial_dup"):
        assert re.search(rf"benchmark 'scenario={name}': \d tests", whole.second.words)


def test_results_stand_in_one_group_by_default(whole: Whole) -> None:
    """Each question is one table of pytest-benchmark."""
    assert {each["group"] for each in whole.saved["benchmarks"]} == {"dup"}
    assert "benchmark 'dup': 6 tests" in whole.first.words


def test_two_models_for_two_streams(whole: Whole) -> None:
    """Each stream has its own, and each model its own outputs."""
    assert whole.second.code == 0, whole.second.words
    results = {result.info["scenario"]: result.info for result in whole.first.files()[1].results}
    assert set(results) == {"no_reuse", "partial_dup"}
    for info in results.values():
        assert info["model_files"] == len(info["models"]) == 2
        assert [context["model"] for context in info["plan"]["contexts"]] == [0, 0, 1, 1]
    digests = results["no_reuse"]["output_digests"]
    assert digests == results["partial_dup"]["output_digests"]
    assert len({value for values in digests.values() for value in values}) == 2


def test_the_machine_is_in_the_file(whole: Whole) -> None:
    """Which board it was, and what of it bears on memory."""
    machine = whole.saved["machine_info"]["reusebench"]
    assert machine["board"]
    assert machine["memory_total_bytes"] > 0


def test_the_harness_maps_nothing_of_the_runtime(whole: Whole) -> None:
    """The process that reads memory has measured all scenarios without importing what is weighed."""
    tops = {name.partition(".")[0] for name in whole.modules}
    assert not tops & {"numpy", "onnx", "onnxruntime", "pandas", "matplotlib"}
    assert "harness" in tops


def test_nothing_is_drawn_where_no_person_looks(whole: Whole) -> None:
    """Without a terminal there is no progress line, and no escape sequence."""
    assert "\r" not in whole.first.words
    assert "\x1b" not in whole.first.words
    assert "repeat 1/1" not in whole.first.words


def test_the_end_says_what_to_do_next(whole: Whole) -> None:
    """Where the results are, and which command shows the comparison of them."""
    assert f"reusebench report --storage {whole.first.storage}" in whole.first.words


def test_progress_on_a_terminal(bench: Bench, tiny_model: Path) -> None:
    """A person sees which configuration, which repeat and which step is under way, on a line that is erased."""
    ours, theirs = pty.openpty()
    process = bench.start("--model", tiny_model, "-k", _FULL_DUP, "--repeats=2", stdout=theirs, stderr=theirs)
    os.close(theirs)
    words = b""
    until = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < until:
        select.select([ours], [], [], TIME_LIMIT_S)
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


def test_a_damaged_model_spoils_only_what_uses_it(bench: Bench, tiny_model: Path) -> None:
    """Its configurations are stored as failures with words, the others are measured, and the exit code is 1."""
    damaged = bench.folder / "damaged.onnx"
    damaged.write_bytes(tiny_model.read_bytes()[:-2000])
    done = bench.run("--model", tiny_model, "--model", damaged, "-k", f"{_NO_REUSE} or partial_dup or {_FULL_DUP}")
    assert done.code == 1, done.words
    results = done.results()
    assert {name: info["outcome"] for name, info in results.items()} == {
        "no_reuse": "failed",
        "partial_dup": "failed",
        "full_dup": "ok",
    }
    assert (results["no_reuse"]["failure"]["phase"], results["no_reuse"]["failure"]["context"]) == ("context", 2)
    assert results["partial_dup"]["failure"]["phase"] == "prepare"
    for name in ("no_reuse", "partial_dup"):
        assert results[name]["failure"]["message"] == {
            "code": "onnx_model_unreadable",
            "values": {"model": str(damaged)},
        }
    assert f"failed in phase 'context 2': {damaged}" in done.words
    assert "Traceback" not in done.words


def test_a_process_that_is_killed_is_a_row(bench: Bench, tiny_model: Path) -> None:
    """The configuration has crashed, the next one is measured, and the exit code is 1."""
    process = bench.start("--model", tiny_model, "-k", "no_reuse_one_model or shared_context")
    _measured_process(process).kill()
    done = bench.finish(process)
    assert done.code == 1, done.words
    results = done.results()
    assert {name: info["outcome"] for name, info in results.items()} == {
        "no_reuse_one_model": "crashed",
        "shared_context": "ok",
    }
    message = {"code": "process_ended_by_signal", "values": {"signal": "SIGKILL"}}
    assert results["no_reuse_one_model"]["failure"]["message"] == message
    assert "Traceback" not in done.words


def test_an_interrupted_run_keeps_what_is_finished(bench: Bench, tiny_model: Path) -> None:
    """After Ctrl-C the finished configurations are stored, and no process is left behind."""
    process = bench.start("--model", tiny_model, "-v", "-k", "test_dup")
    words = _read_until(process, b"PASSED")
    measured = _measured_process(process)
    process.send_signal(signal.SIGINT)
    done = bench.finish(process, words)
    assert done.code == pytest.ExitCode.INTERRUPTED, done.words
    outcomes = {name: info["outcome"] for name, info in done.results().items()}
    assert outcomes["no_reuse"] == "ok"
    assert "full_dup_internal_reuse" not in outcomes, "it was not interrupted"
    assert not measured.is_running() or measured.status() == psutil.STATUS_ZOMBIE


def test_a_model_that_the_adapter_cannot_feed_is_skipped(bench: Bench) -> None:
    """It is no failure of the run, but stored and said, also when there is nothing else to store."""
    onnx = pytest.importorskip("onnx")
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, "width"]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "free", ends[:1], ends[1:])
    model = bench.folder / "free.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]), str(model))
    done = bench.run("--model", model, "-k", "shared_context")
    assert done.code == 0, done.words
    assert "1 skipped" in done.words
    assert "free sizes (width)" in done.words
    assert {name: info["outcome"] for name, info in done.results().items()} == {"shared_context": "not_supported"}


def test_a_hang_ends_at_the_time_limit_of_the_option(bench: Bench, tiny_model: Path) -> None:
    """A limit that is too short for a start shows that the option arrives."""
    done = bench.run("--model", tiny_model, "-k", "shared_context", "--time-limit=0.01")
    assert done.code == 1
    assert "time limit of 0.01 s (--time-limit)" in done.words
    assert {name: info["outcome"] for name, info in done.results().items()} == {"shared_context": "hung"}


def test_nothing_is_stored_when_benchmarks_are_disabled(bench: Bench, tiny_model: Path) -> None:
    """--benchmark-disable is a dry run."""
    done = bench.run("--model", tiny_model, "-k", "shared_context", "--benchmark-disable")
    assert done.code == 0, done.words
    assert done.files() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--runtime", "onnx"], "unknown runtime 'onnx'; valid: onnxruntime, megengine_lite, rknn"),
        (["--target", "moon"], "--target moon: no such target; valid: python, "),
        (["--target", "vboard:rk3588"], "--target vboard:rk3588 runs Rockchip's own library: name its file"),
        (
            ["--target", "vboard:rk3588", "--runtime", "onnxruntime"],
            "--runtime onnxruntime: vboard:rk3588 has Rockchip's runtime only",
        ),
        (["--rknn-library", "{folder}/none.so"], "--rknn-library {folder}/none.so: No such file or directory"),
        (["--rknn-library", "{model}"], "--rknn-library {model}: it is no shared library"),
        (
            ["--runtime", "rknn", "--rknn-library", "{library}", "-k", "no_reuse"],
            "a built-in model is made for one chip, and this machine's chip is not known",
        ),
        (
            [
                *["--runtime", "rknn", "--rknn-library", "{library}", "-k", "shared_weights"],
                *["--resolution", "{model},{folder}/none.rknn"],
            ],
            "--resolution {folder}/none.rknn: does not exist",
        ),
        (["--target", "python:{folder}/none"], "--target python:{folder}/none: there is no such program"),
        (
            ["--target", "python:{python}", "--runtime", "onnxruntime"],
            "--runtime onnxruntime: the Python of --target python:{python} has no module onnxruntime",
        ),
        (["--runtime", "rknn", "--rknn-library", "{library}", "--model", "{model}"], "rknn reads .rknn files"),
        (["--model", "{model}", "-k", "shared_weights"], "--model is given without --resolution"),
        (["--streams", "0"], "argument --streams: '0' is not valid; valid: a whole number from 1"),
        (["--rounds", "x"], "argument --rounds: 'x' is not valid; valid: a whole number from 1"),
        (["--sample-hz", "0"], "argument --sample-hz: '0' is not valid; valid: a number above 0"),
        (["--model", "{folder}/none.onnx"], "--model {folder}/none.onnx: does not exist. Give a model file"),
        (["--model", "{folder}/empty"], "--model {folder}/empty: the file is empty"),
        (
            ["--model", "{model}", "--benchmark-storage=file://{folder}/empty/storage"],
            "the storage {folder}/empty/storage cannot be written (Not a directory). Choose another",
        ),
        (
            ["--model", "{model}", "--benchmark-storage=elasticsearch+http://localhost:9/index"],
            "results and traces need a folder; valid: file://PATH or a path",
        ),
        (["--model", "{model}", "--benchmark-storage=nothing://x"], "results and traces need a folder"),
    ],
)
def test_mistakes_of_a_user(bench: Bench, tiny_model: Path, arguments: list[str], words: str) -> None:
    """pytest's own exit code for them, the words, no traceback, and nothing is measured."""
    (bench.folder / "empty").touch()
    # As much of a library as is read of one: an ELF header of this interpreter's machine, and a version.
    library = bench.folder / "library.so"
    library.write_bytes(Path(sys.executable).read_bytes()[:64] + b"librknnrt version: 1.6.0 (test)\0")
    python = bench.folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    places = {"folder": bench.folder, "model": tiny_model, "library": library, "python": python}
    done = bench.run(*(argument.format(**places) for argument in arguments))
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.words
    assert words.format(**places) in done.words
    assert "Traceback" not in done.words
    assert "INTERNALERROR" not in done.words
    assert done.files() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--runtime=onnxruntime"], "--runtime onnxruntime is not here: pip install onnxruntime"),
        (["--target=python"], "no runtime is installed for this Python. `reusebench doctor` says what to install"),
    ],
)
def test_a_python_without_runtimes(bench: Bench, arguments: list[str], words: str) -> None:
    """It is a mistake to put right like any other, and no error of the collection."""
    hidden = "from targets import interpreters\ninterpreters.available = lambda _: False\n"
    (bench.folder / "hidden.py").write_text(hidden)
    # In an empty cache there is no environment of a runtime's own.
    done = bench.run("-p", "hidden", *arguments, cache=bench.folder)
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.words
    assert words in done.words
    assert "Traceback" not in done.words
    assert "conftest.py" not in done.words


def test_help_has_the_options_in_one_group(bench: Bench) -> None:
    """Every option is explained there."""
    done = bench.run("--help")
    assert done.code == 0
    group = done.words.partition("reusebench: ")[2].partition("\n\n")[0]
    options = ["runtime", "model", "resolution", "target", "rknn-library", "streams", "contexts", "repeats", "rounds"]
    for option in (*options, "sample-hz", "time-limit", "quick"):
        assert f"--{option}" in group


def _measured_process(process: subprocess.Popen[bytes]) -> psutil.Process:
    """Return the next measured process that this pytest starts."""
    harness = psutil.Process(process.pid)
    found = _first(lambda: (each for each in harness.children() if "scenarios.driver" in _command(each)))
    assert found is not None, "no measured process was started"
    return found


def _first(look: Callable[[], Iterator[psutil.Process]]) -> psutil.Process | None:
    until = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < until:
        for each in look():
            return each
        time.sleep(0.002)
    return None


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def _read_until(process: subprocess.Popen[bytes], word: bytes) -> bytes:
    assert process.stdout is not None
    words = b""
    while word not in words:
        piece = os.read(process.stdout.fileno(), 4096)
        assert piece, words.decode()
        words += piece
    return words


@pytest.mark.skipif(chip_of_this_machine() is not None, reason="this board has models for its runtime")
def test_a_runtime_that_was_only_found_may_lack_models(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is skipped with the reason and the others are measured; asked for by name, it is a mistake."""
    monkeypatch.setenv("REUSEBENCH_RKNN_LIBRARY", str(tmp_path / "librknnrt.so"))
    bench = Bench(tmp_path, cache)
    found = bench.run("--target=python", "-k", _FULL_DUP, "--streams=1")
    assert found.code == 0, found.words
    assert list(found.results()) == ["full_dup"]
    assert "rknn: a built-in model is made for one chip" in found.words
    named = bench.run("--runtime=rknn", "-k", _FULL_DUP)
    assert named.code == pytest.ExitCode.USAGE_ERROR
