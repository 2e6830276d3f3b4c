"""One measured process: started fresh, led from barrier to barrier, ended whatever happens."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from reusebench.measured.messages import Message
from reusebench.measured.plan import INFERENCES_PER_CYCLE, Model, Plan, Step
from reusebench.measured.runtimes.base import Interface, Preparation
from reusebench.measured.runtimes.rknn.diagnosis import cause_of_crash
from reusebench.samplers.readings import Reading
from reusebench.system.interrupts import first_interrupt_calls
from reusebench.targets.barriers import (
    Barrier,
    BarrierReading,
    Described,
    DriverFailure,
    DriverMessage,
    Frames,
    Prepared,
    Preparing,
)
from reusebench.targets.errors import ConnectionLost, TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.outcome import Failure, classify_exit, classify_failure
from reusebench.targets.process import DriverProcess
from reusebench.targets.protocol.base import PYTHON_PROTOCOL, InvalidMessage
from reusebench.targets.target import Target

__all__ = [
    "Listener",
    "MeasuredRun",
    "MemoryObserver",
    "interface_of",
    "prepare_models",
    "run_plan",
    "try_plan",
]

#: A plan that fills makes no further context where less of the system's memory is available: it
#: would not fail, the kernel would end processes.
_LEAST_AVAILABLE = 0.1
#: Before any other step there is nothing that could fail.
_FIRST = Step("imported")


class MemoryObserver(Protocol):
    """Reads memory: `sample` between barriers every interval_s, `snapshot` at a barrier."""

    interval_s: float

    def attach(self, pid: int) -> None:
        """Begin with this process."""

    def detach(self) -> None:
        """End."""

    def sample(self) -> None:
        """Take one cheap reading."""

    def snapshot(self) -> Reading:
        """Take one full reading; ProcessLookupError if the process has gone."""


@dataclass
class MeasuredRun:
    """What one measured process gave: a record per barrier, in order, and why it stopped early if
    it did.
    """

    barriers: list[BarrierReading] = field(default_factory=list)
    failure: Failure | None = None
    #: When the process was started; monotonic clock of its machine, as all times of barriers.
    start_ns: int = 0
    #: From the start of the process to its end.
    elapsed_s: float = 0.0
    #: Whether Ctrl-C ended its streams early; what they did until then is measured.
    interrupted: bool = False
    #: Of a plan that fills: why a further context did not fit, where the process survived that.
    full: Failure | None = None
    #: The ledger of its NPU buffers, as the preload library wrote it; None if none is kept.
    ledger: bytes | None = None


class Listener(Protocol):
    """Follows a run."""

    def step(self, step: Step) -> None:
        """A step is about to begin."""

    def frames(self, message: Frames, run: MeasuredRun) -> None:
        """The frames of the last second, and the run so far."""


class _Stopped(Exception):
    """The process cannot go on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Conversation:
    """The messages of a running driver. Every method that waits raises _Stopped."""

    def __init__(self, target: Target, process: DriverProcess) -> None:
        self._protocol = target.protocol
        self._process = process
        self._buffer = b""

    def write(self, data: bytes) -> int:
        """Send it and return when, by the target's clock; where the process has gone, the next read
        fails.
        """
        return self._process.send(data)

    def read(
        self, step: Step, time_limit_s: float, observer: MemoryObserver | None = None
    ) -> DriverMessage:
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
            message = self._protocol.decode(line)
        except InvalidMessage as error:
            self._fail("failed", step, Message("protocol_broken", {"line": str(error)}))
        if isinstance(message, DriverFailure):
            kind = classify_failure(message.kind, message.message, self.last_words())
            self._fail(kind, Step(message.phase, message.context), message.message)
        return message

    def fail_ended(self, step: Step) -> NoReturn:
        """Raise _Stopped for a process that has ended by itself."""
        ending = self._process.ending()
        last_words = self.last_words()
        kind, message = classify_exit(ending, last_words)
        cause = cause_of_crash(last_words)
        if cause:
            message = Message("process_end_explained", {"cause": cause, "end": message})
        self._fail(kind, step, message)

    def last_words(self) -> str:
        """Return the end of standard error."""
        return self._process.last_words()

    def _receive(self, timeout_s: float, step: Step) -> None:
        chunk = self._process.receive(max(0.0, timeout_s))
        if chunk == b"":
            self.fail_ended(step)
        self._buffer += chunk or b""

    def _fail(self, kind: str, step: Step, message: Message) -> NoReturn:
        raise _Stopped(Failure(kind, step.phase, step.context, message, self.last_words()))


def run_plan(
    target: Target, plan: Plan, observer: MemoryObserver, time_limit_s: float, listener: Listener
) -> MeasuredRun:
    """Walk the plan in a fresh process on the target; every way to fail is part of the MeasuredRun.

    Ctrl-C ends streams as if their time was over, and is then part of the MeasuredRun; in other phases, and
    the second time, it is raised.
    """
    begun = time.monotonic()
    lead = _Lead(target, plan, observer, time_limit_s, listener)
    try:
        lead.walk()
    except _Stopped as stopped:
        lead.run.failure = stopped.failure
    except TargetError as error:
        lead.run.failure = failure_of_target(error, lead.step)
    lead.run.elapsed_s = time.monotonic() - begun
    return lead.run


