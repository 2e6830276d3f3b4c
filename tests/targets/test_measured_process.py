"""The barrier protocol with a real process, and every way in which a process can fail."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from samplers.observer import Observer
from scenarios.plan import Plan, Step
from targets.base import THIS_INTERPRETER, Target
from targets.measured_process import prepare_models
from targets.outcome import OUTCOMES, Failure
from tests.scripted_driver import ACCOUNT
from tests.support import CHECKOUT, SCRIPTED, TIME_LIMIT_S, Deaf, Watcher, make_plan, walk

#: Long enough for a process to start on a busy machine, short enough to wait for.
_SHORT_LIMIT_S = 1.5


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Hold that no test leaves a child, a zombie or an open file of the harness behind."""
    gc.collect()
    files, children = _own_files(), set(psutil.Process().children(recursive=True))
    yield
    gc.collect()
    # What was there before and has gone since is another test's.
    assert _own_files() - files == Counter()
    assert set(psutil.Process().children(recursive=True)) - children == set()


def _own_files() -> Counter[str]:
    """Return what the open file descriptors of this process are, without pytest's own that come and go."""
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(str(link.readlink()))
    return Counter(target for target in targets if "/proc/" not in target)


def _is_gone(pid: int) -> bool:
    """Whether the process ends soon; an orphan that init has not waited for yet counts as ended."""
    until = time.monotonic() + TIME_LIMIT_S
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
    return True


def _phases(run: Any) -> list[Step]:
    return [Step(each["phase"], each["context"]) for each in run.phases]


def _script(tmp_path: Path, body: str) -> Target:
    """Return a target whose process is this script; it can `send` a message and `read` the next line."""
    path = tmp_path / "script.py"
    opening = "import json, os, signal, sys, time\n"
    opening += "read = lambda: sys.stdin.readline().strip()\n"
    opening += "send = lambda **fields: print(json.dumps(fields), flush=True)\n"
    opening += "def barrier(phase, context=None, **data):\n"
    opening += "    send(event='barrier', phase=phase, context=context, at_ns=time.monotonic_ns(), data=data)\n"
    path.write_text(opening + body)
    return Target("script", (sys.executable, str(path)))


# The order of things


def test_barriers_stand_in_the_order_of_the_steps() -> None:
    """There is one record per step, and one more for the trim after the steady phase."""
    plan = make_plan("full_dup", "plain", contexts=3)
    run = walk(plan)
    assert run.failure is None
    steps = list(plan.steps())
    steps.insert(steps.index(Step("steady")) + 1, Step("trimmed"))
    assert _phases(run) == steps
    times = [each["at_ns"] for each in run.phases]
    assert times == sorted(times)
    assert run.elapsed_s >= (times[-1] - times[0]) / 1e9


def test_each_barrier_tells_what_its_step_gave() -> None:
    """Versions, load times, latencies, digests and the runtime's own account arrive in the harness."""
    plan = make_plan("full_dup", "plain", contexts=2)
    data = {Step(each["phase"], each["context"]): each["data"] for each in walk(plan).phases}
    versions = {"runtime_version": "1.2.3", "driver_version": None}
    assert data[Step("imported")] == {**versions, "python_version": sys.version.split()[0]}
    assert data[Step("context", 1)]["load_ns"] > 0
    assert data[Step("context", 1)]["account"] == ACCOUNT
    first, steady = data[Step("first_inference", 0)], data[Step("steady")]
    assert first["latency_ns"] > 0
    assert steady["digests"] == [first["digest"]] * 2
    assert [len(each) for each in steady["latencies_ns"]] == [plan.rounds] * 2
    assert steady["elapsed_ns"] >= max(sum(each) for each in steady["latencies_ns"]) / plan.cores


def test_every_step_is_announced_before_it_begins() -> None:
    """Whoever shows progress knows what is under way, also when it fails."""
    plan = make_plan("full_dup", "raise@infer0", contexts=2)
    announced: list[Step] = []

    class Announced(Deaf):
        def step(self, step: Step) -> None:
            announced.append(step)

    walk(plan, listener=Announced())
    assert announced == list(plan.steps())[:4]


