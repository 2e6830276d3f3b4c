"""Streams in a measured process: what is heard of them, how Ctrl-C ends them, and how they fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from scenarios.plan import Streams
from targets.interrupt import first_interrupt_calls
from targets.measured_process import Run
from tests.support import TIME_LIMIT_S, Deaf, make_plan, walk

_FPS = 50.0


def _schedule(duration_s: float) -> Streams:
    return Streams(count=2, fps=_FPS, queue=0, warm_up_s=0.0, duration_s=duration_s, video=None)


class _Hears(Deaf):
    """Keeps the messages; sends itself a signal after so many."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self._interrupt_after = interrupt_after

    def frames(self, message: dict[str, Any], run: Run) -> None:
        """Keep it."""
        assert run.phases[-1]["phase"] == "first_inference"
        self.messages.append(message)
        if len(self.messages) == self._interrupt_after:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """A job in the background has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_frames_are_heard_of_while_they_run() -> None:
    """Once a second and at the end, and every frame that was due is in one of the messages."""
    hears = _Hears()
    run = walk(make_plan("streams_full_dup", "plain", streams=2, schedule=_schedule(2.5)), listener=hears)
    assert run.failure is None
    assert [round(each["seconds"], 1) for each in hears.messages] == [1.0, 2.0, 2.5]
    for stream in (0, 1):
        counted = [each["streams"][stream] for each in hears.messages]
        assert counted[-1]["due"] == 2.5 * _FPS
        done = sum(len(each["rows"]) for each in counted)
        assert done + counted[-1]["dropped"] + counted[-1]["missed"] == counted[-1]["due"]


def test_steps_of_streams_without_a_video() -> None:
    """The memory is read at the steady barrier, as allocated and trimmed, as in any other plan."""
    run = walk(make_plan("streams_full_dup", "plain", streams=2, contexts=1, schedule=_schedule(0.2)))
    phases = [each["phase"] for each in run.phases]
    assert phases == [
        *("imported", "context", "context", "first_inference", "first_inference"),
        *("steady", "trimmed", "destroy", "destroy"),
    ]


def test_ctrl_c_ends_streams_in_order() -> None:
    """What they did is measured, the plan is walked to its end, and the run says that it was interrupted."""
    hears = _Hears(interrupt_after=1)
    started = time.monotonic()
    run = walk(make_plan("streams_full_dup", "plain", schedule=_schedule(60.0), streams=2), listener=hears)
    assert time.monotonic() - started < 30
    assert run.interrupted
    assert run.failure is None
    assert run.phases[-1]["phase"] == "destroy"
    (steady,) = (each for each in run.phases if each["phase"] == "steady")
    assert 1.0 <= steady["data"]["seconds"] < 30
    assert len(hears.messages) == 2


def test_a_second_ctrl_c_is_not_waited_for() -> None:
    """The user wants an end at once."""
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
    """As that of a job in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with first_interrupt_calls(lambda: pytest.fail("it was heard")):
        os.kill(os.getpid(), signal.SIGINT)


def test_only_the_main_thread_hears_ctrl_c() -> None:
    """Elsewhere handlers cannot be set; nothing fails there."""
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            with first_interrupt_calls(lambda: None):
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert failed == []


def test_a_context_that_fails_among_frames_is_a_result() -> None:
    """With the runtime's error and the phase; what was told before is kept by who heard it."""
    plan = make_plan("streams_full_dup", "raise@outputs9", streams=2, schedule=_schedule(60.0))
    run = walk(plan)
    assert run.failure is not None
    assert (run.failure.kind, run.failure.phase, run.failure.context) == ("failed", "steady", None)
    assert "the script says so" in str(run.failure.message)


def test_streams_that_hang_are_ended_at_the_time_limit() -> None:
    """However long they are to run: they are silent when the last frames do not come through."""
    plan = make_plan("streams_full_dup", "hang@outputs9", streams=2, schedule=_schedule(0.5))
    started = time.monotonic()
    run = walk(plan, time_limit_s=2.0)
    assert time.monotonic() - started < 60
    assert run.failure is not None
    assert (run.failure.kind, run.failure.phase) == ("hung", "steady")
