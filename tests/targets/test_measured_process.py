"""The barrier protocol with a real process, and every way in which a process can fail."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import reusebench.targets.process
from reusebench.measured.failures import tells_of_memory
from reusebench.measured.messages import Message
from reusebench.measured.plan import DUP, SEQUENCE, Context, Conversation, Plan, Step
from reusebench.measured.runtimes.base import Preparation
from reusebench.samplers.host import LOCAL_HOST, Host, LocalHost
from reusebench.samplers.observer import Observer
from reusebench.samplers.readings import Reading
from reusebench.system.processes import watch_ends
from reusebench.targets.barriers import StepData
from reusebench.targets.machine import LocalMachine
from reusebench.targets.measured_process import (
    MeasuredRun,
    estimates_of,
    interface_of,
    prepare_models,
)
from reusebench.targets.outcome import OUTCOMES, Failure
from reusebench.targets.target import THIS_INTERPRETER, Target
from tests.helpers.scripted_driver import ACCOUNT
from tests.helpers.support import (
    CHECKOUT,
    SCRIPTED,
    TIME_LIMIT_S,
    StubListener,
    StubObserver,
    make_plan,
    models_of,
    prepared_plan,
    walk,
)
from tests.targets.clock import Clock

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left() -> Iterator[None]:
    """Check that the tests leave no child, no zombie and no open file of the harness behind."""
    gc.collect()
    watch_ends()  # which stays
    files = _own_files()
    children = set(psutil.Process().children(recursive=True))
    yield
    gc.collect()
    # Processes that were there before and have gone since belong to another test.
    assert _own_files() - files == Counter()
    assert set(psutil.Process().children(recursive=True)) - children == set()


def _own_files() -> Counter[str]:
    """Return the targets of this process's file descriptors, except those of pytest."""
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(str(link.readlink()))
    return Counter(target for target in targets if "/proc/" not in target)


def _is_gone(pid: int) -> bool:
    """Return whether the process ends soon; an unreaped orphan counts as ended."""
    end_s = time.monotonic() + TIME_LIMIT_S
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > end_s:
                return False
            time.sleep(0.01)
    return True


def _steps(run: MeasuredRun) -> list[Step]:
    return [Step(reading.phase, reading.context) for reading in run.barriers]


def _failure(run: MeasuredRun) -> Failure:
    assert run.failure is not None
    return run.failure


def _script(tmp_path: Path, body: str) -> Target:
    """Return a target whose process is this script, with helpers `send` and `read`."""
    path = tmp_path / "script.py"
    opening = "import json, os, signal, sys, time\n"
    opening += "read = lambda: sys.stdin.readline().strip()\n"
    opening += "send = lambda **fields: print(json.dumps(fields), flush=True)\n"
    opening += "late_ns = 0\n"
    opening += "def barrier(phase, context=None, **data):\n"
    opening += "    at_ns = time.monotonic_ns() + late_ns\n"
    opening += "    send(event='barrier', phase=phase, context=context, at_ns=at_ns, data=data)\n"
    path.write_text(opening + body)
    return Target("script", (sys.executable, str(path)), folder=tmp_path)


# The order of steps


