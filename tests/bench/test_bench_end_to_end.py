"""`pytest bench/` as a user runs it: a whole pytest in a process, on a tiny model and the real
runtime.

A bench takes seconds, so as few as possible are run, and several tests read one.
"""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import psutil
import pytest

from reusebench.measured.messages import Message
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.scenarios.titles import title_of
from reusebench.storage.run_file import WITHOUT_SPEED, StoredRun, read_run_file
from reusebench.storage.trace import Trace, read_trace
from reusebench.video.clip import Clip, ensure_clip
from tests.bench.bench_process import BENCH_LIMIT_S, Bench, Done, repeated, stored_runs, wait_for
from tests.helpers.support import Reusebench, known

pytestmark = pytest.mark.process

#: Scenarios of the one run from end to end: a question that ONNX Runtime can answer, parts of
#: others, some of which a CPU cannot answer, and a scenario with the plan of another one.
_CHOSEN = (
    "test_dup or external_internal or shared_weights or copied_io_4k or runtime_memory or"
    " limit_lean"
)
_NAMES = [
    "no_reuse",
    "partial_dup",
    "no_reuse_one_model",
    "full_dup",
    "shared_context",
    "full_dup_internal_reuse",
]
#: Options of -k that select one scenario, and not another whose name begins with the same word.
_NO_REUSE = "(no_reuse and not one_model)"
_FULL_DUP = "(full_dup and not internal)"

# Plugins of the bench's pytest

#: A plugin that stores the names of the modules that the harness's process has imported.
_MODULES = """
import json, pathlib, sys

def pytest_unconfigure():
    pathlib.Path(__file__).with_name("modules.json").write_text(json.dumps(sorted(sys.modules)))
"""
#: A plugin that fills the disk of the storage: always for traces, and for the run if `is_full` is
#: true of the number of the write.
_FULL_DISK = """
import errno, os
from reusebench.storage import run_file, trace

fsync = os.fsync
writes = 0

def fail(descriptor):
    global writes
    path = os.readlink(f"/proc/self/fd/{{descriptor}}")
    if path.endswith(".unfinished") and "/storage/" in path:
        writes += 1
        if {is_full}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    fsync(descriptor)

class Gzip:
    def open(*_, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

run_file.os.fsync = fail
trace.gzip = Gzip
"""
#: A plugin that kills the measured process of one scenario before its timed rounds.
_KILLS = """
import os, signal
from reusebench.harness.measuring.repeat_measurement import RepeatMeasurement
from reusebench.samplers.observer import Observer

begin_step, snapshot = RepeatMeasurement.step, Observer.snapshot
is_last = False

def step(self, step):
    global is_last
    last = ("full_dup", "first_inference", len(self._plan.contexts) - 1)
    is_last = (self._plan.scenario, step.phase, step.context) == last
    begin_step(self, step)

def snapshot_and_kill(self):
    reading = snapshot(self)
    if is_last:
        os.kill(self.pid, signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
    return reading

RepeatMeasurement.step, Observer.snapshot = step, snapshot_and_kill
"""
#: A plugin that acts as if the user pressed Ctrl-C twice once streams have been stored; it stores
#: the process's id.
_INTERRUPTS = """
import os, pathlib, signal
from reusebench.harness.measuring import repeat_measurement

repeat_measurement._KEEP_EVERY_S = 0.0
take = repeat_measurement.RepeatMeasurement.frames

def frames(self, message, run):
    kept_at = self._kept_at
    take(self, message, run)
    if self._kept_at > kept_at:
        pathlib.Path(__file__).with_name("pid").write_text(str(self._observer.pid))
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

repeat_measurement.RepeatMeasurement.frames = frames
"""
#: A plugin that hides all runtimes of this Python.
_NO_RUNTIME = """
from reusebench.targets import interpreters

interpreters.available = lambda _: False
"""


