"""The threads of a pipeline, and the clock and counters of their frames.

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

#: Stages of a frame, in order. A row of figures has the time when the frame was due, then the
#: duration of each stage, all in ns; the durations add up to the frame's latency. `wait` ends when
#: the frame's stream begins with it, `queue` is from decoded to taken by a context.
STAGES = ("wait", "decode", "queue", "resize", "inference", "output")

#: Time within which streams begin, one after the other, during the warm-up. Cameras send a key
#: frame about once a second, not all at the same moment. All at once would keep every core busy
#: while they are decoded.
BEGIN_WITHIN_S = 1.0
#: A stream that is later than this continues with the newest frame, as a player of a camera's
#: stream does.
_MOST_BEHIND_NS = 1_000_000_000
#: Interval at which a thread that waits for a frame checks whether the run is to end.
_CHECK_S = 0.1
#: Number of frames from the start of the clip whose outputs are compared, so that what is kept does
#: not grow.
_COMPARED_FRAMES = 300


class Clock:
    """The times at which frames are due, and the steady state."""

    def __init__(self, schedule: Streams) -> None:
        """Begin the warm-up now."""
        self._streams = schedule.count
        self._interval_ns = 1e9 / schedule.fps if schedule.fps else 0.0
        self._apart_ns = min(BEGIN_WITHIN_S, schedule.warm_up_s) / schedule.count * 1e9
        self.start_ns = time.monotonic_ns()
        self.begin_ns = self.start_ns + round(schedule.warm_up_s * 1e9)
        self.end_ns = self.begin_ns + round(schedule.duration_s * 1e9)

    @property
    def is_paced(self) -> bool:
        """Whether frames have times of their own, and are not due when their stream begins."""
        return self._interval_ns > 0

    def due_ns(self, stream: int, number: int) -> int:
        """Return the time when a frame is due; streams are evenly apart within an interval."""
        return self._begin_ns(stream) + round(number * self._interval_ns)

    def newest(self, stream: int, now_ns: int) -> int:
        """Return the number of the stream's last frame that is due by now."""
        return int((now_ns - self._begin_ns(stream)) / self._interval_ns)

    def _begin_ns(self, stream: int) -> int:
        """Return the time of a stream's first frame.

        It is whole intervals after that of the first stream, so that streams begin one by one, and
        a part of an interval, so that they are evenly apart.
        """
        late = int(stream * self._apart_ns / self._interval_ns) + stream / self._streams
        return self.start_ns + round(late * self._interval_ns)

    def counts(self, due_ns: int) -> bool:
        """Whether a frame that is due at this time belongs to the steady state."""
        return self.begin_ns <= due_ns < self.end_ns

    def measured_s(self, now_ns: int) -> float:
        """Return the seconds of the steady state that have passed."""
        return max(0.0, (min(now_ns, self.end_ns) - self.begin_ns) / 1e9)


class Tally:
    """Counters of the frames of one stream: done, dropped and missed."""

    def __init__(self) -> None:
        self.dropped = 0
        self.missed = 0
        #: Rows of the frames that are done; contexts append, `take` empties it.
        self._rows: Deque[Tuple[int, ...]] = deque()

    def note(self, frame: Frame, later_ns: Tuple[int, ...] = ()) -> None:
        """Keep the row of a frame that is done; `later_ns` are the ends of its later stages."""
        ends_ns = (frame.begun_ns, frame.decoded_ns, *later_ns)
        starts_ns = (frame.due_ns, *ends_ns)
        stages_ns = (end - start for start, end in zip(starts_ns, ends_ns))
        self._rows.append((frame.due_ns, *stages_ns))

    def take(self) -> Dict[str, Any]:
        """Return the counts since the start, and the rows since the last call."""
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        return {"dropped": self.dropped, "missed": self.missed, "rows": rows}