class _Announced(StubListener):
    """A listener that keeps the announced steps."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def step(self, step: Step) -> None:
        """Keep the step."""
        self.steps.append(step)


def test_a_walk(tmp_path: Path) -> None:
    """A barrier with data ends every step; while memory is read the process does nothing."""
    log = tmp_path / "log"
    log.touch()

    def look(_: int) -> list[str]:
        before = log.read_text().splitlines()
        time.sleep(0.02)
        assert log.read_text().splitlines() == before
        return before

    plan = make_plan("full_dup", f"log={log}", contexts=2)
    observer = StubObserver(look)
    listener = _Announced()
    run = walk(plan, observer=observer, listener=listener)
    assert run.failure is None
    assert listener.steps == list(plan.steps())
    steps = list(plan.steps())
    steps.insert(steps.index(Step("steady")) + 1, Step("trimmed"))
    assert _steps(run) == steps
    times_ns = [reading.at_ns for reading in run.barriers]
    assert times_ns == sorted(times_ns)
    assert run.start_ns < times_ns[0]
    assert times_ns[-1] <= run.start_ns + run.elapsed_s * 1e9
    left_ns = [reading.left_ns or 0 for reading in run.barriers]
    assert all(at_ns < left < after for at_ns, left, after in zip(times_ns, left_ns, times_ns[1:]))
    data = {step: reading.data for step, reading in zip(steps, run.barriers)}
    assert data[Step("imported")] == StepData(
        python_version=sys.version.split()[0], runtime_version="1.2.3"
    )
    assert data[Step("context", 1)].load_ns > 0
    assert data[Step("context", 1)].account == ACCOUNT
    first = data[Step("first_inference", 0)]
    steady = data[Step("steady")]
    assert first.latency_ns > 0
    assert steady.digests == (first.digest,) * 2
    assert [len(latencies) for latencies in steady.latencies_ns] == [plan.rounds] * 2
    assert steady.elapsed_ns >= max(map(sum, steady.latencies_ns)) / plan.cores
    # The driver's own answer with this C library marks later readings.
    marks = [reading.malloc_trimmed for reading in run.barriers]
    assert marks == [False] * 6 + [data[Step("trimmed")].trimmed] * 3
    done: dict[Step, list[str]] = {}
    known = 0
    for step, lines in zip(steps, observer.answers):
        done[step] = sorted(lines[known:])
        known = len(lines)
    assert done == {
        Step("imported"): [],
        Step("context", 0): ["load0"],
        Step("context", 1): ["dup0"],
        Step("first_inference", 0): ["infer0", "infer0", "outputs0", "outputs1"],
        Step("first_inference", 1): ["infer1", "infer1", "outputs2"],
        Step("steady"): [
            *["infer0"] * plan.rounds,
            *["infer1"] * plan.rounds,
            "outputs3",
            "outputs4",
        ],
        Step("trimmed"): [],
        Step("destroy", 1): ["destroy0"],
        Step("destroy", 0): ["destroy1"],
    }


#: A process that walks a plan of one context; `steady` is its code for the steady phase. By its
#: clock, that is `late_ns` later from the first inference on.
_ONE_CONTEXT = """
commands = open("commands", "a", buffering=1)
def command():
    line = read()
    commands.write(line[:6] + chr(10))
    return line
command()
figures = dict(
    context=dict(load_ns=1),
    first_inference=dict(
        latency_ns={latency_ns}, digest="0" * 8, copies=dict(input_bytes=0, output_bytes=0)
    ),
    steady=dict(elapsed_ns=3, latencies_ns=[[1, 1, 1]], digests=["0" * 8]),
)
steps = ("imported", None), ("context", 0), ("first_inference", 0), ("steady", None), ("destroy", 0)
for phase, context in steps:
    if phase == "steady":
        {steady}
    if phase == "first_inference":
        late_ns = {late_ns}
    barrier(phase, context, **figures.get(phase, dict()))
    while command() == "trim":
        barrier("trimmed", trimmed={trimmed})
"""


@pytest.mark.parametrize("has_trim", [True, False])
def test_trimming_disturbs_nothing_that_is_read_as_allocated(
    tmp_path: Path, has_trim: bool
) -> None:
    """The process trims only after the steady reading; later readings are marked if it did."""
    body = _ONE_CONTEXT.format(steady="pass", latency_ns=1, late_ns=0, trimmed=has_trim)
    target = _script(tmp_path, body)
    observer = StubObserver(lambda _: (tmp_path / "commands").read_text().split().count("trim"))
    run = walk(make_plan("no_reuse", "plain", contexts=1), target, observer)
    assert [reading.phase for reading in run.barriers][3:5] == ["steady", "trimmed"]
    assert observer.answers == [0, 0, 0, 0, 1, 1]
    assert [reading.malloc_trimmed for reading in run.barriers] == [False] * 4 + [has_trim] * 2


def test_the_command_is_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line is the plan as JSON; a target's variables override the harness's."""
    monkeypatch.setenv("REUSEBENCH_TEST_KEPT", "kept")
    monkeypatch.setenv("REUSEBENCH_TEST_CHANGED", "before")
    body = "open('received', 'w').write(json.dumps([read(), dict(os.environ)]))"
    environment = {"REUSEBENCH_TEST_CHANGED": "after", "REUSEBENCH_TEST_ADDED": "added"}
    target = replace(_script(tmp_path, body), environment=environment)
    plan = make_plan("full_dup", "plain", contexts=2)
    walk(plan, target)
    line, variables = json.loads((tmp_path / "received").read_text())
    command = json.loads(line)
    assert (command["command"], command["runtime"]) == ("run", "scripted")
    assert Plan.from_json(command["plan"]) == plan
    assert {
        name: value for name, value in variables.items() if name.startswith("REUSEBENCH_TEST")
    } == {
        "REUSEBENCH_TEST_KEPT": "kept",
        **environment,
    }
    assert "REUSEBENCH_TEST_ADDED" not in os.environ


