"""Streams of frames in the measured process: each frame is decoded when it is due, and a chain
takes it in turn.

Standard library only, Python 3.8; the decoder is imported when a plan has a video, and is weighed
with it.
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

#: Decoded with each decoder before anything is measured: more than H.264 lets it hold for reference
#: (16).
_FIRST_FRAMES = 20
#: How often the heap is read, and after how many readings the harness gets the frames that are
#: done.
_READING_NS = 100_000_000
_READINGS = 10
#: The codes of a model without an input for frames.
_NO_PICTURE = ("no_picture_input", "rknn_no_picture_input")

#: Sends the harness what was done since the last time.
SendProgress = Callable[[Dict[str, Any]], None]
#: Waits for so many seconds, or until the harness ends the run; returns whether it did.
StoppedWithin = Callable[[float], bool]


def open_decoders(schedule: Streams) -> List[Decoder]:
    """Return a decoder for each stream, with all the frames in memory that it keeps while it
    decodes.
    """
    assert schedule.video is not None
    from reusebench.measured.streams.decoder import (
        Decoder,  # only now: what it imports belongs to the memory of decoding
    )

    decoders = [Decoder(schedule.video.path) for _ in range(schedule.count)]
    for decoder in decoders:
        for _ in range(_FIRST_FRAMES):
            decoder.next_frame()
        decoder.restart()
    return decoders


class Pipeline:
    """The threads of one steady phase: one for each stream, and that of each chain of contexts."""

    def __init__(
        self,
        plan: Plan,
        contexts: Sequence[RuntimeContext],
        workers: Sequence[Worker],
        decoders: Sequence[Decoder],
    ) -> None:
        """Take the plan's contexts, each with its chain's thread, and a decoder for each stream;
        none: none decodes.
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
        """Run for the schedule's duration, or until the harness ends it; return the barrier's
        data.
        """
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
            thread = ChainThread(links, self._pools[self._plan.contexts[chain[0]].stream or 0])
            self._workers[chain[0]].start(
                self._ending_all(partial(thread.run, self._tallies, clock))
            )

    def _start_streams(self, clock: Clock) -> List[Worker]:
        workers = [Worker(f"stream-{stream}") for stream in range(self._schedule.count)]
        for stream, (worker, tally) in enumerate(zip(workers, self._tallies)):
            decoder = self._decoders[stream] if self._decoders else None
            pool = self._pools[stream] if self._contexts else None
            thread = StreamThread(stream, decoder, pool, tally, clock, self._stop)
            worker.start(self._ending_all(thread.run))
        return workers

    def _wait(
        self, clock: Clock, send_progress: SendProgress, stopped_within: StoppedWithin
    ) -> int:
        """Read the heap and send what is done, until the end; return when that was."""
        for number in count(1):
            next_ns = min(clock.start_ns + number * _READING_NS, clock.end_ns)
            if (
                stopped_within(max(0.0, (next_ns - time.monotonic_ns()) / 1e9))
                or self._stop.is_set()
            ):
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
        """Let the last frames through; raises the exception of a stream or a context."""
        for worker in streams:
            worker.finish()
            worker.stop()
        for pool in self._pools:
            pool.drain()
        for chain in self._plan.all_chains():
            self._workers[chain[0]].finish()

    def _ending_all(self, task: Callable[[], None]) -> Callable[[], None]:
        """Return the task, which ends all other threads if it fails, so that `_finish` raises its
        exception.
        """

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
    """Return the pool of each stream: one of its own, or one for all where contexts serve every
    stream.
    """
    assert plan.schedule is not None
    if plan.contexts and plan.contexts[0].stream is None:
        return [Pool(plan.schedule.queue)] * plan.schedule.count
    return [Pool(plan.schedule.queue) for _ in range(plan.schedule.count)]


def _gates(plan: Plan) -> List[ContextManager[Any]]:
    """Return the gate of each context: one for all that share an internal memory, an open one for
    the others.
    """
    gates: List[ContextManager[Any]] = [nullcontext()] * len(plan.contexts)
    for members in plan.internal_memories().values():
        gate = FairSemaphore(1)
        for index in members:
            gates[index] = gate
    return gates


def _letterbox(context: RuntimeContext, is_first: bool) -> Any:
    """Return what fills the context's input; None if it takes no pictures, and is not the first
    of its chain.
    """
    from reusebench.measured.streams.letterbox import Letterbox  # as late as the decoder

    try:
        return Letterbox(context.image_input())
    except NotSupported as error:
        if is_first or error.message.code not in _NO_PICTURE:
            raise
        return None