def test_the_process_stands_still_while_it_is_read(tmp_path: Path) -> None:
    """At a barrier exactly the steps before it are done, however long the reading takes."""
    log = tmp_path / "log"
    log.touch()

    def look(_: int) -> tuple[list[str], list[str]]:
        before = log.read_text().splitlines()
        time.sleep(0.05)
        return before, log.read_text().splitlines()

    plan = make_plan("full_dup", f"log={log}", contexts=2)
    run = walk(plan, observer=Watcher(look))
    done, known = {}, 0
    for each in run.phases:
        before, after = each["seen"]
        assert before == after
        done[each["phase"], each["context"]] = before[known:]
        known = len(before)
    rounds = sorted(["infer0", "infer1"] * plan.rounds)
    assert sorted(done["steady", None]) == [*rounds, "outputs2", "outputs3"]
    firsts = {place: set(lines) for place, lines in done.items() if place[0] == "first_inference"}
    assert firsts == {("first_inference", 0): {"infer0", "outputs0"}, ("first_inference", 1): {"infer1", "outputs1"}}
    others = {place: lines for place, lines in done.items() if place[0] not in ("first_inference", "steady")}
    assert others == {
        ("imported", None): [],
        ("context", 0): ["load0"],
        ("context", 1): ["dup0"],
        ("trimmed", None): [],
        ("destroy", 1): ["destroy0"],
        ("destroy", 0): ["destroy1"],
    }


def test_trimming_disturbs_nothing_that_is_read_as_allocated(tmp_path: Path) -> None:
    """The process is told to trim only after the steady reading; all that is read later is marked."""
    log = tmp_path / "commands"
    plan = make_plan("no_reuse", "plain", contexts=1)
    target = _script(
        tmp_path,
        f"""
def heard():
    line = read()
    with open({str(log)!r}, "a") as log:
        log.write(line[:6] + " ")
    return line
heard()
for phase, context in (("imported", None), ("context", 0), ("first_inference", 0), ("steady", None), ("destroy", 0)):
    barrier(phase, context, latency_ns=1)
    while heard() == "trim":
        barrier("trimmed", trimmed=True)
""",
    )
    run = walk(plan, target, Watcher(lambda _: log.read_text().split()))
    seen = [(each["phase"], each["seen"].count("trim"), each["malloc_trimmed"]) for each in run.phases]
    assert seen == [
        ("imported", 0, False),
        ("context", 0, False),
        ("first_inference", 0, False),
        ("steady", 0, False),
        ("trimmed", 1, True),
        ("destroy", 1, True),
    ]


def test_a_c_library_without_trim_is_not_marked(tmp_path: Path) -> None:
    """Where nothing was trimmed the records say so."""
    target = _script(
        tmp_path,
        """
read()
for phase, context in (("imported", None), ("context", 0), ("first_inference", 0), ("steady", None), ("destroy", 0)):
    barrier(phase, context, latency_ns=1)
    while read() == "trim":
        barrier("trimmed", trimmed=False)
""",
    )
    run = walk(make_plan("no_reuse", "plain", contexts=1), target)
    assert [each["malloc_trimmed"] for each in run.phases] == [False] * 6


def test_the_driver_trims_a_real_heap() -> None:
    """The driver's own answer on this C library is a boolean, and marks what follows."""
    run = walk(make_plan("no_reuse", "plain", contexts=1))
    trimmed = next(each for each in run.phases if each["phase"] == "trimmed")["data"]["trimmed"]
    assert [each["malloc_trimmed"] for each in run.phases] == [False] * 4 + [trimmed] * 2


def test_the_command_is_the_plan(tmp_path: Path) -> None:
    """The first line that a process reads is the plan as JSON, and names the runtime."""
    plan = make_plan("full_dup", "plain", contexts=2)
    received = tmp_path / "received"
    walk(plan, _script(tmp_path, f"open({str(received)!r}, 'w').write(read())"))
    command = json.loads(received.read_text())
    assert (command["command"], command["runtime"]) == ("run", "scripted")
    assert Plan.from_json(command["plan"]) == plan


def test_a_target_has_its_own_environment_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it names is added to the harness's environment, or stands in its place; the process runs in its folder."""
    monkeypatch.setenv("REUSEBENCH_TEST_KEPT", "kept")
    monkeypatch.setenv("REUSEBENCH_TEST_CHANGED", "before")
    names = ("REUSEBENCH_TEST_KEPT", "REUSEBENCH_TEST_CHANGED", "REUSEBENCH_TEST_ADDED")
    target = _script(
        tmp_path, f"read(); barrier('imported', seen=[os.environ[name] for name in {names}], at=os.getcwd())"
    )
    environment = {"REUSEBENCH_TEST_CHANGED": "after", "REUSEBENCH_TEST_ADDED": "added"}
    run = walk(make_plan("no_reuse", "plain"), replace(target, environment=environment, folder=tmp_path))
    assert run.phases[0]["data"] == {"seen": ["kept", "after", "added"], "at": str(tmp_path)}
    assert "REUSEBENCH_TEST_ADDED" not in os.environ


