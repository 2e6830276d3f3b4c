"""Streams of frames with contexts that wait instead of computing.

The tests do not depend on how busy the machine is: frames wait in a queue if all are to be done,
and contexts meet inside an inference if they are to run at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import av
import pytest

from reusebench.measured.plan import Context, Plan, Streams
from reusebench.measured.runtimes.base import Copies, ImageInput, NotSupported, RuntimeContext
from reusebench.measured.schedule import Worker
from reusebench.measured.streams import threads
from reusebench.measured.streams.pipeline import Pipeline
from reusebench.measured.streams.threads import STAGES, Checksums, Clock
from tests.helpers.support import TIME_LIMIT_S, models_of

_INTERVAL_S = 0.01
#: More than there are frames, so that none is dropped.
_LONG_QUEUE = 1000


class _Concurrency:
    """The number of contexts that are in an inference at once."""

    def __init__(self, meeting: int = 1) -> None:
        self._lock = threading.Lock()
        self._meeting = threading.Barrier(meeting)
        self.inside = self.most_inside = 0

    def enter(self, meets: bool) -> None:
        with self._lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        if meets:
            self._meeting.wait(TIME_LIMIT_S)

    def leave(self) -> None:
        with self._lock:
            self.inside -= 1


class _Waiter(RuntimeContext):
    """A context that waits; in the first inference it waits for the other contexts to meet."""

    def __init__(
        self,
        seconds: float = 0.0,
        fails_at: int = -1,
        concurrency: _Concurrency | None = None,
    ) -> None:
        self.seconds = seconds
        self.fails_at = fails_at
        self.concurrency = concurrency or _Concurrency()
        self.inferences = 0

    def infer(self) -> None:
        """Wait."""
        self.concurrency.enter(meets=self.inferences == 0)
        time.sleep(self.seconds)
        self.concurrency.leave()
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


def _schedule(
    count: int = 1,
    fps: float = 1 / _INTERVAL_S,
    queue: int = 0,
    warm_up_s: float = 0.0,
    duration_s: float = 0.15,
) -> Streams:
    return Streams(count, fps, queue, warm_up_s, duration_s, video=None)


class _Done:
    """The messages of a pipeline, summed up."""

    def __init__(self, messages: list[dict[str, Any]], data: dict[str, Any]) -> None:
        self.seconds: float = data["seconds"]
        self.begin_ns: int = data["begin_ns"]
        #: Checksums of outputs, by model and by number of the frame.
        self.checksums: list[dict[int, int]] = data["frame_checksums"]
        last = messages[-1]["streams"]
        #: Frames lost, by stream.
        self.lost = [int(stream["dropped"] + stream["missed"]) for stream in last]
        self.rows: list[list[Any]] = [[] for _ in last]
        for message in messages:
            for rows, stream in zip(self.rows, message["streams"]):
                rows += stream["rows"]
        #: Frames that were done, dropped or missed, by stream.
        self.due = [len(rows) + lost for rows, lost in zip(self.rows, self.lost)]


def _run(
    schedule: Streams,
    contexts: Sequence[_Waiter] = (),
    specs: Sequence[Context] | None = None,
    stopped: Callable[[float], bool] | None = None,
    decoders: Sequence[Any] = (),
    chains: tuple[tuple[int, ...], ...] = (),
) -> _Done:
    """Run the schedule with these contexts, by default all of stream 0."""
    context_specs = tuple(specs or [Context(0, 0) for _ in contexts])
    plan = Plan(
        "mine",
        None,
        "x",
        models_of("m", "n"),
        context_specs,
        2,
        rounds=1,
        schedule=schedule,
        chains=chains,
    )
    of_chains = {chain: Worker(f"chain-{chain}") for chain in plan.all_chains()}
    workers = [of_chains[plan.chain_of(index)] for index in range(len(contexts))]
    messages: list[dict[str, Any]] = []
    try:
        data = Pipeline(plan, contexts, workers, decoders).run(messages.append, stopped or _sleep)
    finally:
        for worker in of_chains.values():
            worker.stop()
    return _Done(messages, data)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@pytest.mark.parametrize("slow", [0, 2.5, 5])
def test_every_frame_that_is_due_is_counted_once(slow: float) -> None:
    """It was done, dropped or missed: a slow context loses frames, and slows nothing down."""
    specs = [Context(stream, 0) for stream in (0, 1)]
    done = _run(_schedule(count=2, duration_s=0.2), [_Waiter(), _Waiter(slow * _INTERVAL_S)], specs)
    frames = round(0.2 / _INTERVAL_S)
    assert done.due == [frames, frames]
    assert len(done.rows[1]) <= (0.2 / (slow * _INTERVAL_S) + 1 if slow else frames)


def test_contexts_of_a_stream_share_its_frames() -> None:
    """Three frames of one stream are inferred at once, by three contexts that take them in turn."""
    contexts = [_Waiter(concurrency=meeting) for meeting in [_Concurrency(meeting=3)] * 3]
    done = _run(_schedule(queue=_LONG_QUEUE), contexts)
    assert contexts[0].concurrency.most_inside == 3
    assert (
        sum(context.inferences for context in contexts)
        == len(done.rows[0])
        == round(0.15 / _INTERVAL_S)
    )


def test_contexts_without_a_stream_serve_all() -> None:
    """The same contexts take frames of every stream."""
    contexts = [_Waiter(), _Waiter()]
    done = _run(_schedule(count=4, queue=_LONG_QUEUE), contexts, [Context(None, 0)] * 2)
    assert [len(rows) for rows in done.rows] == [round(0.15 / _INTERVAL_S)] * 4
    assert sum(context.inferences for context in contexts) == sum(map(len, done.rows))


def test_latency_begins_when_the_frame_is_due() -> None:
    """Frames are due at equal intervals after the warm-up; waiting for a context is a stage."""
    done = _run(_schedule(queue=3), [_Waiter(1.5 * _INTERVAL_S)])
    dues_ns = [due_ns for due_ns, *_ in done.rows[0]]
    assert dues_ns[0] == done.begin_ns
    assert {(due_ns - dues_ns[0]) % round(_INTERVAL_S * 1e9) for due_ns in dues_ns} == {0}
    for _, *stages_ns in done.rows[0]:
        assert len(stages_ns) == len(STAGES)
    queued_ns = [dict(zip(STAGES, stages))["queue"] for _, *stages in done.rows[0]]
    assert max(queued_ns) > _INTERVAL_S * 1e9 / 2


def test_a_queue_keeps_frames_that_would_be_dropped() -> None:
    """With a queue, a short burst loses nothing."""
    lost = [
        _run(_schedule(queue=queue), [_Waiter(2.2 * _INTERVAL_S)]).lost
        for queue in (0, _LONG_QUEUE)
    ]
    assert lost[0][0] > 2
    assert lost[1] == [0]


def test_the_warm_up_does_not_count() -> None:
    """Its frames are inferred, but appear nowhere."""
    context = _Waiter()
    done = _run(_schedule(warm_up_s=0.15, duration_s=0.1, queue=_LONG_QUEUE), [context])
    assert len(done.rows[0]) == round(0.1 / _INTERVAL_S)
    assert done.lost == [0]
    assert context.inferences == round(0.25 / _INTERVAL_S)
    assert done.seconds == pytest.approx(0.1)


def test_as_fast_as_possible() -> None:
    """Without a pace nothing is lost, and no frame waits for its time."""
    context = _Waiter(_INTERVAL_S / 4)
    done = _run(_schedule(fps=0.0), [context])
    assert done.lost == [0]
    assert len(done.rows[0]) == context.inferences > 1
    waits_ns = sorted(row[1 + STAGES.index("wait")] for row in done.rows[0])
    assert waits_ns[len(waits_ns) // 2] < 2 * _INTERVAL_S * 1e9


def test_frames_are_counted_without_any_context() -> None:
    """With decoding alone, a row has the stages up to it."""
    done = _run(_schedule())
    assert done.lost == [0]
    assert {len(row) for row in done.rows[0]} == {1 + STAGES.index("decode") + 1}


def test_the_harness_ends_it_early() -> None:
    """Frames due until then are counted, and the time is what has passed."""
    started = time.monotonic()
    done = _run(_schedule(duration_s=3600.0), [_Waiter()], stopped=lambda _: not _sleep(0.2))
    assert 0.2 <= done.seconds <= time.monotonic() - started
    assert done.due[0] > 0


@pytest.mark.parametrize("fps", [1 / _INTERVAL_S, 0.0])
def test_a_failing_context_ends_it_with_its_error(fps: float) -> None:
    """All other threads end, and none waits for it, whatever the pace."""
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="the NPU is on fire"):
        _run(_schedule(fps=fps, duration_s=TIME_LIMIT_S), [_Waiter(), _Waiter(fails_at=2)])
    assert time.monotonic() - started < TIME_LIMIT_S, "the schedule ended it"


def test_a_context_may_fail_at_its_last_frame() -> None:
    """Its error is raised too, while the last frames are waited for."""
    with pytest.raises(RuntimeError, match="the NPU is on fire"):
        _run(_schedule(fps=1.0, duration_s=0.1), [_Waiter(0.3, fails_at=0)])


def test_contexts_that_share_an_internal_memory_infer_in_turn() -> None:
    """Contexts of other memories infer at the same time, as tested above."""
    specs = [Context(0, 0, internal=0, core=0)] * 3
    concurrency = _Concurrency()
    _run(
        _schedule(queue=_LONG_QUEUE, duration_s=0.1),
        [_Waiter(_INTERVAL_S, concurrency=concurrency) for _ in specs],
        specs,
    )
    assert concurrency.most_inside == 1


def test_a_frame_goes_through_a_chain() -> None:
    """Its contexts infer in order, never at once, and the frame's latency is that of all."""
    order: list[str] = []
    concurrency = _Concurrency()

    class Noting(_Waiter):
        def __init__(self, name: str) -> None:
            super().__init__(_INTERVAL_S / 4, concurrency=concurrency)
            self.name = name

        def infer(self) -> None:
            super().infer()
            order.append(self.name)

    contexts = [Noting(name) for name in ("recognise", "detect", "track")]
    done = _run(_schedule(queue=_LONG_QUEUE), contexts, chains=((1, 0, 2),))
    frames = round(0.15 / _INTERVAL_S)
    assert order == ["detect", "recognise", "track"] * frames
    assert concurrency.most_inside == 1
    assert len(done.rows[0]) == frames
    assert (
        min(dict(zip(STAGES, stages))["inference"] for _, *stages in done.rows[0])
        >= 0.75 * _INTERVAL_S * 1e9
    )