@dataclass
class Whole:
    """Two runs on one storage, on a terminal: all scenarios with one model, then two scenarios with
    two models.
    """

    first: Done
    #: The files of pytest-benchmark: that of --benchmark-json, and the stored run.
    json: dict[str, Any]
    saved: dict[str, Any]
    modules: list[str]
    second: Done


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, tiny_models: tuple[Path, Path]
) -> Whole:
    """Return the runs, with options of pytest-benchmark in use."""
    folder = tmp_path_factory.mktemp("whole")
    bench = Bench(folder, cache)
    output = folder / "out.json"
    options = ["--benchmark-save=mine", "--benchmark-save-data", f"--benchmark-json={output}"]
    first = bench.run(
        "--model", tiny_models[0], *options, *bench.plugin("modules", _MODULES), "-k", _CHOSEN
    )
    (path,) = bench.storage.glob("*/*.json")
    modules = json.loads((folder / "modules.json").read_text())
    models = repeated("--model", tiny_models)
    chosen = [
        "-k",
        f"{_NO_REUSE} or partial_dup",
        "--benchmark-compare",
        "--benchmark-group-by=param:scenario",
    ]
    full = bench.plugin("full", _FULL_DISK.format(is_full="writes <= 2"))
    second = _run_on_terminal(bench, *models, *chosen, *full, "--repeats=2")
    return Whole(
        first, json.loads(output.read_text()), json.loads(path.read_text()), modules, second
    )


def _run_on_terminal(bench: Bench, *arguments: str) -> Done:
    ours, theirs = pty.openpty()
    process = bench.start(*arguments, stdout=theirs, stderr=theirs)
    os.close(theirs)
    words = b""
    while select.select([ours], [], [], BENCH_LIMIT_S)[0]:
        try:
            words += os.read(ours, 4096)
        except OSError:  # the last process of the terminal has ended
            break
    os.close(ours)
    return bench.finish(process, words)


def test_everything_is_measured_and_stored(whole: Whole) -> None:
    """The exit code is 0, and one file has a result for each scenario, in the order of the list,
    and the machine.
    """
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
        application = info.memory.application_memory_bytes[0]
        baseline = info.memory.baseline_memory_bytes[0]
        assert (application or 0) > (baseline or 0) > 0
    # These plans are equal for one model, and measured once.
    equal = {info.scenario: info.repeats for info in infos if info.measured_as}
    assert equal == dict.fromkeys(("no_reuse_one_model", "runtime_memory"), infos[0].repeats)
    assert len(list((whole.first.storage / "traces" / infos[0].run).iterdir())) == len(infos) - len(
        equal
    )


def test_what_the_runtime_lacks_is_stored_too(whole: Whole) -> None:
    """A missing mechanism is skipped and stored; a question without models is skipped with the
    reason.
    """
    (entry,) = whole.saved[WITHOUT_SPEED]
    assert (entry["name"], entry["group"]) == (
        "test_external_memory[onnxruntime-external_internal]",
        "external_memory",
    )
    info = whole.first.runs()[0].results[-1].info
    assert info.outcome == "not_supported"
    assert "7 passed, 9 skipped" in whole.first.words
    for words in (
        str(known(info.failure).message),
        (
            "onnxruntime: --model is given without --resolution: weights are shared between"
            " resolutions"
        ),
        (
            "onnxruntime: --model is given, and this scenario needs the built-in network that takes"
            " and returns a camera"
        ),
    ):
        assert words in whole.first.words


def test_outputs_are_equal_whatever_is_reused(whole: Whole) -> None:
    """One model that serves two streams has one digest of its outputs in all scenarios."""
    digests: set[str] = set()
    for stored in whole.first.runs()[0].results[:-1]:
        info = stored.info
        assert (info.model_files, len(info.models)) == (1, 1)
        assert [context.stream for context in info.plan.contexts] == [0, 0, 1, 1]
        digests.update(*info.output_digests.values())
    assert len(digests) == 1


def test_latencies_are_those_of_the_measured_process(whole: Whole) -> None:
    """pytest-benchmark's data and statistics are those of the reported times to the last bit, not
    of the harness.
    """
    for entry in whole.saved["benchmarks"]:
        latencies_ns: list[int] = []
        for repeat in entry["extra_info"]["repeats"]:
            trace = known(read_trace(whole.first.storage, repeat["trace"], Trace))
            for reading in trace.barriers:
                latencies_ns += itertools.chain(*reading.data.latencies_ns)
        seconds = [ns / 1e9 for ns in latencies_ns]
        stats = entry["stats"]
        assert stats["data"] == seconds
        assert (stats["min"], stats["max"], stats["rounds"]) == (
            min(seconds),
            max(seconds),
            2 * 2 * 2,
        )
        assert stats["median"] == pytest.approx(statistics.median(seconds))


