"""One measured process: started fresh, led from barrier to barrier, ended in any case."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from reusebench.measured.messages import Message
from reusebench.measured.plan import Model, Plan, Step
from reusebench.measured.runtimes import RUNTIMES
from reusebench.measured.runtimes.base import Interface, Preparation
from reusebench.system.interrupts import first_interrupt_calls
from reusebench.targets.barriers import (
    Barrier,
    BarrierReading,
    Described,
    DriverMessage,
    Estimated,
    Frames,
    Prepared,
    Preparing,
)
from reusebench.targets.conversation import Conversation, MemoryObserver, Stopped
from reusebench.targets.errors import ConnectionLost, NotMeasurable, TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.outcome import Failure
from reusebench.targets.process import DriverProcess
from reusebench.targets.protocol.base import PYTHON_PROTOCOL
from reusebench.targets.protocol.expected import (
    MOST_PREPARING,
    UnexpectedMessage,
    check_estimated,
    check_interface,
    check_prepared,
    unexpected_kind,
)
from reusebench.targets.target import Target

__all__ = [
    "Listener",
    "MeasuredRun",
    "estimates_of",
    "interface_of",
    "prepare_models",
    "run_plan",
    "try_plan",
]

#: Share of the memory of the system, and of a control group with a limit, that must be available
#: before another context is added. With less
#: the context would not fail: the kernel would kill processes.
_LEAST_AVAILABLE = 0.1
#: The words that a driver waits for at a barrier.
_GO = b"go\n"
_STOP = b"stop\n"
_TRIM = b"trim\n"
#: The step of failures that come before any other step.
_FIRST = Step("imported")
#: Codes of what a crash without words means, by runtime.
_SILENT_CRASHES = {entry.name: entry.silent_crash for entry in RUNTIMES}


@dataclass
class MeasuredRun:
    """The results of one measured process."""

    #: Ordered by time.
    barriers: list[BarrierReading] = field(default_factory=list)
    #: Set if the process stopped early.
    failure: Failure | None = None
    #: Start of the process; monotonic clock of its machine, like all times of barriers.
    start_ns: int = 0
    #: Time from the start of the process to its end.
    elapsed_s: float = 0.0
    #: Whether Ctrl-C ended the streams early; their frames until then are measured.
    interrupted: bool = False
    #: Reason why the last context did not fit, if the plan adds contexts until one fails and the
    #: process survived.
    full: Failure | None = None
    #: Ledger of NPU buffers, as the preload library wrote it; None if none is kept.
    ledger: bytes | None = None


class Listener(Protocol):
    """Is told about the progress of a run."""

    def step(self, step: Step) -> None:
        """Take the step that is about to begin."""

    def frames(self, message: Frames, run: MeasuredRun) -> None:
        """Take the frames of the last second and the run so far."""


def run_plan(
    target: Target, plan: Plan, observer: MemoryObserver, time_limit_s: float, listener: Listener
) -> MeasuredRun:
    """Walk the plan in a fresh process on the target; all failures are part of the run.

    Ctrl-C ends streams as if their time was over, and the run says so. In other phases, and the
    second time, it is raised.
    """
    begun = time.monotonic()
    walk = _Walk(target, plan, observer, time_limit_s, listener)
    try:
        walk.to_the_end()
    except Stopped as stopped:
        walk.run.failure = stopped.failure
    except TargetError as error:
        walk.run.failure = failure_of_target(error, walk.step)
    walk.run.elapsed_s = time.monotonic() - begun
    return walk.run


class _Walk:
    """The walk of one process through its plan, from barrier to barrier."""

    _process: Conversation

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
        #: True once no more contexts will be added.
        self._is_full = False
        #: The step in progress.
        self.step = _FIRST
        self.run = MeasuredRun()

    def to_the_end(self) -> None:
        """Start the process, walk it through the plan, and end it."""
        plan = self._target.machine.plan_there(self._plan)
        target = self._target.with_exact_heap() if plan.cycles else self._target
        with _started(target, Reach.of_plan(plan)) as process:
            silent_crash = _SILENT_CRASHES.get(plan.runtime)
            self._process = Conversation(self._target, process, self._time_limit_s, silent_crash)
            self.run.start_ns = process.started_ns
            self._observer.attach(process.pid)
            try:
                self._walk(plan)
            finally:
                self.run.ledger = process.ledger()
                self._observer.detach()

    def _walk(self, plan: Plan) -> None:
        protocol = self._target.protocol
        self._process.write(protocol.begin(plan), self.step)
        for step in self._steps():
            self.step = step
            self._listener.step(step)
            self._process.write(protocol.step(plan, step), step)

            if step.phase == "steady" and self._plan.schedule is not None:
                with first_interrupt_calls(self._end_streams):
                    barrier = self._await_barrier(step)
            else:
                barrier = self._await_barrier(step)
            self._read_all(step, barrier)

    def _steps(self) -> Iterator[Step]:
        """Yield the steps of the plan, up to the context that does not fit if there is one."""
        for step in self._plan.steps():
            yield step
            if self._is_full:
                made = self._count("context")
                ran = self._count("first_inference")
                yield from self._plan.steps_when_full(made, ran)
                return

    def _end_streams(self) -> None:
        self.run.interrupted = True
        self._process.interrupt(_STOP)

    def _await_barrier(self, step: Step) -> Barrier:
        """Return the barrier that ends the step; pass earlier frames to the listener."""
        return self._process.barrier(
            self._plan,
            step,
            self._count("first_inference"),
            self._limit_s(step),
            self._observer,
            take_frames=lambda frames: self._listener.frames(frames, self.run),
            is_interrupted=lambda: self.run.interrupted,
        )

    def _count(self, phase: str) -> int:
        """Return the number of barriers of a phase."""
        return sum(barrier.phase == phase for barrier in self.run.barriers)

    def _limit_s(self, step: Step) -> float:
        """Return the longest time without a message that is allowed.

        Streams report every second. Rounds report when they are done: each may take twice the time
        of all first inferences one after the other, and so may a cycle of inferences.
        """
        if self._plan.schedule is not None:
            return self._time_limit_s
        rounds = 0
        if step.phase == "steady":
            rounds = self._plan.rounds
        elif step.phase == "cycle" and self._plan.cycles is not None:
            rounds = self._plan.cycles.inferences
        firsts_ns = [
            barrier.data.latency_ns
            for barrier in self.run.barriers
            if barrier.phase == "first_inference"
        ]
        return self._time_limit_s + 2 * rounds * sum(firsts_ns) / 1e9

    def _read_all(self, step: Step, barrier: Barrier) -> None:
        """Read everything at the barrier, and let the process go on."""
        trimmed = any(reading.malloc_trimmed for reading in self.run.barriers)
        try:
            self._read(barrier, trimmed)
            if step.phase == "steady":
                self._let_go(_TRIM, step)
                barrier = self._await_barrier(Step("trimmed"))
                self._read(barrier, barrier.data.trimmed)
        except ProcessLookupError:  # killed while it was read at the barrier
            self._process.fail_ended(step)
        except OSError as error:
            self._process.fail_unreadable(step, error)

        last = self.run.barriers[-1]
        self._note_failed_context(last)
        if self._is_memory_short(last):
            self._is_full = True
            self._let_go(_STOP, step)
        else:
            self._let_go(_GO, step)

    def _read(self, barrier: Barrier, malloc_trimmed: bool) -> None:
        reading = self._observer.snapshot()
        self.run.barriers.append(BarrierReading.of(barrier, malloc_trimmed, reading))

    def _let_go(self, word: bytes, step: Step) -> None:
        """Let the process go on from the barrier that was read last."""
        self.run.barriers[-1].left_ns = self._process.write(word, step)

    def _note_failed_context(self, barrier: BarrierReading) -> None:
        """Note the failure of a context that was one too many, if there is one."""
        failure = barrier.data.failure
        if failure is None:
            return
        last_words = self._process.last_words()
        self.run.full = Failure(
            failure.kind, failure.phase, barrier.context, failure.message, last_words
        )
        self._is_full = True

    def _is_memory_short(self, barrier: BarrierReading) -> bool:
        """Whether the process must be told to add no more contexts."""
        if not self._plan.fills or barrier.phase != "first_inference":
            return False
        system = barrier.system
        if system.available_bytes < _LEAST_AVAILABLE * system.total_bytes:
            return True
        group = barrier.group
        return group is not None and group.available_bytes < _LEAST_AVAILABLE * group.limit_bytes


def prepare_models(
    target: Target, runtime: str, models: Iterable[Model], folder: Path, time_limit_s: float
) -> dict[str, Preparation | None] | Failure:
    """Return the files that the runtime needs to share or take weights, by model digest.

    A process of its own makes them, so that this is not measured.
    """
    step = Step("prepare")
    reach = Reach(Reach.of_models(models).readable, (str(folder.parent),))
    with _failing(step) as attempt, _started(target, reach) as process:
        there = [target.machine.model_there(model) for model in models]
        folder_there = target.machine.folder_there(folder)
        conversation = Conversation(target, process, time_limit_s)
        conversation.write(PYTHON_PROTOCOL.prepare(runtime, there, folder_there), step)
        message: DriverMessage = Preparing()
        signs = 0
        while isinstance(message, Preparing) and signs <= MOST_PREPARING:
            message = conversation.read(step, time_limit_s)
            signs += 1
        try:
            if not isinstance(message, Prepared):
                raise unexpected_kind(message, "prepared")
            check_prepared(message.models, there, folder_there)
        except UnexpectedMessage as error:
            conversation.fail_broken(step, error.problem)
        return message.models
    return attempt.failure


def interface_of(
    target: Target, runtime: str, model: str, time_limit_s: float
) -> Interface | Failure:
    """Return the inputs and outputs of the model as the runtime reads them in a process."""
    step = Step("inspect")
    with _failing(step) as attempt, _started(target, Reach((model,))) as process:
        conversation = Conversation(target, process, time_limit_s)
        conversation.write(target.protocol.inspect(runtime, target.machine.path_there(model)), step)
        message = conversation.read(step, time_limit_s)
        try:
            if not isinstance(message, Described):
                raise unexpected_kind(message, "interface")
            check_interface(message.interface)
        except UnexpectedMessage as error:
            conversation.fail_broken(step, error.problem)
        return message.interface
    return attempt.failure


def estimates_of(
    target: Target, plans: Sequence[Plan], time_limit_s: float
) -> tuple[tuple[dict[str, int], ...], ...] | Failure:
    """Return the account of each context of the plans, which are of one runtime.

    A process of the runtime computes them; it makes no context.
    """
    step = Step("estimate")
    reach = Reach.of_models(model for plan in plans for model in plan.models)
    with _failing(step) as attempt, _started(target, reach) as process:
        there = [target.machine.plan_there(plan) for plan in plans]
        conversation = Conversation(target, process, time_limit_s)
        conversation.write(PYTHON_PROTOCOL.estimate(there), step)
        message = conversation.read(step, time_limit_s)
        try:
            if not isinstance(message, Estimated):
                raise unexpected_kind(message, "estimated")
            check_estimated(message.accounts, plans)
        except UnexpectedMessage as error:
            conversation.fail_broken(step, error.problem)
        return message.accounts
    return attempt.failure


def try_plan(target: Target, plan: Plan, time_limit_s: float) -> list[Barrier] | Failure:
    """Walk the plan in a fresh process without measuring; return its barriers, or its failure."""
    barriers = []
    with _failing(_FIRST) as attempt, _started(target, Reach.of_plan(plan)) as process:
        silent_crash = _SILENT_CRASHES.get(plan.runtime)
        conversation = Conversation(target, process, time_limit_s, silent_crash)
        there = target.machine.plan_there(plan)
        conversation.write(target.protocol.begin(there), _FIRST)
        ran = 0
        for step in plan.steps():
            conversation.write(target.protocol.step(there, step), step)
            barriers.append(conversation.barrier(plan, step, ran, time_limit_s))
            ran += step.phase == "first_inference"
            conversation.write(_GO, step)
        return barriers
    return attempt.failure


@contextlib.contextmanager
def _started(target: Target, reach: Reach) -> Iterator[DriverProcess]:
    process = target.start(reach)
    try:
        yield process
    finally:
        process.close()


class _Attempt:
    """Holds the failure of a conversation that is not measured."""

    failure: Failure


@contextlib.contextmanager
def _failing(step: Step) -> Iterator[_Attempt]:
    """Keep the failure if the conversation stops."""
    attempt = _Attempt()
    try:
        yield attempt
    except Stopped as stopped:
        attempt.failure = stopped.failure
    except TargetError as error:
        attempt.failure = failure_of_target(error, step)


def failure_of_target(error: TargetError, step: Step = _FIRST) -> Failure:
    """Return the failure of a target that cannot be used or reached."""
    kind = "failed"
    if isinstance(error, ConnectionLost):
        kind = "connection_lost"
    elif isinstance(error, NotMeasurable):
        kind = "not_measured"
    return Failure(kind, step.phase, step.context, Message("text", {"text": str(error)}))