def test_chains_of_a_stream_share_its_frames() -> None:
    """Two chains of two take frames in turn; each frame goes through one whole chain."""
    contexts = [_Waiter(_INTERVAL_S) for _ in range(4)]
    done = _run(_schedule(queue=_LONG_QUEUE), contexts, chains=((0, 1), (2, 3)))
    counts = [context.inferences for context in contexts]
    assert counts[0] == counts[1] > 0 < counts[2] == counts[3]
    assert counts[0] + counts[2] == len(done.rows[0])


class _Pictured(_Waiter):
    """A context whose input is a picture of 4 x 4 bytes, or none."""

    def __init__(self, has_picture: bool) -> None:
        super().__init__()
        self.input = bytearray(16)
        self._has_picture = has_picture

    def image_input(self) -> ImageInput:
        """Return the input."""
        if not self._has_picture:
            raise NotSupported("no_picture_input", shapes="1x128")
        return ImageInput(memoryview(self.input), 4, 4, 1, "nchw", "uint8", 4)


class _White:
    """A decoder of white frames."""

    def next_frame(self) -> tuple[int, Any]:
        """Return the first frame."""
        frame = av.VideoFrame(4, 4, "gray")
        frame.planes[0].update(b"\xff" * frame.planes[0].buffer_size)
        return 0, frame

    def restart(self) -> None:
        """Begin again."""


