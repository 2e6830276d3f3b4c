"""Frames between the harness and the reader on a board: their form, and the proof that they are
whole.

A byte that is lost, added or changed on the way would be taken for another length, reply or
reading. So each frame has a checksum of its header, a checksum of its content, and its number among
the frames of its direction. native/reader/reader.h is the other side.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = [
    "MOST_REQUEST_BYTES",
    "PROTOCOL_VERSION",
    "DamagedFrame",
    "Frame",
    "FrameReader",
    "FrameWriter",
]

#: Raised with every change of frames, requests or events.
PROTOCOL_VERSION = 2
#: Longest content of a frame to the reader, and from it.
MOST_REQUEST_BYTES = 1 << 16
MOST_REPLY_BYTES = 1 << 14
#: Length of the content, number of the request, number of the frame, checksum of the content, kind.
_FIELDS = struct.Struct("<IIIIB")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _FIELDS.size + _CHECKSUM.size
_NUMBERS = 1 << 32


class DamagedFrame(Exception):
    """A frame that is not what was sent. The message says how that is known."""


class Frame(NamedTuple):
    """A frame without its proof."""

    kind: int
    #: Number of the request; 0 for an event, and for a request whose reply is ignored.
    number: int = 0
    content: bytes = b""


class FrameWriter:
    """Gives frames their header, in the order in which they are sent."""

    def __init__(self) -> None:
        self._sent = 0

    def sealed(self, frames: Sequence[Frame]) -> bytes:
        """Return the bytes of the next frames."""
        sealed = bytearray()
        for index, frame in enumerate(frames):
            fields = _FIELDS.pack(
                len(frame.content),
                frame.number,
                (self._sent + index) % _NUMBERS,
                zlib.crc32(frame.content),
                frame.kind,
            )
            sealed += fields + _CHECKSUM.pack(zlib.crc32(fields)) + frame.content
        return bytes(sealed)

    def note_sent(self, count: int) -> None:
        """Count frames that were sent."""
        self._sent += count


class FrameReader:
    """Takes received bytes apart into frames."""

    def __init__(self) -> None:
        self._data = b""
        self._received = 0
        #: Time when the first bytes of an incomplete frame were read; None if there is none.
        self._begun_s: float | None = None

    @property
    def incomplete_s(self) -> float:
        """The time since the first bytes of an incomplete frame; 0 if there is none."""
        return 0.0 if self._begun_s is None else time.monotonic() - self._begun_s

    def frames(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that `data` completes; raise DamagedFrame at the first that is wrong."""
        self._data += data
        at = 0
        try:
            while len(self._data) - at >= _HEADER_BYTES:
                frame = self._frame_at(at)
                if frame is None:
                    break
                at += _HEADER_BYTES + len(frame.content)
                self._received += 1
                self._begun_s = None
                yield frame
        finally:
            self._data = self._data[at:]
        if not self._data:
            self._begun_s = None
        elif self._begun_s is None:
            self._begun_s = time.monotonic()

    def _frame_at(self, at: int) -> Frame | None:
        """Return the frame that begins there; None if its content is not complete."""
        fields_end = at + _FIELDS.size
        (checksum,) = _CHECKSUM.unpack_from(self._data, fields_end)
        if zlib.crc32(self._data[at:fields_end]) != checksum:
            raise DamagedFrame("the header of a frame has another checksum")
        length, number, frame_number, checksum, kind = _FIELDS.unpack_from(self._data, at)
        if length > MOST_REPLY_BYTES:
            raise DamagedFrame(f"a frame of {length} bytes; at most {MOST_REPLY_BYTES} are sent")
        expected = self._received % _NUMBERS
        if frame_number != expected:
            raise DamagedFrame(f"frame {frame_number} came in place of frame {expected}")
        begin = at + _HEADER_BYTES
        content = self._data[begin : begin + length]
        if len(content) < length:
            return None
        if zlib.crc32(content) != checksum:
            raise DamagedFrame("the content of a frame has another checksum")
        return Frame(kind, number, content)