def test_the_observer_is_attached_for_as_long_as_the_process_lives() -> None:
    """It samples while a step is under way, and is detached also when the process fails."""
    for script in ("plain", "raise@infer0"):
        watcher = Watcher(lambda pid: Path(f"/proc/{pid}").exists())
        run = walk(make_plan("full_dup", script), observer=watcher)
        assert all(each["seen"] for each in run.phases)
        assert watcher.samples >= len(run.phases) - 1
        assert not watcher.attached


def test_what_a_runtime_prints_does_not_reach_the_protocol() -> None:
    """A runtime that writes to standard output is heard in the last words, and the walk goes on."""
    run = walk(make_plan("full_dup", "print@load0;print@infer0;raise@infer1"))
    assert run.failure is not None
    assert (run.failure.phase, run.failure.context) == ("first_inference", 1)
    assert run.failure.last_words.count("printed by the runtime") >= 2
    assert "written by the runtime" in run.failure.last_words


# Failures

_FAILURES = [
    ("raise@load0", "failed", ("context", 0), "RuntimeError: the script says so"),
    ("raise@dup0", "failed", ("context", 1), "RuntimeError: the script says so"),
    ("raise@infer1", "failed", ("first_inference", 1), "RuntimeError: the script says so"),
    ("raise@outputs2", "failed", ("steady", None), "RuntimeError: the script says so"),
    ("raise@destroy0", "failed", ("destroy", 1), "RuntimeError: the script says so"),
    ("memory@load0", "out_of_memory", ("context", 0), "MemoryError: the script says so"),
    ("memory@infer0", "out_of_memory", ("first_inference", 0), "MemoryError: the script says so"),
    ("not_supported@dup0", "not_supported", ("context", 1), "the script says so"),
    ("signal9@infer1", "crashed", ("first_inference", 1), "the process was ended by SIGKILL"),
    ("signal11@load0", "crashed", ("context", 0), "the process was ended by SIGSEGV"),
    ("abort@outputs3", "crashed", ("steady", None), "the process was ended by SIGABRT"),
    ("abort@destroy1", "crashed", ("destroy", 0), "the process was ended by SIGABRT"),
    ("exit3@dup0", "crashed", ("context", 1), "the process ended with exit code 3 before the plan was done"),
    ("exit0@dup0", "crashed", ("context", 1), "the process ended with exit code 0 before the plan was done"),
]


@pytest.mark.parametrize(("script", "kind", "place", "message"), _FAILURES)
def test_a_failure_is_a_result(script: str, kind: str, place: tuple[str, int | None], message: str) -> None:
    """Its kind, its place and its sentence are told, and the records before it are kept."""
    plan = make_plan("full_dup", script)
    watcher = Watcher()
    run = walk(plan, observer=watcher)
    assert run.failure is not None
    assert kind in OUTCOMES
    assert (run.failure.kind, str(run.failure.message)) == (kind, message)
    assert (run.failure.phase, run.failure.context) == place
    done = list(plan.steps())[: list(plan.steps()).index(Step(*place))]
    assert [step for step in _phases(run) if step.phase != "trimmed"] == done
    assert _is_gone(watcher.pid)


def test_last_words_are_the_end_of_standard_error(tmp_path: Path) -> None:
    """Of much that was written the end is kept, without colours, and broken characters do not matter."""
    body = "sys.stderr.buffer.write(b'\\x1b[1;31mfirst\\x1b[m ' + b'.' * 100_000 + b' \\xff \\x1b[31mlast\\x1b[0m\\n')"
    run = walk(make_plan("full_dup", "plain"), _script(tmp_path, body))
    assert run.failure is not None
    assert run.failure.last_words.endswith(". \ufffd last")
    assert len(run.failure.last_words) < 5000


def test_an_abort_keeps_its_words() -> None:
    """What a C++ runtime says before it aborts is often the only explanation."""
    run = walk(make_plan("full_dup", "abort@load0"))
    assert run.failure is not None
    assert run.failure.last_words.startswith("terminate called")


@pytest.mark.parametrize(("script", "place"), [("hang@dup0", ("context", 1)), ("hang@infer0", ("first_inference", 0))])
def test_a_hang_ends_at_the_time_limit(script: str, place: tuple[str, int]) -> None:
    """The process is ended, and the sentence names the option."""
    watcher = Watcher()
    run = walk(make_plan("full_dup", script), observer=watcher, time_limit_s=_SHORT_LIMIT_S)
    assert run.failure is not None
    assert (run.failure.kind, run.failure.phase, run.failure.context) == ("hung", *place)
    assert "time limit of 1.5 s (--time-limit)" in str(run.failure.message)
    assert _is_gone(watcher.pid)