def test_every_context_of_a_chain_gets_the_frame() -> None:
    """Its outputs are compared; a context without a picture keeps its input, and infers too."""
    contexts = [_Pictured(True), _Pictured(False), _Pictured(True)]
    specs = [Context(0, 0), Context(0, 0), Context(0, 1)]
    done = _run(_schedule(), contexts, specs, decoders=[_White()], chains=((0, 1, 2),))
    assert [list(of_model) for of_model in done.checksums] == [[0], [0]]
    assert [set(context.input) for context in contexts] == [{255}, {0}, {255}]
    assert contexts[0].inferences == contexts[1].inferences > 0


def test_the_first_of_a_chain_takes_the_frame() -> None:
    """If its model takes no picture, streams are not supported."""
    contexts = [_Pictured(True), _Pictured(False)]
    with pytest.raises(NotSupported, match="no input of the model is a picture"):
        _run(_schedule(), contexts, decoders=[_White()], chains=((1, 0),))


def test_no_thread_is_left() -> None:
    """Threads of streams end with the run, those of contexts with the contexts."""
    before = set(threading.enumerate())
    _run(_schedule(count=3, duration_s=0.05), [_Waiter()], [Context(None, 0)])
    assert set(threading.enumerate()) <= before


def test_streams_are_evenly_apart() -> None:
    """Frames of four streams are due a quarter of the interval after each other."""
    clock = Clock(_schedule(count=4, fps=25.0))
    due_ns = sorted(clock.due_ns(stream, number) for stream in range(4) for number in range(3))
    assert {later - earlier for earlier, later in zip(due_ns, due_ns[1:])} == {10_000_000}