class _Lead:
    """Leads one process through its plan."""

    _process: _Conversation

    def __init__(
        self,
        target: Target,
        plan: Plan,
        observer: MemoryObserver,
        time_limit_s: float,
        listener: Listener,
    ) -> None:
        self._target = target
        self._plan = plan
        self._observer = observer
        self._time_limit_s = time_limit_s
        self._listener = listener
        #: Of a plan that fills: whether no further context is made.
        self._is_full = False
        #: The step that is under way.
        self.step = _FIRST
        self.run = MeasuredRun()

    def walk(self) -> None:
        """Go from barrier to barrier until the end."""
        plan = self._target.machine.plan_there(self._plan)
        with _started(self._target, Reach.of_plan(plan)) as process:
            self._process = _Conversation(self._target, process)
            self.run.start_ns = process.started_ns
            self._observer.attach(process.pid)
            try:
                self._walk(plan)
            finally:
                self.run.ledger = process.ledger()
                self._observer.detach()

    def _walk(self, plan: Plan) -> None:
        protocol = self._target.protocol
        self._process.write(protocol.begin(plan))
        for step in self._steps():
            self.step = step
            self._listener.step(step)
            self._process.write(protocol.step(plan, step))
            is_streams = step.phase == "steady" and self._plan.schedule is not None
            with (
                first_interrupt_calls(self._end_streams) if is_streams else contextlib.nullcontext()
            ):
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
        self._process.write(_word("stop"))

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
        """Return how long the process may be silent: streams report every second, rounds when they
        are done.

        Rounds may take what the first inferences took, one after the other, twice over; so may a
        cycle of inferences.
        """
        rounds = {"steady": self._plan.rounds, "cycle": INFERENCES_PER_CYCLE}.get(step.phase, 0)
        if self._plan.schedule is not None:
            return self._time_limit_s
        firsts_ns = [
            barrier.data.latency_ns
            for barrier in self.run.barriers
            if barrier.phase == "first_inference"
        ]
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
                barriers.append(
                    BarrierReading.of(barrier, barrier.data.trimmed, self._observer.snapshot())
                )
        except ProcessLookupError:  # killed while it waited at a barrier and was read
            self._process.fail_ended(step)
        self._let_go("stop" if self._notes_full(barriers[-1]) else "go")

    def _let_go(self, word: str) -> None:
        """Let the process go on from the barrier that was read last."""
        self.run.barriers[-1].left_ns = self._process.write(_word(word))

    def _notes_full(self, barrier: BarrierReading) -> bool:
        """Take note of whether a plan that fills goes on; return whether the process has to be told
        otherwise.
        """
        failure = barrier.data.failure
        system = barrier.system
        if failure:
            words = self._process.last_words()
            self.run.full = Failure(
                failure.kind, failure.phase, barrier.context, failure.message, words
            )
        is_short = system.available_bytes < _LEAST_AVAILABLE * system.total_bytes
        is_told = self._plan.fills and barrier.phase == "first_inference" and is_short
        self._is_full = is_told or failure is not None
        return is_told


def prepare_models(
    target: Target, runtime: str, models: Iterable[Model], folder: Path, time_limit_s: float
) -> dict[str, Preparation | None] | Failure:
    """Return what the runtime needs made of each model so that its weights can be shared or given,
    by its digest.

    In a process of its own, so that making it is not part of what is measured.
    """
    step = Step("prepare")
    reach = Reach(Reach.of_models(models).readable, (str(folder.parent),))
    with _failing(step) as attempt, _started(target, reach) as process:
        there = [target.machine.model_there(model) for model in models]
        conversation = _Conversation(target, process)
        conversation.write(
            PYTHON_PROTOCOL.prepare(runtime, there, target.machine.folder_there(folder))
        )
        message: DriverMessage = Preparing()
        while isinstance(message, Preparing):
            message = conversation.read(step, time_limit_s)
        assert isinstance(message, Prepared)
        return message.models
    return attempt.failure


def interface_of(
    target: Target, runtime: str, model: str, time_limit_s: float
) -> Interface | Failure:
    """Return what the model file declares, as the runtime reads it in a process of its own."""
    step = Step("inspect")
    with _failing(step) as attempt, _started(target, Reach((model,))) as process:
        conversation = _Conversation(target, process)
        conversation.write(target.protocol.inspect(runtime, target.machine.path_there(model)))
        message = conversation.read(step, time_limit_s)
        assert isinstance(message, Described)
        return message.interface
    return attempt.failure


def try_plan(target: Target, plan: Plan, time_limit_s: float) -> Failure | None:
    """Walk the plan in a fresh process, and measure nothing; return why it failed, None if it
    ran.
    """
    with _failing(_FIRST) as attempt, _started(target, Reach.of_plan(plan)) as process:
        conversation = _Conversation(target, process)
        there = target.machine.plan_there(plan)
        conversation.write(target.protocol.begin(there))
        for step in plan.steps():
            conversation.write(target.protocol.step(there, step))
            conversation.read(step, time_limit_s)
            conversation.write(_word("go"))
        return None
    return attempt.failure


@contextlib.contextmanager
def _started(target: Target, reach: Reach) -> Iterator[DriverProcess]:
    process = target.start(reach)
    try:
        yield process
    finally:
        process.close()


class _Attempt:
    """What came of a conversation that is not measured."""

    failure: Failure


@contextlib.contextmanager
def _failing(step: Step) -> Iterator[_Attempt]:
    """Keep why the conversation stopped."""
    attempt = _Attempt()
    try:
        yield attempt
    except _Stopped as stopped:
        attempt.failure = stopped.failure
    except TargetError as error:
        attempt.failure = failure_of_target(error, step)


def failure_of_target(error: TargetError, step: Step = _FIRST) -> Failure:
    """Return the failure of a target that could not be used, or no longer."""
    kind = "connection_lost" if isinstance(error, ConnectionLost) else "failed"
    return Failure(kind, step.phase, step.context, Message("text", {"text": str(error)}))


def _word(word: str) -> bytes:
    return word.encode() + b"\n"