def test_what_a_runtime_prints_does_not_reach_the_protocol() -> None:
    """Text that a runtime writes to standard output is in the last words, and the walk goes on."""
    failure = _failure(walk(make_plan("full_dup", "print@load0;print@infer0;raise@infer1")))
    assert (failure.phase, failure.context) == ("first_inference", 1)
    assert failure.last_words.count("printed by the runtime") >= 2
    assert "written by the runtime" in failure.last_words


# Failures

_RAISED = Message("exception", {"type": "RuntimeError", "text": "the script says so"})
_NO_MEMORY = Message("exception", {"type": "MemoryError", "text": "the script says so"})
_TEXT = Message("text", {"text": "the script says so"})


def _signal(name: str) -> Message:
    return Message("process_ended_by_signal", {"signal": name})


def test_a_process_that_cannot_be_started_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is given: there is no room for its errors, or it cannot be executed."""
    plan = make_plan("full_dup", "")
    failure = _failure(walk(plan, replace(SCRIPTED, command=(str(tmp_path / "python"),))))
    assert failure.kind == "failed"
    assert str(failure.message).endswith("/python cannot be started: No such file or directory")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert "none can be made (No such file or directory); set TMPDIR" in str(
        _failure(walk(plan)).message
    )


@pytest.mark.parametrize(
    ("script", "kind", "step", "message"),
    [
        ("raise@load0", "failed", Step("context", 0), _RAISED),
        ("raise@outputs3", "failed", Step("steady"), _RAISED),
        ("raise@destroy0", "failed", Step("destroy", 1), _RAISED),
        ("memory@load0", "out_of_memory", Step("context", 0), _NO_MEMORY),
        ("not_supported@dup0", "not_supported", Step("context", 1), _TEXT),
        ("signal9@infer1", "crashed", Step("first_inference", 1), _signal("SIGKILL")),
        ("abort@outputs4", "crashed", Step("steady"), _signal("SIGABRT")),
        ("abort@destroy1", "crashed", Step("destroy", 0), _signal("SIGABRT")),
        ("exit3@dup0", "crashed", Step("context", 1), Message("process_exited", {"code": 3})),
        ("exit0@dup0", "crashed", Step("context", 1), Message("process_exited", {"code": 0})),
    ],
)
def test_a_failure_is_a_result(script: str, kind: str, step: Step, message: Message) -> None:
    """Kind, step, message, last words and earlier barriers are kept; the observer is detached."""
    plan = make_plan("full_dup", script)
    observer = StubObserver(lambda pid: Path(f"/proc/{pid}").exists())
    listener = _Announced()
    run = walk(plan, observer=observer, listener=listener)
    failure = _failure(run)
    assert kind in OUTCOMES
    assert (failure.kind, failure.phase, failure.context, failure.message) == (kind, *step, message)
    assert failure.last_words.startswith("terminate called" if "abort" in script else "")
    done = list(plan.steps())[: list(plan.steps()).index(step)]
    assert [passed for passed in _steps(run) if passed.phase != "trimmed"] == done
    assert listener.steps == [*done, step]
    assert observer.answers == [True] * len(run.barriers)
    assert observer.samples >= len(run.barriers)
    assert not observer.attached
    assert _is_gone(observer.pid)


@pytest.mark.parametrize(
    ("script", "line", "step"),
    [
        ("hang@dup0", "dup0", Step("context", 1)),
        ("spawn@load0;hang@infer0", "infer0", Step("first_inference", 0)),
        ("leave@load0;hang@infer0", "infer0", Step("first_inference", 0)),
    ],
)
def test_a_hang_ends_at_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, line: str, step: Step
) -> None:
    """The process is ended with its children, and the message has the limit."""
    log = tmp_path / "log"
    observer = Clock(monkeypatch, log, line)
    failure = _failure(walk(make_plan("full_dup", f"log={log};{script}"), observer=observer))
    assert (failure.kind, failure.phase, failure.context) == ("hung", *step)
    assert failure.message == Message("no_answer", {"seconds": f"{TIME_LIMIT_S:g}"})
    assert _is_gone(observer.pid)
    assert all(map(_is_gone, _children(log)))


def _children(log: Path) -> list[int]:
    return [
        int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("child")
    ]


class _LaterHost(LocalHost):
    """This machine, two hours later."""

    def now_ns(self) -> int:
        """Return a clock that no process is ahead of."""
        return super().now_ns() + 7200 * 10**9


class _LaterMachine(LocalMachine):
    host: Host = _LaterHost()


@pytest.mark.parametrize(("latency_s", "is_hang"), [(1200, False), (10, True)])
def test_rounds_that_take_long_are_no_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, latency_s: int, is_hang: bool
) -> None:
    """The steady phase has extra time: twice its rounds, at the speed of the first inferences."""
    steady = f"""
        open("started", "w").write("rounds")
        while {is_hang} or not os.path.exists("passed"):
            time.sleep(0.001)"""
    latency_ns = latency_s * 10**9
    body = _ONE_CONTEXT.format(
        steady=steady.strip(), latency_ns=latency_ns, late_ns=latency_ns, trimmed=True
    )
    clock = Clock(monkeypatch, tmp_path / "started", "rounds")
    target = replace(_script(tmp_path, body), machine=_LaterMachine())
    run = walk(make_plan("no_reuse", "plain", contexts=1), target, clock)
    assert (run.failure.kind if run.failure else None) == ("hung" if is_hang else None)


@pytest.mark.parametrize(("script", "kind"), [("", None), ("exit3@infer0", "crashed")])
def test_children_of_the_process_go_with_it(tmp_path: Path, script: str, kind: str | None) -> None:
    """A process that a runtime has started in the background does not outlive the measurement."""
    log = tmp_path / "log"
    run = walk(make_plan("no_reuse", f"log={log};spawn@load0;{script}", contexts=1))
    assert (run.failure.kind if run.failure else None) == kind
    (child,) = _children(log)
    assert _is_gone(child)


#: All fields of a failure, and a message without values.
_HALF_A_FAILURE = (
    '{"event": "failure", "phase": "steady", "context": 0, "kind": "failed", "message": {"values":'
    " {}}}"
)


@pytest.mark.parametrize("garbage", ["Segmentation fault", "{}", _HALF_A_FAILURE, "\\xff"])
def test_a_process_that_writes_nonsense_has_failed(tmp_path: Path, garbage: str) -> None:
    """A line that is not a message is quoted, and does not crash the harness."""
    body = f"read(); barrier('imported'); read(); os.write(1, b'''{garbage}\\n'''); read()"
    failure = _failure(walk(make_plan("full_dup", "plain"), _script(tmp_path, body)))
    assert (failure.kind, failure.phase, failure.context) == ("failed", "context", 0)
    assert isinstance(failure.message, Message)
    assert failure.message.code == "protocol_broken"
    assert garbage.strip("\\xf") in str(failure.message)


def test_a_crash_without_words(tmp_path: Path) -> None:
    """With a library that says nothing, the usual causes are named beside the signal."""
    plan = replace(make_plan("full_dup", "plain"), runtime="teflon")
    message = _failure(walk(plan, _script(tmp_path, "read(); os.kill(os.getpid(), 11)"))).message
    assert message == Message(
        "process_end_explained", {"cause": Message("teflon_crashed"), "end": _signal("SIGSEGV")}
    )


_LAST_WORDS = (
    "sys.stderr.buffer.write(b'\\x1b[1;31mred\\x1b[m ' + b'.' * 9999 + b' \\xff"
    " \\x1b[31mlast\\x1b[0m\\n')"
)


@pytest.mark.parametrize(
    ("body", "message", "last_words"),
    [
        pytest.param(
            "read(); sys.stdout.write('{\"event\"'); sys.exit(4)",
            Message("process_exited", {"code": 4}),
            "",
            id="in the middle of a message",
        ),
        pytest.param(
            _LAST_WORDS,
            Message("process_exited", {"code": 0}),
            ". \ufffd last",
            id="with last words, of which the end is kept without colours",
        ),
        pytest.param(
            "sys.stderr.write('E RKNN: failed to decode config data!\\n'); sys.stderr.flush();"
            " os.abort()",
            Message(
                "process_end_explained",
                {"cause": Message("rknn_mini_model"), "end": _signal("SIGABRT")},
            ),
            "failed to decode config data!",
            id="with words of a library, which are explained",
        ),
        pytest.param(
            "os.close(1); time.sleep(600)", _signal("SIGKILL"), "", id="only when it is ended"
        ),
    ],
)
def test_a_process_that_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: Message, last_words: str
) -> None:
    """Before the first barrier it has crashed; if it closed its pipe but stays, it is killed."""
    if "sleep" in body:
        monkeypatch.setattr(reusebench.targets.process, "_LEAVE_S", 0.1)
    failure = _failure(walk(make_plan("full_dup", "plain"), _script(tmp_path, body)))
    assert (failure.kind, failure.phase, failure.message) == ("crashed", "imported", message)
    assert failure.last_words.endswith(last_words)
    assert len(failure.last_words) < 5000


def test_a_process_that_does_not_read_has_hung(tmp_path: Path) -> None:
    """A plan that its pipe does not hold is not written for longer than the time limit."""
    plan = make_plan("no_reuse", "plain" * 10_000, contexts=200)
    run = walk(plan, _script(tmp_path, "time.sleep(600)"), time_limit_s=0.3)
    failure = _failure(run)
    assert (failure.kind, failure.phase) == ("hung", "imported")
    assert failure.message == Message("input_not_read", {"seconds": "0.3"})
    model = models_of("plain" * 100_000)[0]
    unread = interface_of(_script(tmp_path, "time.sleep(600)"), "scripted", model.path, 0.3)
    assert isinstance(unread, Failure)
    assert (unread.kind, unread.phase) == ("hung", "inspect")


def _of_conversations(path: str, mechanism: str) -> Plan:
    plan = make_plan("no_reuse", path, contexts=1)
    contexts = (Context(0, 0), Context(0, 0, mechanism, 0))
    conversation = Conversation(tokens=100, prompt=10, generated=5)
    return replace(plan, contexts=contexts, conversation=conversation)


def test_estimates_of_contexts_that_are_not_made() -> None:
    """Weights and shared caches belong to the first context; a failure says what failed."""
    plans = [_of_conversations("plain", DUP), _of_conversations("plain", SEQUENCE)]
    further = {name: size for name, size in ACCOUNT.items() if name != "weights_bytes"}
    assert estimates_of(SCRIPTED, plans, TIME_LIMIT_S) == (
        ({**ACCOUNT, "kv_cache_bytes": 100}, {**further, "kv_cache_bytes": 100}),
        ({**ACCOUNT, "kv_cache_bytes": 200}, {}),
    )
    failure = estimates_of(SCRIPTED, [_of_conversations("abort@estimate0", DUP)], TIME_LIMIT_S)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.phase) == ("crashed", "estimate")


def test_a_plan_is_read_in_parts(tmp_path: Path) -> None:
    """A process that reads slowly gets all of a plan that its pipe does not hold."""
    plan = make_plan("no_reuse", "plain" * 20_000, contexts=200)
    body = """