def test_the_options_of_pytest_benchmark_work(whole: Whole) -> None:
    """Runs have a name, raw data, a JSON elsewhere, a comparison with the last run, and groups."""
    names = [run.path.name[:5] for run in whole.first.runs()]
    assert (names, whole.first.runs()[0].path.name) == (["0001_", "0002_"], "0001_mine.json")
    assert [entry["extra_info"]["scenario"] for entry in whole.json["benchmarks"]] == [
        *_NAMES,
        "runtime_memory",
    ]
    assert {entry["group"] for entry in whole.saved["benchmarks"]} == {"dup", "external_memory"}
    assert "benchmark '" not in whole.first.words
    assert "Comparing against benchmarks from:" in whole.second.words
    assert "(0001_mine)" in whole.second.words
    for name in ("no_reuse", "partial_dup"):
        assert re.search(rf"benchmark 'scenario={name}': \d tests", whole.second.words)


def test_two_models_for_two_streams(whole: Whole) -> None:
    """Each stream has its own model, and each model its own outputs."""
    assert whole.second.code == 0, whole.second.words
    infos = [stored.info for stored in whole.second.runs()[1].results]
    assert [info.scenario for info in infos] == ["no_reuse", "partial_dup"]
    for info in infos:
        assert info.model_files == len(info.models) == 2
        assert [context.model for context in info.plan.contexts] == [0, 0, 1, 1]
        assert len(set().union(*info.output_digests.values())) == 2
    assert infos[0].output_digests == infos[1].output_digests


def test_the_harness_maps_nothing_of_the_runtime(whole: Whole) -> None:
    """The process that reads memory has measured all scenarios without the imports that would add
    to memory.
    """
    packages = {name.partition(".")[0] for name in whole.modules}
    assert not packages & {"numpy", "onnx", "onnxruntime", "pandas", "matplotlib"}
    assert "reusebench.harness.session" in whole.modules


def test_only_a_terminal_shows_progress(whole: Whole) -> None:
    """Configuration, repeat and step are on a line that is erased; the end names the results and
    the next command.
    """
    shown = whole.second.words
    expected = (
        "onnxruntime  Partial dup ",
        "preparing",
        "repeat 1/2",
        "repeat 2/2",
        "first inference 4",
        "s left",
    )
    assert [part for part in expected if part not in shown] == []
    # A line is written over the one before: a new line of the terminal only begins with pytest's
    # own words.
    assert all("\n" not in line.rstrip() for line in shown.split("\r") if "repeat 1/2" in line)
    assert [part for part in ("\r", "\x1b", "repeat 1/1") if part in whole.first.words] == []
    assert f"reusebench report --storage {whole.first.storage}" in whole.first.words


def test_each_result_has_a_line(whole: Whole) -> None:
    """A configuration has a line with its memory and saving, or the reason why it has none, even
    without a terminal.

    There are no dots. The end names scenarios that are equal to another and have no line.
    """
    lines = _lines(whole.first.words)
    equal = ["no_reuse_one_model", "runtime_memory"]
    assert [name for name in lines if name in (*_NAMES, *equal)] == [
        name for name in _NAMES if name not in equal
    ]
    names = "; ".join(f"{title_of(name)} (as No reuse)" for name in equal)
    assert f"Equal to others, and measured once: {names}\n" in whole.first.words
    memory = r"[\d.]+ MiB"
    assert re.fullmatch(rf"{memory}, [\d.]+ ms", lines["no_reuse"])
    assert re.match(
        rf"{memory}, .*(less|more) than No reuse,|{memory}, as much as No reuse,",
        lines["shared_context"],
    )
    assert lines["external_internal"].startswith(
        "not supported: ONNX Runtime's Python API takes no allocator"
    )
    assert lines["resolutions_2"].startswith("skipped: --model is given without --resolution")
    assert lines["resolutions_3"] == "skipped, as above"
    assert re.search(
        r"^SKIPPED \[\d\] .*--model is given without --resolution", whole.first.words, re.MULTILINE
    )
    assert not re.search(r"^bench/test_\w+\.py", whole.first.words, re.MULTILINE)


