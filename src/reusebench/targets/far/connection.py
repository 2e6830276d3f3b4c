"""The connection to the reader of a remote board: requests, their replies, and events."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from reusebench.targets.errors import ConnectionLost, NotMeasurable, TargetError
from reusebench.targets.far.bootstrap import begin_reader, choose_folder, probe
from reusebench.targets.far.channel import Channel
from reusebench.targets.far.frames import (
    MOST_REQUEST_BYTES,
    PROTOCOL_VERSION,
    DamagedFrame,
    Frame,
    FrameReader,
)
from reusebench.targets.far.transport import transport_of
from reusebench.targets.programs import READER

__all__ = ["Connection", "Request", "connect"]

# native/reader/reader.h is the other side.
_PART, _DONE, _ERROR = b"+=!"
_HELLO = ord("h")
_BROKEN = ord("w")
_EVENTS = b"ouyzmb"
_HELLO_FIELDS = struct.Struct("<IIIII")
_NUMBER = struct.Struct("<I")
#: Longest reply, in all its frames: what a request for a file allows, and reserve.
_MOST_REPLY_BYTES = 160 << 20
#: Time without a byte from here after which the reader ends its processes and itself.
_PATIENCE_S = 30.0
#: Interval of the pings in both directions, which do not depend on what the harness is doing.
_PING_S = 4.0
#: Time without a byte from the board after which it counts as gone; also the time in which a frame
#: of at most 16 KiB arrives as a whole.
_SILENCE_S = 20.0
_HELLO_LIMIT_S = 15.0
_DAMAGED = "data from the board was damaged on the way"
_DAMAGED_THERE = "data to the board was damaged on the way"
_CHECK_LINE = "Check cable, adapter and the programs in between, and run again"
#: Reasons of the reader to end the connection (enum Damage in reader.h).
_REASONS = {
    1: "the header of a frame has another checksum",
    2: "a frame is too long",
    3: "a frame came in place of another",
    4: "the content of a frame has another checksum",
    5: "a frame stays incomplete",
}


class Request(NamedTuple):
    """A request to the reader."""

    #: A RequestKind.
    kind: str
    data: bytes = b""
    #: The file concerned, for the error.
    path: str | None = None


def _frame(request: Request, number: int) -> Frame:
    return Frame(ord(request.kind), number, request.data)


class Connection:
    """The connection to the reader. Every method except close raises ConnectionLost."""

    page_bytes: int
    user_id: int
    #: The reader's two processes.
    reader_pid: int
    keeper_pid: int
    #: Key: kind of event; its listener.
    listeners: dict[str, Callable[[bytes], None]]

    def __init__(self, channel: Channel, folder: str, architecture: str, begun: bytes) -> None:
        """`begun` is the first output of the reader on this channel; `folder` is its folder."""
        self.name = channel.transport.name
        self.folder = folder
        self.architecture = architecture
        self.listeners = {}
        self._channel = channel
        self._incoming = FrameReader()
        #: Number of the last request.
        self._number = 0
        #: Key: number of a request; its reply, the parts received of it, and the file concerned.
        self._replies: dict[int, bytes | OSError] = {}
        self._parts: dict[int, bytearray] = {}
        self._paths: dict[int, str | None] = {}
        self._hello: bytes | None = None
        #: Number of events so far, and at the end of the last wait_for_event.
        self._event_count = 0
        self._events_seen = 0
        self._is_closed = threading.Event()
        #: Whether a method is running: another call then comes from a signal handler.
        self.is_busy = False

        self._take(begun)
        self.wait(lambda: self._hello is not None, _HELLO_LIMIT_S)
        if self._hello is None:
            raise channel.lost(f"the reader has sent nothing within {_HELLO_LIMIT_S:g} s")
        version, *fields = _HELLO_FIELDS.unpack(self._hello)
        if version != PROTOCOL_VERSION:
            raise channel.lost(
                f"the reader speaks version {version} of the protocol, not {PROTOCOL_VERSION};"
                " `reusebench board clean` removes it"
            )
        self.page_bytes, self.user_id, self.reader_pid, self.keeper_pid = fields

        self.set_patience(_PATIENCE_S)
        threading.Thread(target=self._ping, name=f"pings to {self.name}", daemon=True).start()

    @property
    def is_lost(self) -> bool:
        """Whether the connection is no longer usable."""
        return self._channel.is_lost

    def request(self, request: Request) -> bytes:
        """Return the reply; raise its OSError."""
        (reply,) = self.requests([request])
        if isinstance(reply, OSError):
            raise reply
        return reply

    def requests(self, requests: Sequence[Request]) -> list[bytes | OSError]:
        """Return all replies, or their errors, in one round trip.

        Raises OSError if a request is longer than the reader takes.
        """
        if any(len(request.data) > MOST_REQUEST_BYTES for request in requests):
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        numbers = range(self._number + 1, self._number + 1 + len(requests))
        self._number += len(requests)
        frames = []
        for number, request in zip(numbers, requests):
            self._paths[number] = request.path
            frames.append(_frame(request, number))
        with self._busy():
            self._channel.write_frames(frames)
        if requests:
            self.wait(lambda: numbers[-1] in self._replies)
        return [self._replies.pop(number) for number in numbers]

    def wait(self, is_there: Callable[[], bool], limit_s: float = float("inf")) -> bool:
        """Process incoming frames up to `limit_s`, until `is_there`; return whether it is."""
        deadline = time.monotonic() + limit_s
        while not is_there():
            left_s = max(0.0, deadline - time.monotonic())
            with self._busy():
                data = self._channel.read(min(left_s, _PING_S))
                self._take(data)
            if self._incoming.incomplete_s > _SILENCE_S:
                raise self._channel.lost(
                    f"{_DAMAGED}: a frame is incomplete for {_SILENCE_S:g} s. {_CHECK_LINE}"
                )
            if data:
                continue
            if time.monotonic() - self._channel.heard_s > _SILENCE_S:
                raise self._channel.lost(
                    f"the board has given no sign of life for {_SILENCE_S:g} s"
                )
            if not left_s:
                return False
        return True

    def wait_for_event(self, limit_s: float) -> None:
        """Process incoming frames until a new event arrives or `limit_s` passes."""
        self.wait(lambda: self._event_count != self._events_seen, limit_s)
        self._events_seen = self._event_count

    def post(self, request: Request) -> None:
        """Send a request whose reply is ignored, also while another method is running."""
        self._channel.post(_frame(request, 0))

    def set_patience(self, seconds: float) -> None:
        """Set the time without a byte from here after which the reader ends."""
        self.request(Request("q", struct.pack("<Q", int(seconds * 1e9))))

    def close(self) -> None:
        """End the reader, its processes and the connection, which may already be lost."""
        self._is_closed.set()
        with contextlib.suppress(ConnectionLost):
            self._channel.write_frames([Frame(ord("x"))])
            self.wait(lambda: False)  # until the channel ends
        self._channel.close()

    def lost(self, cause: str) -> ConnectionLost:
        """Return the error of a connection that is no longer usable, with its cause."""
        return self._channel.lost(cause)

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        self.is_busy = True
        try:
            yield
        finally:
            self.is_busy = False

    def _take(self, data: bytes) -> None:
        try:
            for frame in self._incoming.frames(data):
                self._take_frame(frame)
        except DamagedFrame as error:
            raise self._channel.lost(f"{_DAMAGED}: {error}. {_CHECK_LINE}") from None

    def _take_frame(self, frame: Frame) -> None:
        if frame.kind in (_PART, _DONE, _ERROR):
            self._take_reply(frame)
        elif frame.kind == _HELLO and len(frame.content) == _HELLO_FIELDS.size:
            self._hello = frame.content
        elif frame.kind == _BROKEN:
            reason = _REASONS.get(_number_in(frame), "it has no name")
            raise self._channel.lost(f"{_DAMAGED_THERE}: {reason}. {_CHECK_LINE}")
        elif frame.kind in _EVENTS:
            self._event_count += 1
            self.listeners.get(chr(frame.kind), _ignore)(frame.content)
        else:
            raise DamagedFrame(f"a frame of an unknown kind ({frame.kind})")

    def _take_reply(self, frame: Frame) -> None:
        if frame.number not in self._paths:
            if frame.number:
                raise DamagedFrame(f"a reply to a request that was not made ({frame.number})")
            return  # the reply to a ping
        parts = self._parts.setdefault(frame.number, bytearray())
        if frame.kind != _ERROR:
            parts += frame.content
            if len(parts) > _MOST_REPLY_BYTES:
                raise DamagedFrame(f"a reply of more than {_MOST_REPLY_BYTES >> 20} MiB")
        if frame.kind == _PART:
            return
        path = self._paths.pop(frame.number)
        del self._parts[frame.number]
        if frame.kind == _DONE:
            self._replies[frame.number] = bytes(parts)
        else:
            error = _number_in(frame)
            self._replies[frame.number] = OSError(error, os.strerror(error), path)

    def _ping(self) -> None:
        while not self._is_closed.wait(_PING_S):
            self._channel.post(Frame(ord(".")))


def _number_in(frame: Frame) -> int:
    if len(frame.content) != _NUMBER.size:
        raise DamagedFrame(f"a number of {len(frame.content)} bytes")
    return int(_NUMBER.unpack(frame.content)[0])


def connect(target: str, show_step: Callable[[str], None], folder: str | None = None) -> Connection:
    """Connect to a remote board and start the reader, compiled and pushed if it is missing.

    `folder` is the user's choice of a folder for files. Raises TargetError with the reason and what
    to do.
    """
    channel = Channel(transport_of(target))
    try:
        survey = probe(channel, folder)
        chosen = choose_folder(survey, folder)
        READER.ensure(survey.architecture, show_step)
        begun = begin_reader(channel, chosen, READER.path(survey.architecture))
        return Connection(channel, chosen, survey.architecture, begun)
    except ConnectionLost as error:
        channel.close()
        # The connection was never made, so it was not lost.
        raise NotMeasurable(
            str(error).replace("the connection to ", "").replace(" was lost", "", 1)
        ) from None
    except TargetError:
        channel.close()
        raise


def _ignore(_content: bytes) -> None:
    """Ignore an event without a listener."""
