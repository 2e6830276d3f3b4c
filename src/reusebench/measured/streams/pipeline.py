"""Streams in the measured process: frames are decoded when due, and chains take them in turn.

Standard library only, Python 3.8. The decoder is imported when a plan has a video, and adds to the
memory then.
"""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, List, Sequence

from reusebench.measured.heap import Heap
from reusebench.measured.plan import Plan, Streams
from reusebench.measured.runtimes.base import NotSupported, RuntimeContext
from reusebench.measured.schedule import FairSemaphore, Worker
from reusebench.measured.streams.pool import Pool
from reusebench.measured.streams.threads import (
    ChainThread,
    Checksums,
    Clock,
    Link,
    StreamThread,
    Tally,
)

if TYPE_CHECKING:
    from reusebench.measured.streams.decoder import Decoder

__all__ = ["Pipeline", "open_decoders"]

#: Frames that each decoder decodes before anything is measured: H.264 may hold up to 16 for
#: reference.
_FIRST_FRAMES = 20
#: Interval between readings of the heap.
_READING_NS = 100_000_000
#: Number of readings between two reports of progress to the harness.
_READINGS = 10
#: Codes of the reasons that a model has no input for frames.
_NO_PICTURE = ("no_picture_input", "rknn_no_picture_input")

#: Sends the harness the progress since the last call.
SendProgress = Callable[[Dict[str, Any]], None]
#: Waits up to the given seconds; returns True as soon as the harness ends the run.
StoppedWithin = Callable[[float], bool]


def open_decoders(schedule: Streams) -> List[Decoder]:
    """Return a decoder for each stream, with all memory that it keeps while it decodes."""
    assert schedule.video is not None
    # Imported only now: PyAV belongs to the memory of decoding.
    from reusebench.measured.streams.decoder import Decoder

    decoders = [Decoder(schedule.video.path) for _ in range(schedule.count)]
    for decoder in decoders:
        for _ in range(_FIRST_FRAMES):
            decoder.next_frame()
        decoder.restart()
    return decoders


class Pipeline:
    """The threads of a steady phase: one for each stream, and one for each chain of contexts."""

    def __init__(
        self,
        plan: Plan,
        contexts: Sequence[RuntimeContext],
        workers: Sequence[Worker],
        decoders: Sequence[Decoder],
    ) -> None:
        """`workers` has the thread of each context's chain; `decoders` is empty if nothing is
        decoded.
        """
        assert plan.schedule is not None
        self._plan = plan
        self._schedule = plan.schedule
        self._contexts = contexts
        self._workers = workers
        self._decoders = decoders
        self._pools = _pools(plan)
        self._tallies = [Tally() for _ in range(plan.schedule.count)]
        self._checksums = [Checksums() for _ in plan.models]
        self._heap = Heap()
        self._stop = threading.Event()

    def run(self, send_progress: SendProgress, stopped_within: StoppedWithin) -> Dict[str, Any]:
        """Run for the schedule's duration, or until the harness ends it; return the step's data."""
        clock = Clock(self._schedule)
        self._start_chains(clock)
        streams = self._start_streams(clock)
        end_ns = self._wait(clock, send_progress, stopped_within)
        self._finish(streams)
        send_progress(self._progress(clock, end_ns))
        return {
            "seconds": clock.measured_s(end_ns),
            "begin_ns": clock.begin_ns,
            "frame_checksums": [of_model.known() for of_model in self._checksums],
            "unequal_frames": [of_model.unequal for of_model in self._checksums],
        }

    def _start_chains(self, clock: Clock) -> None:
        gates = _gates(self._plan)
        for chain in self._plan.all_chains():
            links = []
            for index in chain:
                context = self._contexts[index]
                spec = self._plan.contexts[index]
                letterbox = _letterbox(context, index == chain[0]) if self._decoders else None
                links.append(Link(context, letterbox, gates[index], self._checksums[spec.model]))
            first = chain[0]
            pool = self._pools[self._plan.contexts[first].stream or 0]
            thread = ChainThread(links, pool)
            task = partial(thread.run, self._tallies, clock)
            self._workers[first].start(self._ending_all(task))

    def _start_streams(self, clock: Clock) -> List[Worker]:
        workers = [Worker(f"stream-{stream}") for stream in range(self._schedule.count)]
        for stream, (worker, tally) in enumerate(zip(workers, self._tallies)):
            decoder = self._decoders[stream] if self._decoders else None
            pool = self._pools[stream] if self._contexts else None
            thread = StreamThread(stream, decoder, pool, tally, clock, self._stop)
            worker.start(self._ending_all(thread.run))
        return workers

    def _wait(
        self,
        clock: Clock,
        send_progress: SendProgress,
        stopped_within: StoppedWithin,
    ) -> int:
        """Read the heap and send progress until the end; return the time of the end."""
        for number in count(1):
            next_ns = min(clock.start_ns + number * _READING_NS, clock.end_ns)
            left_s = (next_ns - time.monotonic_ns()) / 1e9
            if stopped_within(max(0.0, left_s)) or self._stop.is_set():
                break
            if next_ns == clock.end_ns:
                return next_ns
            self._heap.read()
            if number % _READINGS == 0:
                send_progress(self._progress(clock, time.monotonic_ns()))
        self._stop.set()
        return time.monotonic_ns()

    def _progress(self, clock: Clock, now_ns: int) -> Dict[str, Any]:
        return {
            "seconds": clock.measured_s(now_ns),
            "streams": [tally.take() for tally in self._tallies],
            "heap_bytes": self._heap.take_lowest(),
        }

    def _finish(self, streams: Sequence[Worker]) -> None:
        """Wait for the last frames; raise the exception of a stream or a context."""
        for worker in streams:
            worker.finish()
            worker.stop()
        for pool in self._pools:
            pool.drain()
        for chain in self._plan.all_chains():
            self._workers[chain[0]].finish()

    def _ending_all(self, task: Callable[[], None]) -> Callable[[], None]:
        """Return a task that ends all other threads if `task` fails, so that `_finish` raises."""

        def run() -> None:
            try:
                task()
            except BaseException:
                self._stop.set()
                for pool in self._pools:
                    pool.fail()
                raise

        return run


def _pools(plan: Plan) -> List[Pool]:
    """Return the pool of each stream: its own, or the same one if contexts serve every stream."""
    assert plan.schedule is not None
    if plan.contexts and plan.contexts[0].stream is None:
        return [Pool(plan.schedule.queue)] * plan.schedule.count
    return [Pool(plan.schedule.queue) for _ in range(plan.schedule.count)]


def _gates(plan: Plan) -> List[ContextManager[Any]]:
    """Return a lock for each context: the same one for all that share an internal memory."""
    gates: List[ContextManager[Any]] = [nullcontext()] * len(plan.contexts)
    for members in plan.internal_memories().values():
        gate = FairSemaphore(1)
        for index in members:
            gates[index] = gate
    return gates


def _letterbox(context: RuntimeContext, is_first: bool) -> Any:
    """Return the letterbox of a context; None for a later one of its chain without a picture."""
    from reusebench.measured.streams.letterbox import Letterbox  # as late as the decoder

    try:
        return Letterbox(context.image_input())
    except NotSupported as error:
        if is_first or error.message.code not in _NO_PICTURE:
            raise
        return None