def test_rounds_that_take_long_are_no_hang(tmp_path: Path) -> None:
    """The steady phase has as much more time as its rounds need by what the first inferences took."""
    target = _script(
        tmp_path,
        """
read()
for phase, context in (("imported", None), ("context", 0), ("first_inference", 0), ("steady", None), ("destroy", 0)):
    time.sleep(1.5 if phase == "steady" else 0)
    barrier(phase, context, latency_ns=400_000_000)
    while read() == "trim":
        barrier("trimmed", trimmed=True)
""",
    )
    plan = make_plan("no_reuse", "plain", contexts=1)
    assert walk(plan, target, time_limit_s=1.2).failure is None


def test_children_of_the_process_go_with_it(tmp_path: Path) -> None:
    """What a runtime has started in the background does not outlive the measurement."""
    log = tmp_path / "log"
    for script, kind in (("", "ok"), ("exit3@infer0", "crashed"), ("hang@infer0", "hung")):
        plan = make_plan("no_reuse", f"log={log};spawn@load0;{script}", contexts=1)
        run = walk(plan, time_limit_s=_SHORT_LIMIT_S if kind == "hung" else TIME_LIMIT_S)
        assert (run.failure.kind if run.failure else "ok") == kind
    children = [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("child")]
    assert len(children) == 3
    assert [_is_gone(child) for child in children] == [True] * 3


#: All fields of a failure, and a message without values.
_HALF_A_FAILURE = '{"event": "failure", "phase": "steady", "context": 0, "kind": "failed", "message": {"code": "x"}}'


@pytest.mark.parametrize(
    "garbage", ["Segmentation fault", "{}", "[1]", '{"event": "failure"}', _HALF_A_FAILURE, "\\xff"]
)
def test_a_process_that_talks_nonsense_has_failed(tmp_path: Path, garbage: str) -> None:
    """A line that is not of the protocol is quoted, and is no traceback in the harness."""
    body = f"read(); barrier('imported'); read(); os.write(1, b'''{garbage}\\n'''); read()"
    run = walk(make_plan("full_dup", "plain"), _script(tmp_path, body))
    assert run.failure is not None
    assert (run.failure.kind, run.failure.phase, run.failure.context) == ("failed", "context", 0)
    assert "no message of the protocol" in str(run.failure.message)
    assert garbage.strip("\\xf") in str(run.failure.message)


def test_a_process_that_leaves_in_the_middle_of_a_message_has_crashed(tmp_path: Path) -> None:
    """Half a line is not taken for a message."""
    run = walk(make_plan("full_dup", "plain"), _script(tmp_path, "read(); sys.stdout.write('{\"event\"'); sys.exit(4)"))
    assert run.failure is not None
    assert (run.failure.kind, run.failure.phase) == ("crashed", "imported")
    assert "exit code 4" in str(run.failure.message)