class Checksums:
    """Checksums of each frame's outputs, which must be the same in every loop."""

    def __init__(self) -> None:
        self._first = array("q", [-1]) * _COMPARED_FRAMES
        #: Number of frames whose outputs changed.
        self.unequal = 0

    def note(self, number: int, value: int) -> None:
        """Keep the checksum of a frame's outputs, or compare it with the one that was kept."""
        if number < _COMPARED_FRAMES:
            if self._first[number] < 0:
                self._first[number] = value
            self.unequal += self._first[number] != value

    def known(self) -> Dict[int, int]:
        """Return the checksums, by frame number."""
        return {number: value for number, value in enumerate(self._first) if value >= 0}


class StreamThread:
    """The thread that decodes the frames of one stream when they are due, and hands them over."""

    def __init__(
        self,
        stream: int,
        decoder: Optional[Decoder],
        pool: Optional[Pool],
        tally: Tally,
        clock: Clock,
        stop: threading.Event,
    ) -> None:
        """`decoder` is None if nothing is decoded, `pool` if there is no context."""
        self._stream = stream
        self._decoder = decoder
        self._pool = pool
        self._tally = tally
        self._clock = clock
        self._stop = stop

    def run(self) -> None:
        """Run until the end of the schedule, or until `stop` is set."""
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
        """Wait until the frame is due and return that time; None if the run ends before."""
        due_ns = time.monotonic_ns()
        if self._clock.is_paced:
            due_ns = self._clock.due_ns(self._stream, number)
        while due_ns < self._clock.end_ns and not self._stop.is_set():
            left_s = (due_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0:
                return due_ns
            time.sleep(min(left_s, _CHECK_S))
        return None

    def _catch_up(self, number: int, now_ns: int) -> int:
        """Skip the frames before the newest one, and return its number."""
        newest = self._clock.newest(self._stream, now_ns)
        for missed in range(number, newest):
            self._tally.missed += self._clock.counts(self._clock.due_ns(self._stream, missed))
        if self._decoder:
            self._decoder.restart()
        return newest

    def _hand_over(self, due_ns: int, begun_ns: int) -> None:
        """Decode the next frame and give it to a context; this thread keeps no reference to it."""
        number = 0
        image = None
        if self._decoder:
            number, image = self._decoder.next_frame()
        frame = Frame(self._stream, number, due_ns, begun_ns, time.monotonic_ns(), image)
        counts = self._clock.counts(due_ns)
        if self._pool is None:
            if counts:
                self._tally.note(frame)
        elif not self._pool.offer(frame, waits=not self._clock.is_paced):
            self._tally.dropped += counts


class Link(NamedTuple):
    """A context of a chain, with its letterbox and its checksums."""

    context: RuntimeContext
    #: None if frames have no image, or the context takes no picture.
    letterbox: Optional[Letterbox]
    #: Lock that each inference holds.
    gate: ContextManager[None]
    checksums: Checksums


class ChainThread:
    """The thread of a chain: takes frames, scales them, infers in order and reads the outputs."""

    def __init__(self, links: Sequence[Link], pool: Pool) -> None:
        """`links` are in the order in which they run."""
        self._links = links
        self._pool = pool
        self._inbox: SimpleQueue[Optional[Frame]] = pool.add()

    def run(self, tallies: Any, clock: Clock) -> None:
        """Run until no more frames come; `tallies` has one for each stream."""
        while True:
            frame = self._inbox.get()
            if frame is None:
                return
            times_ns = self._serve(frame)
            if clock.counts(frame.due_ns):
                tallies[frame.stream].note(frame, times_ns)
            self._pool.done(self._inbox)

    def _serve(self, frame: Frame) -> Tuple[int, ...]:
        """Return the times when the frame was taken, scaled, inferred and read."""
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
        """Fill the inputs; the image is released at the end."""
        image = frame.take_image()
        for link in self._links:
            if link.letterbox:
                link.letterbox.fill(image)
