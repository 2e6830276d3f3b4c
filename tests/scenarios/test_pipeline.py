"""Streams of frames with contexts that sleep in place of computing: who takes what, what counts, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from runtimes.base import Context, Copies
from scenarios.frames import STAGES, Checksums, Clock
from scenarios.pipeline import Pipeline
from scenarios.plan import Context as ContextSpec
from scenarios.plan import Plan, Streams
from scenarios.schedule import Worker
from tests.support import models_of

#: Long against what a thread may wait for its turn on a busy machine, short enough for many tests.
_INTERVAL_S = 0.02


class _Sleeper(Context):
    """Sleeps for so long in place of each inference, and knows how many were inside of how many contexts."""

    inside = 0
    most_inside = 0

    def __init__(self, seconds: float = 0.0, fails_at: int = -1) -> None:
        self.seconds, self.fails_at = seconds, fails_at
        self.inferences = 0

    def infer(self) -> None:
        """Sleep."""
        _Sleeper.inside += 1
        _Sleeper.most_inside = max(_Sleeper.most_inside, _Sleeper.inside)
        time.sleep(self.seconds)
        _Sleeper.inside -= 1
        if self.inferences == self.fails_at:
            raise RuntimeError("the NPU is on fire")
        self.inferences += 1

    def outputs(self) -> Sequence[memoryview]:
        """Return some bytes."""
        return [memoryview(b"output")]

    def destroy(self) -> None:
        """Hold nothing."""

    def copies(self) -> Copies:
        """Copy nothing."""
        return Copies(0, 0)


def _schedule(**changes: Any) -> Streams:
    form: dict[str, Any] = {
        "count": 1,
        "fps": 1 / _INTERVAL_S,
        "queue": 0,
        "warm_up_s": 0.0,
        "duration_s": 0.3,
        "video": None,
    }
    return Streams(**{**form, **changes})


class _Told:
    """What a pipeline told, summed up."""

    def __init__(self, messages: list[dict[str, Any]], data: dict[str, Any], took_s: float) -> None:
        self.messages, self.data, self.took_s = messages, data, took_s
        streams = range(len(messages[-1]["streams"]))
        #: By stream.
        self.rows = [[row for each in messages for row in each["streams"][stream]["rows"]] for stream in streams]
        self.last = messages[-1]["streams"]

    def lost(self, stream: int = 0) -> int:
        return int(self.last[stream]["dropped"] + self.last[stream]["missed"])


def _run(
    schedule: Streams,
    contexts: Sequence[_Sleeper],
    specs: Sequence[ContextSpec] | None = None,
    stopped: Callable[[float], bool] | None = None,
) -> _Told:
    """Run the schedule with these contexts, by default all of stream 0."""
    placed = tuple(specs or [ContextSpec(0, 0) for _ in contexts])
    plan = Plan("mine", None, "x", models_of("m"), placed, cores=2, rounds=1, schedule=schedule)
    workers = [Worker(f"context-{index}") for index in range(len(contexts))]
    messages: list[dict[str, Any]] = []
    started = time.monotonic()
    try:
        data = Pipeline(plan, contexts, workers, []).run(messages.append, stopped or _sleep)
    finally:
        for worker in workers:
            worker.stop()
    return _Told(messages, data, time.monotonic() - started)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _look(_: float) -> bool:
    return _sleep(0.05)


def test_every_frame_has_one_fate() -> None:
    """What was due was done, dropped or missed, in every stream."""
    specs = [ContextSpec(stream, 0) for stream in (0, 1)]
    told = _run(_schedule(count=2), [_Sleeper(), _Sleeper(2.5 * _INTERVAL_S)], specs)
    for stream in (0, 1):
        assert told.last[stream]["due"] == len(told.rows[stream]) + told.lost(stream)
    assert told.lost(1) > told.lost(0)


def test_as_many_frames_are_due_as_the_pace_says() -> None:
    """However long each takes: a slow context loses frames, and slows nothing down."""
    for context in (_Sleeper(), _Sleeper(5 * _INTERVAL_S)):
        told = _run(_schedule(duration_s=0.4), [context])
        assert told.last[0]["due"] == round(0.4 / _INTERVAL_S)


def test_contexts_of_a_stream_share_its_frames() -> None:
    """Three contexts keep what one alone would lose."""
    slow_s = 2.2 * _INTERVAL_S
    alone = _run(_schedule(), [_Sleeper(slow_s)])
    three = [_Sleeper(slow_s) for _ in range(3)]
    together = _run(_schedule(), three)
    assert len(together.rows[0]) > 1.5 * len(alone.rows[0])
    counts = [each.inferences for each in three]
    assert max(counts) - min(counts) <= 2


def test_contexts_without_a_stream_serve_all() -> None:
    """Frames of every stream come to the same contexts."""
    contexts = [_Sleeper(), _Sleeper()]
    told = _run(_schedule(count=4), contexts, [ContextSpec(None, 0)] * 2)
    assert all(told.rows)
    assert sum(each.inferences for each in contexts) == sum(map(len, told.rows))


def test_latency_begins_when_the_frame_is_due() -> None:
    """The stages of a frame add up to its latency, and waiting for a context is one of them."""
    told = _run(_schedule(queue=3), [_Sleeper(1.5 * _INTERVAL_S)])
    assert told.rows[0]
    for latency_ns, *stages_ns in told.rows[0]:
        assert len(stages_ns) == len(STAGES)
        assert sum(stages_ns) == latency_ns
    queued_ns = [dict(zip(STAGES, stages))["queue"] for _, *stages in told.rows[0]]
    assert max(queued_ns) > _INTERVAL_S * 1e9 / 2


def test_a_queue_keeps_frames_that_would_be_dropped() -> None:
    """Of a burst that is over soon nothing is lost with a queue."""
    slow_s = 1.3 * _INTERVAL_S
    lost = [_run(_schedule(queue=queue), [_Sleeper(slow_s)]).lost() for queue in (0, 20)]
    assert lost[0] > 2
    assert lost[1] == 0


def test_the_warm_up_does_not_count() -> None:
    """Frames are inferred in it, and appear nowhere."""
    context = _Sleeper()
    told = _run(_schedule(warm_up_s=0.3, duration_s=0.2), [context])
    assert told.last[0]["due"] == round(0.2 / _INTERVAL_S) == len(told.rows[0])
    assert context.inferences == round(0.5 / _INTERVAL_S)
    assert told.data["seconds"] == pytest.approx(0.2)


def test_as_fast_as_possible() -> None:
    """Without a pace a context is always busy, nothing is lost, and no frame waits for its time."""
    context = _Sleeper(_INTERVAL_S)
    told = _run(_schedule(fps=0.0, duration_s=0.4), [context])
    assert told.lost() == 0
    assert len(told.rows[0]) > 0.6 * 0.4 / _INTERVAL_S
    waits_ns = [row[1 + STAGES.index("wait")] for row in told.rows[0]]
    assert max(waits_ns) < _INTERVAL_S * 1e9


def test_frames_are_counted_without_any_context() -> None:
    """Decoding alone: a row has the stages until then."""
    told = _run(_schedule(), [], [])
    assert told.lost() == 0
    assert {len(row) for row in told.rows[0]} == {1 + STAGES.index("decode") + 1}


def test_the_harness_ends_it_early() -> None:
    """What was due until then has its fate, and the time is what has passed."""

    def stopped(_: float) -> bool:
        time.sleep(0.2)
        return True

    told = _run(_schedule(duration_s=600.0), [_Sleeper()], stopped=stopped)
    assert told.took_s < 60
    assert 0.2 <= told.data["seconds"] <= told.took_s
    assert told.last[0]["due"] == len(told.rows[0]) + told.lost() > 0


@pytest.mark.parametrize("fps", [1 / _INTERVAL_S, 0.0])
def test_a_failing_context_ends_it_with_its_error(fps: float) -> None:
    """Nobody goes on, and nobody waits for it, whatever the pace."""
    with pytest.raises(RuntimeError, match="the NPU is on fire"):
        _run(_schedule(fps=fps, duration_s=600.0), [_Sleeper(), _Sleeper(fails_at=2)], stopped=_look)


def test_a_context_may_fail_at_its_last_frame() -> None:
    """While the others are let through: its error comes out too."""
    with pytest.raises(RuntimeError, match="the NPU is on fire"):
        _run(_schedule(fps=1.0, duration_s=0.1), [_Sleeper(0.3, fails_at=0)])


def test_contexts_that_share_an_internal_memory_infer_in_turn() -> None:
    """Others infer at the same time."""
    for internal in (0, None):
        _Sleeper.most_inside = 0
        specs = [ContextSpec(0, 0, internal=internal, core=0)] * 3
        _run(_schedule(queue=5), [_Sleeper(1.5 * _INTERVAL_S) for _ in specs], specs)
        assert (_Sleeper.most_inside > 1) is (internal is None)


def test_no_thread_is_left() -> None:
    """Of the streams; those of the contexts go with them."""
    before = set(threading.enumerate())
    _run(_schedule(count=3, duration_s=0.05), [_Sleeper()], [ContextSpec(None, 0)])
    assert set(threading.enumerate()) <= before


def test_streams_are_evenly_apart() -> None:
    """Frames of four streams are due a quarter of the interval after each other."""
    clock = Clock(_schedule(count=4, fps=25.0))
    due_ns = sorted(clock.due_ns(stream, number) for stream in range(4) for number in range(3))
    assert {later - earlier for earlier, later in zip(due_ns, due_ns[1:])} == {10_000_000}


def test_streams_begin_one_after_the_other_within_the_first_second() -> None:
    """Their key frames, one a second, do not come at the same moment; nothing of it is left where frames count."""
    clock = Clock(_schedule(count=4, fps=30.0, warm_up_s=2.0))
    begin_s = [(clock.due_ns(stream, 0) - clock.start_ns) / 1e9 for stream in range(4)]
    assert all(0.2 < later - earlier < 0.3 for earlier, later in zip(begin_s, begin_s[1:]))
    assert begin_s[-1] < 1.0
    second_ns = 1_000_000_000
    for stream in range(4):
        due = [
            number
            for number in range(200)
            if clock.begin_ns <= clock.due_ns(stream, number) < clock.begin_ns + second_ns
        ]
        assert len(due) == 30
        assert clock.newest(stream, clock.due_ns(stream, 77) + 1000) == 77


def test_a_stream_that_is_behind_goes_on_with_the_newest_frame() -> None:
    """What it passed over is missed: a stream that stood still does not work them off."""
    schedule = _schedule(fps=50.0, duration_s=1.6)

    class Slow:
        """A decoder that stands still once."""

        def __init__(self) -> None:
            self.frames = self.restarts = 0

        def next_frame(self) -> tuple[int, None]:
            self.frames += 1
            if self.frames == 5:
                time.sleep(1.3)
            return self.frames, None

        def restart(self) -> None:
            self.restarts += 1

    decoder = Slow()
    plan = Plan("mine", None, "x", models_of("m"), (), cores=1, rounds=1, schedule=schedule)
    messages: list[dict[str, Any]] = []
    decoders: Any = [decoder]
    Pipeline(plan, [], [], decoders).run(messages.append, _sleep)
    last = messages[-1]["streams"][0]
    assert decoder.restarts == 1
    assert last["missed"] > 50
    assert last["due"] == 80 == last["missed"] + sum(len(each["streams"][0]["rows"]) for each in messages)


def test_outputs_of_a_frame_are_compared_with_its_first() -> None:
    """As often as it comes again; of a long video only the first frames are kept, in a fixed amount of memory."""
    checksums = Checksums()
    for number, value in ((0, 7), (1, 8), (0, 7), (1, 9), (10**6, 1), (10**6, 2)):
        checksums.note(number, value)
    assert checksums.unequal == 1
    assert checksums.known() == {0: 7, 1: 8}