def test_a_process_that_does_not_leave_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has closed its pipe and stays is ended after a while, and the harness goes on."""
    monkeypatch.setattr("targets.measured_process._LEAVE_S", 0.1)
    run = walk(make_plan("full_dup", "plain"), _script(tmp_path, "os.close(1); time.sleep(600)"))
    assert run.failure is not None
    assert (run.failure.kind, str(run.failure.message)) == ("crashed", "the process was ended by SIGKILL")


def test_a_process_killed_while_it_is_read_is_a_result() -> None:
    """The kernel, or a user, may end a process that stands at a barrier: its record cannot be read any more."""

    class Killer(Observer):
        readings = 0

        def snapshot(self) -> dict[str, Any]:
            self.readings += 1
            if self.readings == 3:
                os.kill(self.pid, signal.SIGKILL)
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            return super().snapshot()

    run = walk(make_plan("full_dup", "plain"), observer=Killer(sample_hz=100))
    assert run.failure is not None
    assert (run.failure.kind, str(run.failure.message)) == ("crashed", "the process was ended by SIGKILL")
    assert _phases(run) == [Step("imported"), Step("context", 0)]
    assert (run.failure.phase, run.failure.context) == ("context", 1)


def test_an_allocation_that_fails_is_out_of_memory(mobile_model: Path) -> None:
    """A real process whose address space is full says so in words, whichever allocation fails first."""

    def limit(pid: int) -> None:
        size = psutil.Process(pid).memory_info().vms
        # Once the runtime is imported there is room for a thread's stack and no model.
        resource.prlimit(pid, resource.RLIMIT_AS, (size + (12 << 20), resource.RLIM_INFINITY))

    plan = make_plan("no_reuse", mobile_model, contexts=4, runtime="onnxruntime")
    run = walk(plan, THIS_INTERPRETER, Watcher(limit))
    assert run.failure is not None
    assert run.failure.kind == "out_of_memory", run.failure
    assert run.failure.message


def test_interrupting_the_harness_ends_the_process() -> None:
    """Ctrl-C is not swallowed, and leaves no process behind."""
    pids = []

    def interrupt(pid: int) -> None:
        pids.append(pid)
        raise KeyboardInterrupt

    watcher = Watcher(interrupt)
    with pytest.raises(KeyboardInterrupt):
        walk(make_plan("full_dup", "plain"), observer=watcher)
    assert len(pids) == 1
    assert _is_gone(pids[0])
    assert not watcher.attached


@pytest.mark.parametrize("barriers", [1, 2])
def test_a_process_ends_when_the_harness_is_gone(barriers: int) -> None:
    """The driver does not wait at a barrier for a command that nobody will give."""
    command = {"command": "run", "runtime": "scripted", "plan": make_plan("full_dup", "plain").to_json()}
    commands = json.dumps(command) + "\n" + "go\n" * (barriers - 1)
    done = subprocess.run(
        SCRIPTED.command,
        cwd=CHECKOUT,
        input=commands,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert [json.loads(line)["phase"] for line in done.stdout.splitlines()] == ["imported", "context"][:barriers]


# Preparing


def test_only_models_whose_weights_are_shared_are_prepared(tmp_path: Path) -> None:
    """A plan without dups starts no process at all; of several models each is prepared once."""
    plain = make_plan("no_reuse", "abort@prepare0")
    assert prepare_models(SCRIPTED, plain, tmp_path, TIME_LIMIT_S) == plain
    logs = [f"log={tmp_path / name}" for name in "ab"]
    plan = prepare_models(SCRIPTED, make_plan("partial_dup", *logs, streams=3), tmp_path, TIME_LIMIT_S)
    assert isinstance(plan, Plan)
    assert [model.prepared for model in plan.models] == logs
    assert (tmp_path / "a").read_text() == "prepare0\n"
    assert (tmp_path / "b").read_text() == "prepare1\n"


def test_dups_use_what_was_prepared(tmp_path: Path) -> None:
    """The source of dups is loaded from the prepared file, a context without dups from the model."""
    log = tmp_path / "log"
    for scenario in ("full_dup", "shared_context"):
        plan = prepare_models(SCRIPTED, make_plan(scenario, f"log={log}"), tmp_path, TIME_LIMIT_S)
        assert isinstance(plan, Plan)
        assert walk(plan).failure is None
    words = [line for line in log.read_text().splitlines() if "load" in line or "dup" in line or "shared" in line]
    assert words == ["load_prepared0", "dup0", "load0", "shared_context0"]


def test_resolutions_that_share_weights_are_prepared(tmp_path: Path) -> None:
    """All models whose weights are shared are, and a context over another's weights is made after its master."""
    logs = [f"log={tmp_path / name}" for name in "ab"]
    plan = prepare_models(SCRIPTED, make_plan("shared_weights", *logs), tmp_path, TIME_LIMIT_S)
    assert isinstance(plan, Plan)
    assert [model.prepared for model in plan.models] == logs
    assert walk(plan).failure is None
    first, second = ((tmp_path / name).read_text().splitlines() for name in "ab")
    assert "load_prepared0" in first
    assert "share_weights0" in second


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("raise@prepare0", "failed", "RuntimeError: the script says so"),
        ("not_supported@prepare0", "not_supported", "the script says so"),
        ("abort@prepare0", "crashed", "the process was ended by SIGABRT"),
        ("hang@prepare0", "hung", "no answer within the time limit of 1.5 s (--time-limit)"),
    ],
)
def test_preparing_may_fail_too(tmp_path: Path, script: str, kind: str, message: str) -> None:
    """The failure is a result like any other, in a phase of its own."""
    limit_s = _SHORT_LIMIT_S if kind == "hung" else TIME_LIMIT_S
    failure = prepare_models(SCRIPTED, make_plan("full_dup", script), tmp_path, limit_s)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.phase, failure.context, str(failure.message)) == (kind, "prepare", None, message)
