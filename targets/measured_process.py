"""One measured process: started fresh, led from barrier to barrier, ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

import msgspec

from messages import Message
from runtimes.base import Interface
from runtimes.rknn.diagnosis import cause_of_crash
from samplers.readings import Reading
from scenarios.plan import INFERENCES_PER_CYCLE, Model, Plan, Step
from targets.barriers import (
    Barrier,
    BarrierReading,
    Described,
    DriverFailure,
    DriverMessage,
    Frames,
    Preparation,
    Prepared,
    Preparing,
)
from targets.base import Target
from targets.interrupt import first_interrupt_calls
from targets.outcome import Failure, classify_exit, oom_kills

__all__ = ["Listener", "Observer", "Run", "interface_of", "prepare_models", "run_plan", "try_plan"]

_LAST_WORDS_BYTES = 4000
_READ_BYTES = 1 << 16
#: Escape sequences with which runtimes colour their messages.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: How long a process that closed its pipe may take to leave.
_LEAVE_S = 10.0
#: A plan that fills makes no further context where less of the system's memory is available: it would not fail, the
#: kernel would end processes.
_LEAST_AVAILABLE = 0.1
_MESSAGES = msgspec.json.Decoder(DriverMessage)


class Observer(Protocol):
    """Reads memory: `sample` between barriers every interval_s, `snapshot` at a barrier."""

    interval_s: float

    def attach(self, pid: int) -> None:
        """Begin with this process."""

    def detach(self) -> None:
        """End."""

    def sample(self) -> None:
        """Take one cheap reading."""

    def snapshot(self) -> Reading:
        """Take one full reading; ProcessLookupError where the process has gone."""


@dataclass
class Run:
    """What one measured process gave: a record per barrier, in order, and why it stopped early if it did."""

    barriers: list[BarrierReading] = field(default_factory=list)
    failure: Failure | None = None
    #: When the process was started; monotonic clock.
    start_ns: int = 0
    #: From the start of the process to its end.
    elapsed_s: float = 0.0
    #: Whether Ctrl-C ended its streams early; what they did until then is measured.
    interrupted: bool = False
    #: Of a plan that fills: why a further context did not fit, where the process survived that.
    full: Failure | None = None


class Listener(Protocol):
    """Follows a run."""

    def step(self, step: Step) -> None:
        """A step is about to begin."""

    def frames(self, message: Frames, run: Run) -> None:
        """The frames of the last second, and the run so far."""


class _Stopped(Exception):
    """The process cannot go on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Process:
    """A running driver and its pipes. Every method that waits raises _Stopped."""

    def __init__(self, target: Target) -> None:
        self._oom_kills = oom_kills()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by kill()
        # A session of its own: Ctrl-C reaches the harness alone, which then ends the process in order.
        self._popen = subprocess.Popen(
            target.command,
            cwd=target.folder,
            env={**os.environ, **target.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            start_new_session=True,
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._commands = self._popen.stdin
        self._messages = self._popen.stdout
        self._buffer = b""
        self.pid = self._popen.pid

    def write(self, line: str) -> None:
        """Send one line; where the process has gone, the next read fails."""
        with contextlib.suppress(BrokenPipeError):
            self._commands.write(line.encode() + b"\n")

    def read(self, step: Step, time_limit_s: float, observer: Observer | None = None) -> DriverMessage:
        """Return the next message; take the observer's cheap readings while waiting for it."""
        deadline = time.monotonic() + time_limit_s
        interval_s = observer.interval_s if observer else time_limit_s
        next_sample = time.monotonic()
        while b"\n" not in self._buffer:
            now = time.monotonic()
            if now >= deadline:
                self._fail("hung", step, Message("no_answer", {"seconds": f"{time_limit_s:g}"}))
            if now >= next_sample:
                if observer:
                    observer.sample()
                next_sample = max(next_sample + interval_s, now)
            self._receive(min(next_sample, deadline) - time.monotonic(), step)
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message: DriverMessage = _MESSAGES.decode(line)
        except msgspec.DecodeError:
            self._fail("failed", step, Message("protocol_broken", {"line": repr(line[:200])}))
        if isinstance(message, DriverFailure):
            self._fail(message.kind, Step(message.phase, message.context), message.message)
        return message

    def fail_ended(self, step: Step) -> NoReturn:
        """Raise _Stopped for a process that has ended by itself."""
        kind, message = classify_exit(self._exit_code(), oom_kills() > self._oom_kills)
        cause = cause_of_crash(self.last_words())
        if cause:
            message = Message("process_end_explained", {"cause": cause, "end": message})
        self._fail(kind, step, message)

    def kill(self) -> None:
        """End the process, if it has not left, and its children, and release all that belongs to it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._commands.close()
        self._messages.close()
        self._popen.wait()
        self._errors.close()

    def _receive(self, timeout_s: float, step: Step) -> None:
        readable, _, _ = select.select([self._messages], [], [], max(0.0, timeout_s))
        if not readable:
            return
        chunk = self._messages.read(_READ_BYTES)
        if not chunk:
            self.fail_ended(step)
        self._buffer += chunk

    def _exit_code(self) -> int:
        try:
            return self._popen.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()

    def _fail(self, kind: str, step: Step, message: Message) -> NoReturn:
        raise _Stopped(Failure(kind, step.phase, step.context, message, self.last_words()))

    def last_words(self) -> str:
        """Return the end of standard error."""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - _LAST_WORDS_BYTES))
        return _COLOURS.sub("", self._errors.read().decode(errors="replace")).strip()


def run_plan(target: Target, plan: Plan, observer: Observer, time_limit_s: float, listener: Listener) -> Run:
    """Walk the plan in a fresh process on the target; every way to fail is part of the Run.

    Ctrl-C ends streams as if their time was over, and is then part of the Run; in other phases, and the second time, it
    is raised.
    """
    start_ns = time.monotonic_ns()
    with _started(target) as process:
        lead = _Lead(process, plan, observer, time_limit_s, listener)
        lead.run.start_ns = start_ns
        observer.attach(process.pid)
        try:
            lead.walk()
        except _Stopped as stopped:
            lead.run.failure = stopped.failure
        finally:
            observer.detach()
    lead.run.elapsed_s = (time.monotonic_ns() - start_ns) / 1e9
    return lead.run


class _Lead:
    """Leads one process through its plan."""

    def __init__(
        self, process: _Process, plan: Plan, observer: Observer, time_limit_s: float, listener: Listener
    ) -> None:
        self._process, self._plan, self._observer = process, plan, observer
        self._time_limit_s, self._listener = time_limit_s, listener
        #: Of a plan that fills: whether no further context is made.
        self._is_full = False
        self.run = Run()

    def walk(self) -> None:
        """Go from barrier to barrier until the end."""
        command = {"command": "run", "runtime": self._plan.runtime, "plan": self._plan.to_json()}
        self._process.write(json.dumps(command))
        for step in self._steps():
            self._listener.step(step)
            is_streams = step.phase == "steady" and self._plan.schedule is not None
            with first_interrupt_calls(self._end_streams) if is_streams else contextlib.nullcontext():
                barrier = self._await_barrier(step)
            self._read_all(step, barrier)

    def _steps(self) -> Iterator[Step]:
        """Yield the steps of the plan; of one that fills, as far as it gets."""
        for step in self._plan.steps():
            yield step
            if self._is_full:
                made, ran = (self._count(phase) for phase in ("context", "first_inference"))
                yield from self._plan.steps_when_full(made, ran)
                return

    def _count(self, phase: str) -> int:
        return sum(barrier.phase == phase for barrier in self.run.barriers)

    def _end_streams(self) -> None:
        self.run.interrupted = True
        self._process.write("stop")

    def _await_barrier(self, step: Step) -> Barrier:
        """Return the barrier that ends the step; pass frames before it to the listener."""
        limit_s = self._limit_s(step)
        while True:
            message = self._process.read(step, limit_s, self._observer)
            if isinstance(message, Barrier):
                return message
            assert isinstance(message, Frames)
            self._listener.frames(message, self.run)

    def _limit_s(self, step: Step) -> float:
        """Return how long the process may be silent: streams report every second, rounds when they are done.

        Rounds may take what the first inferences took, one after the other, twice over; so may a cycle of inferences.
        """
        rounds = {"steady": self._plan.rounds, "cycle": INFERENCES_PER_CYCLE}.get(step.phase, 0)
        if self._plan.schedule is not None:
            return self._time_limit_s
        firsts_ns = [barrier.data.latency_ns for barrier in self.run.barriers if barrier.phase == "first_inference"]
        return self._time_limit_s + 2 * rounds * sum(firsts_ns) / 1e9

    def _read_all(self, step: Step, barrier: Barrier) -> None:
        """Read everything at the barrier, and let the process go on."""
        barriers = self.run.barriers
        trimmed = any(reading.malloc_trimmed for reading in barriers)
        try:
            barriers.append(BarrierReading.of(barrier, trimmed, self._observer.snapshot()))
            if step.phase == "steady":
                self._let_go("trim")
                barrier = self._await_barrier(Step("trimmed"))
                barriers.append(BarrierReading.of(barrier, barrier.data.trimmed, self._observer.snapshot()))
        except ProcessLookupError:  # killed while it waited at a barrier and was read
            self._process.fail_ended(step)
        self._let_go("stop" if self._notes_full(barriers[-1]) else "go")

    def _let_go(self, word: str) -> None:
        """Let the process go on from the barrier that was read last."""
        self.run.barriers[-1].left_ns = time.monotonic_ns()
        self._process.write(word)

    def _notes_full(self, barrier: BarrierReading) -> bool:
        """Take note of whether a plan that fills goes on; return whether the process has to be told otherwise."""
        failure, system = barrier.data.failure, barrier.system
        if failure:
            words = self._process.last_words()
            self.run.full = Failure(failure.kind, failure.phase, barrier.context, failure.message, words)
        is_short = system.available_bytes < _LEAST_AVAILABLE * system.total_bytes
        is_told = self._plan.fills and barrier.phase == "first_inference" and is_short
        self._is_full = is_told or failure is not None
        return is_told


def prepare_models(
    target: Target, runtime: str, models: Iterable[Model], folder: Path, time_limit_s: float
) -> dict[str, Preparation | None] | Failure:
    """Return what the runtime needs made of each model so that its weights can be shared or given, by its digest.

    In a process of its own, so that making it is not part of what is measured.
    """
    files = [
        {"path": model.path, "digest": model.digest, "inputs": list(map(asdict, model.inputs))} for model in models
    ]
    command = {"command": "prepare", "runtime": runtime, "models": files, "folder": str(folder)}
    with _started(target) as process:
        process.write(json.dumps(command))
        try:
            message: DriverMessage = Preparing()
            while isinstance(message, Preparing):
                message = process.read(Step("prepare"), time_limit_s)
        except _Stopped as stopped:
            return stopped.failure
    assert isinstance(message, Prepared)
    return message.models


def interface_of(target: Target, runtime: str, model: str, time_limit_s: float) -> Interface | Failure:
    """Return what the model file declares, as the runtime reads it in a process of its own."""
    with _started(target) as process:
        process.write(json.dumps({"command": "inspect", "runtime": runtime, "model": model}))
        try:
            message = process.read(Step("inspect"), time_limit_s)
        except _Stopped as stopped:
            return stopped.failure
    assert isinstance(message, Described)
    return message.interface


def try_plan(target: Target, plan: Plan, time_limit_s: float) -> Failure | None:
    """Walk the plan in a fresh process, and measure nothing; return why it failed, None where it ran."""
    with _started(target) as process:
        process.write(json.dumps({"command": "run", "runtime": plan.runtime, "plan": plan.to_json()}))
        try:
            for step in plan.steps():
                process.read(step, time_limit_s)
                process.write("go")
        except _Stopped as stopped:
            return stopped.failure
    return None


@contextlib.contextmanager
def _started(target: Target) -> Iterator[_Process]:
    process = _Process(target)
    try:
        yield process
    finally:
        process.kill()
