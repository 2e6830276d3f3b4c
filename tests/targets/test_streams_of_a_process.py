"""Streams in a measured process: their messages, their end by Ctrl-C, and their failures."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reusebench.measured.plan import Plan, Streams
from reusebench.samplers.readings import Reading
from reusebench.system.interrupts import first_interrupt_calls
from reusebench.targets.barriers import Frames
from reusebench.targets.measured_process import MeasuredRun
from tests.helpers.support import TIME_LIMIT_S, StubListener, StubObserver, make_plan, walk
from tests.targets.clock import Clock

pytestmark = pytest.mark.process

_FPS = 50.0


def _plan(script: str, duration_s: float) -> Plan:
    schedule = Streams(count=2, fps=_FPS, queue=0, warm_up_s=0.0, duration_s=duration_s, video=None)
    return make_plan("streams_full_dup", script, streams=2, contexts=1, schedule=schedule)


class _Messages(StubListener):
    """A listener that keeps the messages and interrupts this process after `interrupt_after`."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.kept: list[Frames] = []
        self._interrupt_after = interrupt_after

    def frames(self, message: Frames, run: MeasuredRun) -> None:
        """Keep the message."""
        assert run.barriers[-1].phase == "first_inference"
        self.kept.append(message)
        if len(self.kept) == self._interrupt_after:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def default_interrupt() -> Iterator[None]:
    """Restore the handler of SIGINT after the test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_frames_are_reported_while_they_run() -> None:
    """Messages come once a second and at the end; memory is read at the same barriers."""
    messages = _Messages()
    run = walk(_plan("plain", duration_s=1.4), listener=messages)
    assert run.failure is None
    seconds = [message.seconds for message in messages.kept]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 1.0
    assert seconds[-1] >= 1.4
    assert len(seconds) >= 2
    for stream in (0, 1):
        counts = [message.streams[stream] for message in messages.kept]
        done = sum(len(count.rows) for count in counts)
        assert done + counts[-1].dropped + counts[-1].missed == 1.4 * _FPS
    assert [reading.phase for reading in run.barriers] == [
        *("imported", "context", "context", "first_inference", "first_inference"),
        *("steady", "trimmed", "destroy", "destroy"),
    ]


def test_ctrl_c_ends_streams_in_order() -> None:
    """Frames until then are measured, the walk goes on to its end, and the run is marked."""
    messages = _Messages(interrupt_after=1)
    run = walk(_plan("plain", duration_s=3600.0), listener=messages)
    assert run.interrupted
    assert run.failure is None
    assert run.barriers[-1].phase == "destroy"
    (steady,) = (reading for reading in run.barriers if reading.phase == "steady")
    assert 1.0 <= steady.data.seconds < 3600.0
    assert len(messages.kept) >= 2


def test_a_stop_that_comes_too_late_ends_nothing() -> None:
    """Streams may have ended when the harness writes `stop`; the walk goes on to its end."""

    class Late(StubObserver):
        """An observer during whose reading at the steady barrier `stop` is written."""

        def snapshot(self) -> Reading:
            """Write it."""
            if len(self.answers) == plan_steps.index("steady"):
                commands = Path(f"/proc/{self.pid}/fd/0")
                with commands.open("wb", buffering=0) as pipe:
                    pipe.write(b"stop\n")
            return super().snapshot()

    plan = _plan("plain", duration_s=0.1)
    plan_steps = [step.phase for step in plan.steps()]
    run = walk(plan, observer=Late())
    assert run.failure is None
    assert [reading.phase for reading in run.barriers if reading.phase != "trimmed"] == plan_steps


def test_a_second_ctrl_c_is_not_waited_for() -> None:
    """The user wants to end at once."""
    ended: list[bool] = []
    before = signal.getsignal(signal.SIGINT)

    def interrupt_twice() -> None:
        with first_interrupt_calls(lambda: ended.append(True)):
            os.kill(os.getpid(), signal.SIGINT)
            assert ended == [True]
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(TIME_LIMIT_S)

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert signal.getsignal(signal.SIGINT) == before


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    """A job in the background ignores it, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with first_interrupt_calls(lambda: pytest.fail("it was called")):
        os.kill(os.getpid(), signal.SIGINT)


def test_only_the_main_thread_takes_ctrl_c() -> None:
    """Other threads cannot set handlers, and nothing fails there."""
    handlers = []

    def enter() -> None:
        with first_interrupt_calls(lambda: None):
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(TIME_LIMIT_S)
    assert handlers == [signal.default_int_handler]


def test_a_context_that_fails_among_frames_is_a_result() -> None:
    """It has the runtime's error and the phase."""
    failure = walk(_plan("raise@outputs9", duration_s=3600.0)).failure
    assert failure is not None
    assert (failure.kind, failure.phase, failure.context) == ("failed", "steady", None)
    assert "the script says so" in str(failure.message)


def test_streams_that_hang_are_ended_at_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end at the limit for silence, however long they are to run."""
    log = tmp_path / "log"
    clock = Clock(monkeypatch, log, "outputs9")
    failure = walk(_plan(f"log={log};hang@outputs9", duration_s=0.5), observer=clock).failure
    assert failure is not None
    assert (failure.kind, failure.phase) == ("hung", "steady")