line = b""
while not line.endswith(b"\\n"):
    line += os.read(0, 30000)
    time.sleep(0.001)
open("received", "wb").write(line)
"""
    walk(plan, _script(tmp_path, body))
    command = json.loads((tmp_path / "received").read_text())
    assert Plan.from_json(command["plan"]) == plan


#: Makes the process unreadable to others: as a program with file capabilities is.
_NOT_DUMPABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); barrier('imported'); read()"


def test_a_process_that_cannot_be_read_is_a_result(tmp_path: Path) -> None:
    """The failure says why, and what to do."""

    class Blind(LocalHost):
        """This machine for a user who may not read the process."""

        def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
            """Refuse what needs the right to trace a process."""
            denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            contents = super().read_all(paths)
            return [
                denied if path.endswith("/smaps_rollup") else content
                for path, content in zip(paths, contents)
            ]

        def read(self, path: str) -> bytes:
            """Refuse it too."""
            if path.endswith("/smaps"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return super().read(path)

    target = _script(tmp_path, f"read(); {_NOT_DUMPABLE}")
    run = walk(make_plan("full_dup", "plain"), target, Observer(Blind(), sample_hz=100))
    failure = _failure(run)
    assert (failure.kind, failure.phase) == ("failed", "imported")
    assert failure.message == Message("process_not_readable", {"reason": "Permission denied"})
    assert "PR_SET_DUMPABLE" in str(failure)


def test_a_process_killed_while_it_is_read_is_a_result() -> None:
    """The kernel or a user may kill a process that waits at a barrier; then it cannot be read."""

    class Killer(Observer):
        readings = 0

        def snapshot(self) -> Reading:
            self.readings += 1
            if self.readings == 3:
                os.kill(self.pid, signal.SIGKILL)
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            return super().snapshot()

    run = walk(make_plan("full_dup", "plain"), observer=Killer(LOCAL_HOST, sample_hz=100))
    failure = _failure(run)
    assert (failure.kind, failure.message) == ("crashed", _signal("SIGKILL"))
    assert _steps(run) == [Step("imported"), Step("context", 0)]
    assert (failure.phase, failure.context) == ("context", 1)


def test_an_allocation_that_fails_is_out_of_memory(mobile_model: Path) -> None:
    """A real process with a full address space says so, whichever allocation fails first."""

    def limit(pid: int) -> None:
        size_bytes = psutil.Process(pid).memory_info().vms
        # After the import of the runtime there is room for a thread's stack, but not for a model.
        resource.prlimit(pid, resource.RLIMIT_AS, (size_bytes + (12 << 20), resource.RLIM_INFINITY))

    plan = make_plan("no_reuse", mobile_model, contexts=4, runtime="onnxruntime")
    failure = _failure(walk(plan, THIS_INTERPRETER, StubObserver(limit)))
    assert failure.kind == "out_of_memory", failure
    assert str(failure.message)


def test_an_import_without_address_space_is_out_of_memory() -> None:
    """Python, the loader or OpenBLAS may find no memory, and a library may hide that."""
    kinds = []
    for size_mib in range(50, 121, 10):
        limited = (
            "sh",
            "-c",
            f'ulimit -v {size_mib << 10}; exec "$@"',
            "sh",
            *THIS_INTERPRETER.command,
        )
        plan = make_plan("no_reuse", "a model", runtime="onnxruntime")
        failure = _failure(walk(plan, replace(THIS_INTERPRETER, command=limited)))
        if failure.phase == "imported":
            kinds.append(failure.kind)
            assert failure.kind == "out_of_memory" or not tells_of_memory(failure.last_words), (
                failure
            )
    assert kinds.count("out_of_memory") > len(kinds) / 2


def test_interrupting_the_harness_ends_the_process() -> None:
    """Ctrl-C is raised, and leaves no process behind."""

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    observer = StubObserver(interrupt)
    with pytest.raises(KeyboardInterrupt):
        walk(make_plan("full_dup", "plain"), observer=observer)
    assert _is_gone(observer.pid)
    assert not observer.attached


@pytest.mark.parametrize("barriers", [1, 2])
def test_a_process_ends_when_the_harness_is_gone(barriers: int) -> None:
    """The driver does not wait at a barrier for a command that never comes."""
    command = {
        "command": "run",
        "runtime": "scripted",
        "plan": make_plan("full_dup", "plain").to_json(),
    }
    commands = (json.dumps(command) + "\n" + "go\n" * (barriers - 1)).encode()
    done = subprocess.run(
        SCRIPTED.command,
        cwd=CHECKOUT,
        input=commands,
        capture_output=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert [json.loads(line)["phase"] for line in done.stdout.splitlines()] == [
        "imported",
        "context",
    ][:barriers]


# Preparation


def _prepared(plan: Plan, folder: Path) -> Plan:
    """Return the plan with its models prepared."""
    prepared = prepared_plan(plan, SCRIPTED, folder)
    assert isinstance(prepared, Plan)
    return prepared


def test_only_models_whose_weights_are_shared_are_prepared(tmp_path: Path) -> None:
    """A plan without dups starts no process at all; each of several models is prepared once."""
    plain = make_plan("no_reuse", "abort@prepare0")
    assert _prepared(plain, tmp_path) == plain
    logs = [f"log={tmp_path / name}" for name in "ab"]
    plan = _prepared(make_plan("partial_dup", *logs, streams=3), tmp_path)
    assert [model.prepared for model in plan.models] == logs
    assert (tmp_path / "a").read_text() == "prepare0\n"
    assert (tmp_path / "b").read_text() == "prepare1\n"


def test_prepared_models_are_loaded(tmp_path: Path) -> None:
    """Dups and shared weights use them, the master first; other contexts use the model itself."""
    log = tmp_path / "log"
    for scenario in ("full_dup", "shared_context"):
        assert walk(_prepared(make_plan(scenario, f"log={log}"), tmp_path)).failure is None
    makes_a_context = re.compile("load|dup|shared")
    calls = list(filter(makes_a_context.search, log.read_text().splitlines()))
    assert calls == ["load_prepared0", "dup0", "load0", "shared_context0"]
    resolutions = [f"log={tmp_path / name}" for name in ("first", "second")]
    plan = _prepared(make_plan("shared_weights", *resolutions), tmp_path)
    assert [model.prepared for model in plan.models] == resolutions
    assert walk(plan).failure is None
    assert "load_prepared0" in (tmp_path / "first").read_text().splitlines()
    assert "share_weights0" in (tmp_path / "second").read_text().splitlines()


def test_preparing_may_take_longer_than_a_step(tmp_path: Path) -> None:
    """The process only has to report from time to time that it goes on."""
    body = "read()\nfor _ in range(6):\n    time.sleep(0.2)\n    send(event='preparing')\n"
    (model,) = models_of("plain")
    body += f"send(event='prepared', models={{'{model.digest}': {{'path': 'plain'}}}})"
    made = prepare_models(_script(tmp_path, body), "scripted", (model,), tmp_path, time_limit_s=1.0)
    assert made == {model.digest: Preparation("plain")}


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("raise@prepare0", "failed", _RAISED),
        ("not_supported@prepare0", "not_supported", _TEXT),
        ("abort@prepare0", "crashed", _signal("SIGABRT")),
        ("hang@prepare0", "hung", Message("no_answer", {"seconds": "0.3"})),
    ],
)
def test_preparing_may_fail_too(tmp_path: Path, script: str, kind: str, message: Message) -> None:
    """The failure is a result like any other, in a phase of its own."""
    limit_s = 0.3 if kind == "hung" else TIME_LIMIT_S
    failure = prepare_models(SCRIPTED, "scripted", models_of(script), tmp_path, limit_s)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.phase, failure.context, failure.message) == (
        kind,
        "prepare",
        None,
        message,
    )


def test_cycles_have_no_blocks_that_threads_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap of cycles is exact; the user's settings stay, and those of a target are its own."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    exact = THIS_INTERPRETER.with_exact_heap().environment["GLIBC_TUNABLES"]
    assert exact == "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0"
    monkeypatch.delenv("GLIBC_TUNABLES")
    exact = THIS_INTERPRETER.with_exact_heap().environment["GLIBC_TUNABLES"]
    assert exact == "glibc.malloc.tcache_count=0"
    own = replace(THIS_INTERPRETER, environment={"GLIBC_TUNABLES": "mine"})
    assert own.with_exact_heap().environment == {"GLIBC_TUNABLES": "mine"}