def test_streams_begin_one_after_the_other_within_the_first_second() -> None:
    """Their key frames, one a second, do not coincide; the steady state shows nothing of it."""
    clock = Clock(_schedule(count=4, fps=30.0, warm_up_s=2.0))
    begin_s = [(clock.due_ns(stream, 0) - clock.start_ns) / 1e9 for stream in range(4)]
    assert all(0.2 < later - earlier < 0.3 for earlier, later in zip(begin_s, begin_s[1:]))
    assert begin_s[-1] < 1.0
    for stream in range(4):
        due_ns = [clock.due_ns(stream, number) for number in range(200)]
        assert sum(clock.begin_ns <= at_ns < clock.begin_ns + 10**9 for at_ns in due_ns) == 30
        assert clock.newest(stream, due_ns[77] + 1000) == 77


def test_a_stream_that_is_behind_goes_on_with_the_newest_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Skipped frames are missed: a stream that stood still does not catch up on them."""
    monkeypatch.setattr(threads, "_MOST_BEHIND_NS", 200_000_000)

    class Slow:
        """A decoder that stands still once."""

        def __init__(self) -> None:
            self.frames = self.restarts = 0

        def next_frame(self) -> tuple[int, None]:
            self.frames += 1
            if self.frames == 5:
                time.sleep(0.4)
            return self.frames, None

        def restart(self) -> None:
            self.restarts += 1

    decoder = Slow()
    done = _run(_schedule(duration_s=0.8), decoders=[decoder])
    assert decoder.restarts >= 1
    assert done.lost[0] >= 15
    assert done.due == [round(0.8 / _INTERVAL_S)]


def test_outputs_of_a_frame_are_compared_with_its_first() -> None:
    """Each loop is compared; only the first frames of a long video are kept."""
    checksums = Checksums()
    for number, value in ((0, 7), (1, 8), (0, 7), (1, 9), (10**6, 1), (10**6, 2)):
        checksums.note(number, value)
    assert checksums.unequal == 1
    assert checksums.known() == {0: 7, 1: 8}
