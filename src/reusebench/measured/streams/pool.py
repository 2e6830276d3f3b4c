"""The chains of contexts that take the frames of some streams: those that are free, and frames that
wait for one.
"""

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
        self, stream: int, number: int, due_ns: int, begun_ns: int, decoded_ns: int, image: Any
    ) -> None:
        """Take its number in the clip from 0, when its stream began with it, and the decoder's
        image, if any.
        """
        self.stream = stream
        self.number = number
        self.due_ns = due_ns
        self.begun_ns = begun_ns
        self.decoded_ns = decoded_ns
        self._image = image

    def take_image(self) -> Any:
        """Return the decoder's image, whose memory (3 MiB at 1080p) the decoder reuses once the
        caller drops it.
        """
        image = self._image
        self._image = None
        return image


class Pool:
    """Gives each frame to the chain that has been free for longest, so that they take frames in
    turn.
    """

    def __init__(self, queue: int) -> None:
        """Let at most so many frames of each stream wait for a chain."""
        self._queue = queue
        self._changed = threading.Condition()
        self._idle: Deque[SimpleQueue[Optional[Frame]]] = deque()
        self._waiting: Deque[Frame] = deque()
        self._waiting_of: Dict[int, int] = {}
        self._working = 0
        self._is_closed = False

    def add(self) -> SimpleQueue[Optional[Frame]]:
        """Return the inbox of a further chain, which is free; None in it means that no further
        frame will come.
        """
        inbox: SimpleQueue[Optional[Frame]] = SimpleQueue()
        with self._changed:
            self._idle.append(inbox)
        return inbox

    def offer(self, frame: Frame, waits: bool = False) -> bool:
        """Give the frame to a chain, or queue it; False where it is dropped, as the queue is full.

        With `waits` the caller waits for a free chain or an entry of the queue, and nothing is
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
        """Give the chain, which is done with its frame, the next one that waits; without one it is
        free.
        """
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
        """Take no further frames, and wait for none: a context has failed."""
        with self._changed:
            self._is_closed = True
            self._working = 0
            self._waiting.clear()
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until every frame that was taken is done, and put None into the inboxes."""
        with self._changed:
            self._changed.wait_for(lambda: not self._working)
            self._is_closed = True
            for inbox in self._idle:
                inbox.put(None)

    def _fits(self, stream: int) -> bool:
        return self._waiting_of.get(stream, 0) < self._queue
