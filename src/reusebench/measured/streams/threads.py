"""The threads of a pipeline: when a frame is due, whether it was done, dropped or missed, and how
long its stages took.

Runs in the measured process: standard library only, Python 3.8.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import deque
from typing import (
    TYPE_CHECKING,
    Any,
    ContextManager,
    Deque,
    Dict,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from reusebench.measured.plan import Streams
from reusebench.measured.runtimes.base import RuntimeContext
from reusebench.measured.streams.pool import Frame, Pool

if TYPE_CHECKING:
    from queue import SimpleQueue

    from reusebench.measured.streams.decoder import Decoder
    from reusebench.measured.streams.letterbox import Letterbox

__all__ = [
    "BEGIN_WITHIN_S",
    "STAGES",
    "ChainThread",
    "Checksums",
    "Clock",
    "Link",
    "StreamThread",
    "Tally",
]

#: Of a frame, in order. A row of figures is when it was due and then the time of each stage, in ns;
#: the stages add up to its latency. wait: from when it is due to when its stream begins with it;
#: queue: from decoded to when a context begins with it.
STAGES = ("wait", "decode", "queue", "resize", "inference", "output")

#: Streams begin one after the other within this time, of the warm-up: cameras send a key frame a
#: second or so, and not all at the same moment. All at once would keep every core for as long as it
#: takes to decode one.
BEGIN_WITHIN_S = 1.0
#: A stream that is later than this begins again with the newest frame, as a player of a camera's
#: stream does.
_MOST_BEHIND_NS = 1_000_000_000
#: How often a thread that waits for a frame checks whether the run is to end.
_CHECK_S = 0.1
#: Outputs of so many frames from the start of the clip are compared: what is kept of them does not
#: grow.
_COMPARED_FRAMES = 300


class Clock:
    """When the frames of each stream are due, and which of them count."""

    def __init__(self, schedule: Streams) -> None:
        """Begin now."""
        self._streams = schedule.count
        self._interval_ns = 1e9 / schedule.fps if schedule.fps else 0.0
        self._apart_ns = min(BEGIN_WITHIN_S, schedule.warm_up_s) / schedule.count * 1e9
        self.start_ns = time.monotonic_ns()
        self.begin_ns = self.start_ns + round(schedule.warm_up_s * 1e9)
        self.end_ns = self.begin_ns + round(schedule.duration_s * 1e9)

    @property
    def is_paced(self) -> bool:
        """Whether frames are due at times of their own; else whenever a context takes one."""
        return self._interval_ns > 0

    def due_ns(self, stream: int, number: int) -> int:
        """Return when the stream's frame is due; streams are evenly apart within an interval."""
        return self._begin_ns(stream) + round(number * self._interval_ns)

    def newest(self, stream: int, now_ns: int) -> int:
        """Return the number of the stream's last frame that is due by now."""
        return int((now_ns - self._begin_ns(stream)) / self._interval_ns)

    def _begin_ns(self, stream: int) -> int:
        """Return when the stream's first frame is due: some intervals after the first stream's and
        a part of one.
        """
        late = int(stream * self._apart_ns / self._interval_ns) + stream / self._streams
        return self.start_ns + round(late * self._interval_ns)

    def counts(self, due_ns: int) -> bool:
        """Whether a frame that is due then belongs to the steady state."""
        return self.begin_ns <= due_ns < self.end_ns

    def measured_s(self, now_ns: int) -> float:
        """Return how much of the steady state has passed."""
        return max(0.0, (min(now_ns, self.end_ns) - self.begin_ns) / 1e9)


class Tally:
    """The frames of one stream that count: those done, dropped and missed."""

    def __init__(self) -> None:
        self.dropped = 0
        self.missed = 0
        #: Of frames that are done; contexts append, `take` empties it.
        self._rows: Deque[Tuple[int, ...]] = deque()

    def note(self, frame: Frame, later_ns: Tuple[int, ...] = ()) -> None:
        """Keep the row of a frame that is done; `later_ns` is when each stage after decoding
        ended.
        """
        ends_ns = (frame.begun_ns, frame.decoded_ns, *later_ns)
        stages = (end - start for start, end in zip((frame.due_ns, *ends_ns), ends_ns))
        self._rows.append((frame.due_ns, *stages))

    def take(self) -> Dict[str, Any]:
        """Return what was counted so far, and the rows since the last time."""
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        return {"dropped": self.dropped, "missed": self.missed, "rows": rows}


