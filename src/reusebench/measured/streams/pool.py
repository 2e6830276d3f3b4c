"""The chains of contexts that take the frames of streams, and the frames that wait for them."""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from typing import Any, Deque, Dict, Optional

__all__ = ["Frame", "Pool"]


class Frame:
    """A frame on its way; times are of the monotonic clock."""

    __slots__ = ("_image", "begun_ns", "decoded_ns", "due_ns", "number", "stream")

    def __init__(
        self,
        stream: int,
        number: int,
        due_ns: int,
        begun_ns: int,
        decoded_ns: int,
        image: Any,
    ) -> None:
        """`number` counts in the clip, `begun_ns` is when its stream began, `image` is the
        decoder's.
        """
        self.stream = stream
        self.number = number
        self.due_ns = due_ns
        self.begun_ns = begun_ns
        self.decoded_ns = decoded_ns
        self._image = image

    def take_image(self) -> Any:
        """Return the decoder's image, once; its memory (3 MiB at 1080p) is reused when dropped."""
        image = self._image
        self._image = None
        return image


class Pool:
    """A queue that gives each frame to the chain that has been free longest."""

    def __init__(self, queue: int) -> None:
        """At most `queue` frames of each stream wait for a chain."""
        self._queue = queue
        self._changed = threading.Condition()
        self._idle: Deque[SimpleQueue[Optional[Frame]]] = deque()
        self._waiting: Deque[Frame] = deque()
        self._waiting_of: Dict[int, int] = {}
        self._working = 0
        self._is_closed = False

    def add(self) -> SimpleQueue[Optional[Frame]]:
        """Return the inbox of one more chain, which is free; None in it means no more frames."""
        inbox: SimpleQueue[Optional[Frame]] = SimpleQueue()
        with self._changed:
            self._idle.append(inbox)
        return inbox

    def offer(self, frame: Frame, waits: bool = False) -> bool:
        """Give the frame to a chain, or queue it; return False if the queue is full and it is
        dropped.

        With `waits` the caller waits for a free chain or for room in the queue, and nothing is
        dropped.
        """
        with self._changed:
            if waits:
                self._changed.wait_for(
                    lambda: self._is_closed or self._idle or self._fits(frame.stream)
                )
            if self._is_closed:
                return False
            if self._idle:
                self._working += 1
                self._idle.popleft().put(frame)
                return True
            if not self._fits(frame.stream):
                return False
            self._waiting.append(frame)
            self._waiting_of[frame.stream] = self._waiting_of.get(frame.stream, 0) + 1
            return True

    def done(self, inbox: SimpleQueue[Optional[Frame]]) -> None:
        """Give the chain its next frame from the queue; if there is none, the chain is free."""
        with self._changed:
            if self._is_closed:
                inbox.put(None)
            elif self._waiting:
                frame = self._waiting.popleft()
                self._waiting_of[frame.stream] -= 1
                inbox.put(frame)
            else:
                self._working -= 1
                self._idle.append(inbox)
            self._changed.notify_all()

    def fail(self) -> None:
        """Drop all frames and accept no more: a context has failed."""
        with self._changed:
            self._is_closed = True
            self._working = 0
            self._waiting.clear()
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until all accepted frames are done, then put None into the inboxes."""
        with self._changed:
            self._changed.wait_for(lambda: not self._working)
            self._is_closed = True
            for inbox in self._idle:
                inbox.put(None)

    def _fits(self, stream: int) -> bool:
        return self._waiting_of.get(stream, 0) < self._queue