def _lines(words: str) -> dict[str, str]:
    """Return the text of each line of a configuration, by the scenario."""
    lines = {}
    for scenario in SCENARIOS:
        line = rf"^onnxruntime  {re.escape(title_of(scenario.name))}  +(\S.*)$"
        found = re.search(line, words, re.MULTILINE)
        if found:
            lines[scenario.name] = found[1]
    return lines


# Failures


def test_a_disk_that_is_full_for_a_while(whole: Whole) -> None:
    """There is one warning, the measurement goes on, and the run is whole in the end."""
    assert whole.second.code == 0, whole.second.words
    assert whole.second.words.count("(No space left on device): the measurement goes on") == 1
    assert whole.second.runs()[1].is_finished


def test_a_run_that_the_storage_does_not_take(bench: Bench, on_double: tuple[str, ...]) -> None:
    """The run is written elsewhere, with the reason and the path; results are shown, and the code
    is 1.
    """
    full = bench.plugin("full", _FULL_DISK.format(is_full="True"))
    done = bench.run(
        *on_double, "-k", f"no_reuse_one_model or {_FULL_DUP}", "--benchmark-save=mine", *full
    )
    assert done.code == 1, done.words
    assert done.words.count("(No space left on device): the measurement goes on") == 1
    assert re.search(
        r"no_reuse_one_model-1.json.gz cannot be written \(No space left on device\)", done.words
    )
    assert "Traceback" not in done.words
    assert re.search(r"rknn         Full dup +[\d.]+ MiB NPU memory, ", done.words)
    saved = known(
        re.search(r"The run is in (\S+)\. When there is room, move it to (\S+)/", done.words)
    )
    path = Path(saved[1])
    assert saved[2] == str(bench.storage)
    assert path.name == "0001_mine.json"
    run = read_run_file(path)
    assert isinstance(run, StoredRun)
    assert len(run.results) == 2
    assert done.runs() == []
    shutil.rmtree(path.parent.parent)


def test_a_run_that_nothing_takes(bench: Bench, on_double: tuple[str, ...]) -> None:
    """If temporary files cannot be written either, the user is told; results are shown, and the
    code is 1.
    """
    full = bench.plugin("full", _FULL_DISK.format(is_full="True"))
    nowhere = bench.plugin(
        "nowhere", "import tempfile\ntempfile.mkdtemp = lambda **_: open('/missing/folder')\n"
    )
    done = bench.run(*on_double, "-k", "no_reuse_one_model", *full, *nowhere)
    assert (done.code, done.runs()) == (1, []), done.words
    end = r"nor can temporary files \(No such file or directory\)\. Nothing of this run is stored"
    assert re.search(end, done.words)
    assert re.search(r"rknn         No reuse, one model +[\d.]+ MiB NPU memory, ", done.words)
    assert "Traceback" not in done.words


def test_a_cpu_has_no_limit_to_fill(whole: Whole, bench: Bench, tiny_model: Path) -> None:
    """Alone the question is refused in a sentence; among others it is skipped, and they are
    measured.
    """
    alone = bench.run("--model", tiny_model, "bench/test_limit.py", "-k", "limit_full_dup")
    assert (alone.code, alone.runs()) == (4, [])
    assert "limited by the system's memory" in alone.words
    assert whole.first.code == 0, whole.first.words
    assert re.search(
        "onnxruntime  Until one fails: lean +skipped: .*limited by the system's memory",
        whole.first.words,
    )


