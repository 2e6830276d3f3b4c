"""The messages of a running driver: each is checked before anything is done with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn, Optional, Protocol

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan, Step
from reusebench.measured.runtimes.rknn.diagnosis import cause_of_crash
from reusebench.samplers.readings import Reading
from reusebench.targets.barriers import Barrier, DriverFailure, DriverMessage, Frames
from reusebench.targets.errors import InputNotRead
from reusebench.targets.outcome import PROTOCOL_BROKEN, Failure, classify_exit, classify_failure
from reusebench.targets.process import DriverProcess
from reusebench.targets.protocol.base import InvalidMessage
from reusebench.targets.protocol.expected import (
    FramesCheck,
    Span,
    UnexpectedMessage,
    check_barrier,
    check_failure,
    unexpected_kind,
)
from reusebench.targets.target import Target

__all__ = ["Conversation", "MemoryObserver", "Stopped"]

#: Longest message. The longest that a plan can ask for, of latencies or frames, has some megabytes.
_MOST_LINE_BYTES = 64 << 20


class MemoryObserver(Protocol):
    """Reads memory: `sample` every `interval_s` between barriers, `snapshot` at a barrier."""

    interval_s: float

    def attach(self, pid: int) -> None:
        """Start to read this process."""

    def detach(self) -> None:
        """Stop reading."""

    def sample(self) -> None:
        """Take one cheap reading."""

    def snapshot(self) -> Reading:
        """Take one full reading.

        Raises ProcessLookupError if the process has gone, OSError if it cannot be read.
        """


class Stopped(Exception):
    """The process cannot go on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Conversation:
    """The messages of a running driver. Every method that waits raises Stopped."""

    def __init__(
        self,
        target: Target,
        process: DriverProcess,
        time_limit_s: float,
        silent_crash: Optional[str] = None,
    ) -> None:
        """`silent_crash` is the code of what a crash without words means with the runtime."""
        self._silent_crash = silent_crash
        self._protocol = target.protocol
        self._host = target.machine.host
        self._process = process
        self._time_limit_s = time_limit_s
        self._received = bytearray()
        #: Length of the received bytes that are known to have no end of a line.
        self._searched = 0
        #: Time when the process was last told to go on; its next message is later.
        self._told_ns = process.started_ns

    def write(self, data: bytes, step: Step) -> int:
        """Send `data`, which begins or goes on with `step`; return the time by the target's clock.

        If the process has gone, the next read fails.
        """
        if self._received:
            self.fail_broken(step, Message("protocol_early"))
        if not data:
            return self._told_ns
        try:
            sent_ns = self._process.send(data, self._time_limit_s)
        except InputNotRead:
            seconds = f"{self._time_limit_s:g}"
            self._fail("hung", step, Message("input_not_read", {"seconds": seconds}))
        self._told_ns = max(self._told_ns, sent_ns)
        return sent_ns

    def interrupt(self, word: bytes) -> None:
        """Send a word while the process is in a step."""
        self._process.send(word, self._time_limit_s)

    def barrier(
        self,
        plan: Plan,
        step: Step,
        contexts: int,
        limit_s: float,
        observer: MemoryObserver | None = None,
        take_frames: Callable[[Frames], None] = lambda _: None,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> Barrier:
        """Return the barrier that ends the step; pass earlier frames on.

        `contexts` is the number of contexts that have run. The observer samples meanwhile.
        """
        frames = None
        if step.phase == "steady" and plan.schedule is not None:
            frames = FramesCheck(plan, plan.schedule)
        while True:
            message = self.read(step, limit_s, observer)
            span = Span(self._told_ns, self._host.now_ns())
            try:
                if isinstance(message, Frames) and frames is not None:
                    frames.check(message, span)
                elif isinstance(message, Barrier):
                    check_barrier(message, plan, step, contexts, span)
                    if frames is not None:
                        frames.check_end(message.data, is_interrupted())
                    return message
                else:
                    raise unexpected_kind(message, "barrier")
            except UnexpectedMessage as error:
                self.fail_broken(step, error.problem)
            take_frames(message)

    def read(
        self, step: Step, limit_s: float, observer: MemoryObserver | None = None
    ) -> DriverMessage:
        """Return the next message, which is no failure; let the observer sample while waiting."""
        deadline = time.monotonic() + limit_s
        next_sample = time.monotonic()
        line = self._line(step)
        while line is None:
            now = time.monotonic()
            if now >= deadline:
                self._fail("hung", step, Message("no_answer", {"seconds": f"{limit_s:g}"}))
            if observer is None:
                next_sample = deadline
            elif now >= next_sample:
                observer.sample()
                next_sample = max(next_sample + observer.interval_s, now)
            self._receive(min(next_sample, deadline) - time.monotonic(), step)
            line = self._line(step)

        try:
            message = self._protocol.decode(line)
            if isinstance(message, DriverFailure):
                check_failure(message, step)
        except InvalidMessage as error:
            self.fail_broken(step, str(error))
        except UnexpectedMessage as error:
            self.fail_broken(step, error.problem)
        if isinstance(message, DriverFailure):
            kind = classify_failure(message.kind, message.message, self.last_words())
            self._fail(kind, Step(message.phase, message.context), message.message)
        return message

    def fail_ended(self, step: Step) -> NoReturn:
        """Raise Stopped for a process that has ended by itself."""
        ending = self._process.ending()
        last_words = self.last_words()
        kind, message = classify_exit(ending, last_words)
        cause = cause_of_crash(last_words)
        if cause is None and kind == "crashed" and self._silent_crash:
            cause = Message(self._silent_crash)
        if cause:
            message = Message("process_end_explained", {"cause": cause, "end": message})
        self._fail(kind, step, message)

    def fail_broken(self, step: Step, problem: Message | str) -> NoReturn:
        """Raise Stopped for a process that has sent what is no message of the step."""
        self._fail("failed", step, Message(PROTOCOL_BROKEN, {"line": problem}))

    def fail_unreadable(self, step: Step, error: OSError) -> NoReturn:
        """Raise Stopped for a process whose memory cannot be read."""
        reason = error.strerror or type(error).__name__
        self._fail("failed", step, Message("process_not_readable", {"reason": reason}))

    def last_words(self) -> str:
        """Return the end of standard error."""
        return self._process.last_words()

    def _line(self, step: Step) -> bytes | None:
        """Return the next received line without its end; None if there is none yet."""
        end = self._received.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._received)
            if self._searched > _MOST_LINE_BYTES:
                most_mib = _MOST_LINE_BYTES >> 20
                self.fail_broken(step, Message("protocol_too_long", {"mib": most_mib}))
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        return line

    def _receive(self, timeout_s: float, step: Step) -> None:
        chunk = self._process.receive(max(0.0, timeout_s))
        if chunk == b"":
            self.fail_ended(step)
        self._received += chunk or b""

    def _fail(self, kind: str, step: Step, message: Message) -> NoReturn:
        raise Stopped(Failure(kind, step.phase, step.context, message, self.last_words()))