class Checksums:
    """Of the outputs of each frame of the clip, which must be the same in every loop, on whatever
    context.
    """

    def __init__(self) -> None:
        self._first = array("q", [-1]) * _COMPARED_FRAMES
        #: How many frames gave other outputs than before.
        self.unequal = 0

    def note(self, number: int, value: int) -> None:
        """Keep the checksum of the frame's outputs, or compare it with the one that is kept."""
        if number < _COMPARED_FRAMES:
            if self._first[number] < 0:
                self._first[number] = value
            self.unequal += self._first[number] != value

    def known(self) -> Dict[int, int]:
        """Return the checksum of each frame that was seen."""
        return {number: value for number, value in enumerate(self._first) if value >= 0}


class StreamThread:
    """Paces the frames of one stream, decodes them and hands them over."""

    def __init__(
        self,
        stream: int,
        decoder: Optional[Decoder],
        pool: Optional[Pool],
        tally: Tally,
        clock: Clock,
        stop: threading.Event,
    ) -> None:
        """Take no decoder if nothing is decoded, and no pool if there is no context."""
        self._stream = stream
        self._decoder = decoder
        self._pool = pool
        self._tally = tally
        self._clock = clock
        self._stop = stop

    def run(self) -> None:
        """Run until the end of the schedule, or until it is to stop."""
        number = 0
        while True:
            due_ns = self._await(number)
            if due_ns is None:
                return
            begun_ns = time.monotonic_ns()
            if self._clock.is_paced and begun_ns - due_ns > _MOST_BEHIND_NS:
                number = self._catch_up(number, begun_ns)
            else:
                self._hand_over(due_ns, begun_ns)
                number += 1

    def _await(self, number: int) -> Optional[int]:
        """Wait until the frame is due and return when that is; None if the run ends before."""
        due_ns = (
            self._clock.due_ns(self._stream, number)
            if self._clock.is_paced
            else time.monotonic_ns()
        )
        while due_ns < self._clock.end_ns and not self._stop.is_set():
            left_s = (due_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0:
                return due_ns
            time.sleep(min(left_s, _CHECK_S))
        return None

    def _catch_up(self, number: int, now_ns: int) -> int:
        """Pass over the frames until the newest, and return its number."""
        newest = self._clock.newest(self._stream, now_ns)
        for missed in range(number, newest):
            self._tally.missed += self._clock.counts(self._clock.due_ns(self._stream, missed))
        if self._decoder:
            self._decoder.restart()
        return newest

    def _hand_over(self, due_ns: int, begun_ns: int) -> None:
        """Decode the next frame and give it to a context; this thread keeps nothing of it."""
        number, image = self._decoder.next_frame() if self._decoder else (0, None)
        frame = Frame(self._stream, number, due_ns, begun_ns, time.monotonic_ns(), image)
        counts = self._clock.counts(due_ns)
        if self._pool is None:
            if counts:
                self._tally.note(frame)
        elif not self._pool.offer(frame, waits=not self._clock.is_paced):
            self._tally.dropped += counts


class Link(NamedTuple):
    """A context of a chain, and what a frame meets there."""

    context: RuntimeContext
    #: None if frames have no image, or the context does not take it.
    letterbox: Optional[Letterbox]
    #: Held by each inference.
    gate: ContextManager[None]
    checksums: Checksums


class ChainThread:
    """Takes frames, scales each into the inputs of a chain's contexts, infers in order and reads
    the outputs.
    """

    def __init__(self, links: Sequence[Link], pool: Pool) -> None:
        """Take the contexts in the order in which they run."""
        self._links = links
        self._pool = pool
        self._inbox: SimpleQueue[Optional[Frame]] = pool.add()

    def run(self, tallies: Any, clock: Clock) -> None:
        """Run until no further frame will come; `tallies` has one for each stream."""
        while True:
            frame = self._inbox.get()
            if frame is None:
                return
            times_ns = self._serve(frame)
            if clock.counts(frame.due_ns):
                tallies[frame.stream].note(frame, times_ns)
            self._pool.done(self._inbox)

    def _serve(self, frame: Frame) -> Tuple[int, ...]:
        """Return when it was taken, scaled, inferred and read."""
        taken_ns = time.monotonic_ns()
        self._resize(frame)
        resized_ns = time.monotonic_ns()
        for link in self._links:
            with link.gate:
                link.context.infer()
        inferred_ns = time.monotonic_ns()
        values = [link.context.checksum() for link in self._links]
        read_ns = time.monotonic_ns()
        for link, value in zip(self._links, values):
            if link.letterbox:
                link.checksums.note(frame.number, value)
        return taken_ns, resized_ns, inferred_ns, read_ns

    def _resize(self, frame: Frame) -> None:
        """Fill the inputs; the image is let go at the end."""
        image = frame.take_image()
        for link in self._links:
            if link.letterbox:
                link.letterbox.fill(image)