def test_failures_are_rows(bench: Bench, on_double: tuple[str, ...]) -> None:
    """A killed process and a missing mechanism spoil only their own configurations.

    The others are measured, a failure makes the exit code 1, and a missing mechanism is skipped.
    """
    chosen = ("bench/test_dup.py", "-k", "no_reuse_one_model or full_dup or shared_context")
    done = bench.run(*on_double, *bench.plugin("kills", _KILLS), *chosen)
    assert done.code == 1, done.words
    failures = {}
    for name, info in done.results().items():
        failures[name] = info.failure and (
            info.failure.kind,
            info.failure.phase,
            info.failure.context,
        )
    assert failures == {
        "no_reuse_one_model": None,
        "full_dup": ("crashed", "steady", None),
        "shared_context": ("not_supported", "context", 1),
        "full_dup_internal_reuse": None,
    }
    failure = known(done.results()["full_dup"].failure)
    assert failure.message == Message("process_ended_by_signal", {"signal": "SIGKILL"})
    for words in (
        "crashed in phase 'steady'",
        "another thread needs a dup",
        "1 failed, 2 passed, 1 skipped",
    ):
        assert words in done.words
    assert "Traceback" not in done.words
    assert "Nothing was measured" not in done.words


def test_a_model_that_cannot_be_read(bench: Bench, tiny_model: Path) -> None:
    """The file is named before anything is measured; other models are measured, and the exit code
    is 1.
    """
    damaged = bench.folder / "damaged.onnx"
    damaged.write_bytes(tiny_model.read_bytes()[:-2000])
    alone = bench.run("--model", damaged, "-k", _FULL_DUP)
    assert alone.code == 4
    assert alone.words.count("--model damaged.onnx cannot be loaded") == 1
    beside = bench.run(
        "--model", tiny_model, *["--resolution", damaged] * 3, "-k", f"{_FULL_DUP} or resolutions_2"
    )
    assert beside.code == 1
    assert beside.outcomes() == {"full_dup": "ok"}
    assert "Not all was measured. --resolution damaged.onnx cannot be loaded" in beside.words


def test_a_session_that_measures_nothing_fails(bench: Bench, on_double: tuple[str, ...]) -> None:
    """If every mechanism is missing, the exit code is 1, and each reason stands once in one
    sentence.
    """
    done = bench.run(*on_double, "-k", "shared_context or cuda_copied_io or cuda_device_io")
    assert done.code == 1
    assert set(done.outcomes().values()) == {"not_supported"}
    assert len(done.outcomes()) == 3
    (line,) = [line for line in done.words.splitlines() if "Nothing was measured" in line]
    assert (line.count("another thread needs a dup"), line.count("not on cuda")) == (1, 1)


def test_what_was_assumed_is_shown_and_stored(bench: Bench) -> None:
    """A model of free sizes is measured with usual ones that run; the terminal and the result name
    them.
    """
    free = bench.folder / "free.onnx"
    tensors = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 3, "h", "w"])
        for name in "xy"
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])], "free", tensors[:1], tensors[1:]
    )
    onnx.save(
        onnx.helper.make_model(
            graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
        ),
        str(free),
    )
    done = bench.run("--model", free, "-k", f"{_NO_REUSE}")
    assert done.code == 0, done.words
    assert "assumed for free.onnx: --shape x=1x3x640x640" in done.words
    (result,) = done.results().values()
    (model,) = result.plan.models
    assert model.name == "free 1x3x640x640"
    assert [(tensor.shape, tensor.assumed) for tensor in model.inputs] == [
        ((1, 3, 640, 640), (0, 2, 3))
    ]


def test_a_hang_ends_at_the_time_limit_of_the_option(bench: Bench) -> None:
    """A limit that is too short for a start ends the process; its row is stored even if there is no
    other.
    """
    plan = bench.folder / "mine.toml"
    plan.write_text(
        "[models]\nm = { network = 'tiny', size = 64, seed = 1 }\n[contexts]\na = { model = 'm' }"
    )
    done = bench.run("--plan", plan, "-k", "not no_reuse", "--time-limit=0.01")
    assert done.code == 1, done.words
    assert "time limit of 0.01 s (--time-limit)" in done.words
    assert done.outcomes() == {"mine": "hung"}
    assert done.runs()[0].is_finished


# Sessions that end early


def test_an_interrupted_run_keeps_what_was_measured(
    bench: Bench, tiny_model: Path, cache: Path
) -> None:
    """After Ctrl-C the finished configurations, and the streams that were kept, are a finished run;
    no process is left.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        clip = ensure_clip(Clip(320, 180, fps=30, seconds=0.5))
    chosen = "no_reuse_one_model and not streams or -streams_full_dup]"
    options = ["--video", clip, "--duration=599", *bench.plugin("ctrl_c", _INTERRUPTS)]
    done = bench.run("--model", tiny_model, "-k", chosen, *options)
    assert done.code == pytest.ExitCode.INTERRUPTED, done.words
    assert done.outcomes() == {"no_reuse_one_model": "ok", "streams_full_dup": "cut_off"}
    assert done.runs()[0].is_finished
    assert not psutil.pid_exists(int((bench.folder / "pid").read_text()))


def test_a_session_that_is_killed_leaves_what_it_measured(
    bench: Bench, tiny_model: Path, reusebench: Reusebench
) -> None:
    """After a kill, as by a power cut, the run has every finished configuration, and all commands
    can read it.
    """
    process = bench.start("--model", tiny_model, "-v", "-k", "test_dup")
    stored = wait_for(lambda: [run for run in stored_runs(bench.storage) if len(run.results) >= 2])
    process.kill()
    words = bench.finish(process).words
    (run,) = stored_runs(bench.storage)
    names = [result.info.scenario for result in run.results]
    assert run.path == stored[0].path
    assert not run.is_finished
    assert words.count("PASSED") <= len(names) < len(_NAMES)
    # The lines were not held back, since somebody may read the log while it is written.
    assert re.search(r"^onnxruntime  No reuse +[\d.]+ MiB,", words, re.MULTILINE)
    assert names == _NAMES[: len(names)]
    assert {result.info.outcome for result in run.results} == {"ok"}
    listed = reusebench("runs", "list", "--storage", bench.storage)
    assert (listed.exit_code, "(unfinished)" in listed.out) == (0, True)
    output = bench.folder / "out"
    report = reusebench("report", "--storage", bench.storage, "--output", output, "--format", "csv")
    assert (report.exit_code, report.err) == (0, "")
    assert "partial_dup" in (output / "tables" / "comparison.csv").read_text()


# Mistakes of the user


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--model", "{model}", "--benchmark-storage=file://{model}/storage"],
            "the storage {model}/storage cannot be written (Not a directory). Choose another",
        ),
        (
            ["--benchmark-storage=nothing://x"],
            "results and traces need a folder; valid: file://PATH or a path",
        ),
        (
            ["--runtime=onnxruntime", "--runtime=rknn", "--model", "{model}"],
            "rknn: --model {model} is not converted: a .rknn file is made for one chip",
        ),
        (
            ["--target=python", "-p", "hidden"],
            "no runtime is installed for this Python. `reusebench doctor` says what to install",
        ),
    ],
)
def test_mistakes_of_a_user(
    bench: Bench,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    """Mistakes end with pytest's own exit code and a message, without a traceback, and nothing is
    measured.
    """
    monkeypatch.setenv("REUSEBENCH_RKNN_LIBRARY", str(bench.folder / "librknnrt.so"))
    bench.plugin("hidden", _NO_RUNTIME)
    # An empty cache has no environment of a runtime.
    done = bench.run(
        *(argument.format(model=tiny_model) for argument in arguments), cache=bench.folder
    )
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.words
    assert words.format(model=tiny_model) in done.words
    for part in ("Traceback", "INTERNALERROR", "conftest.py"):
        assert part not in done.words
    assert done.runs() == []


def test_a_dry_run_of_all_installed_runtimes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    """A question without models is skipped with the reason; with --benchmark-disable all run and
    nothing is stored.
    """
    monkeypatch.setenv("REUSEBENCH_RKNN_LIBRARY", str(bench.folder / "librknnrt.so"))
    chosen = (
        "--target=python",
        "-k",
        "shared_context and (onnxruntime or rknn)",
        "--benchmark-disable",
    )
    done = bench.run("--model", tiny_model, *chosen, cache=bench.folder)
    assert done.code == 0, done.words
    assert "1 passed, 1 skipped" in done.words
    assert (
        f"rknn: --model {tiny_model} is not converted: a .rknn file is made for one chip"
        in done.words
    )
    assert done.runs() == []
