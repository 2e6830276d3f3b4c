"""Reads tables of a FlatBuffers file by field numbers; the caller knows the schema.

The package flatbuffers neither checks offsets nor bounds its work, which a damaged file needs.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Optional, Union

__all__ = ["Buffer", "FlatTable", "root"]

#: The file, mapped or read.
Buffer = Union[bytes, memoryview, mmap.mmap]

#: Upper bound for the numbers, and bytes of texts, that are read from one file. Networks have up to
#: some 10,000 operators with tens of numbers each. In a damaged file every list may be part of many
#: others; this many reads take a few seconds and 200 MB.
_MOST_READS = 3_000_000

#: Position of field 0 in a table's list of offsets, which have two bytes each.
_FIRST_FIELD = 4


class _Content:
    """The content of the file, of which at most _MOST_READS items are read."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._reads = 0

    def number(self, form: str, position: int) -> int:
        self._count(1)
        if position < 0:
            raise ValueError(f"position {position}")
        (number,) = struct.unpack_from(form, self._buffer, position)
        return int(number)

    def text(self, begin: int, length: int) -> str:
        self._count(length)
        return bytes(self._buffer[begin : begin + length]).decode()

    def _count(self, reads: int) -> None:
        self._reads += reads
        if self._reads > _MOST_READS:
            raise ValueError(f"more than {_MOST_READS} numbers and letters")


class FlatTable:
    """A table, whose fields are numbered from 0.

    A damaged one raises struct.error or ValueError. The methods return their default, 0, "" or no
    elements if the file leaves out the field.
    """

    __slots__ = ("_content", "_fields", "_fields_size", "_position")

    def __init__(self, content: _Content, position: int) -> None:
        self._content = content
        self._position = position
        self._fields = position - self._number("<i", position)
        self._fields_size = self._number("<H", self._fields)

    def byte(self, field: int, default: int = 0) -> int:
        """Return a signed byte."""
        return self._scalar(field, "<b", default)

    def integer(self, field: int, default: int = 0) -> int:
        """Return a signed integer of four bytes."""
        return self._scalar(field, "<i", default)

    def long(self, field: int) -> int:
        """Return an unsigned integer of eight bytes."""
        return self._scalar(field, "<Q", 0)

    def text(self, field: int) -> str:
        """Return a text."""
        position = self._field(field)
        if position is None:
            return ""
        return self._content.text(*self._vector(position))

    def texts(self, field: int) -> Iterator[str]:
        """Yield the texts of a list."""
        for element in self._elements(field, size=4):
            yield self._content.text(*self._vector(element))

    def integers(self, field: int, form: str = "<i") -> Iterator[int]:
        """Yield the numbers of a list; `form` is one number in the notation of struct."""
        for element in self._elements(field, struct.calcsize(form)):
            yield self._number(form, element)

    def length(self, field: int) -> int:
        """Return the number of elements of a list of any kind."""
        position = self._field(field)
        if position is None:
            return 0
        _, length = self._vector(position)
        return length

    def table(self, field: int) -> Optional[FlatTable]:
        """Return the table that the field refers to; None if the field is left out."""
        position = self._field(field)
        if position is None:
            return None
        return FlatTable(self._content, position + self._number("<I", position))

    def tables(self, field: int) -> Iterator[FlatTable]:
        """Yield the tables of a list."""
        for element in self._elements(field, size=4):
            yield FlatTable(self._content, element + self._number("<I", element))

    def _scalar(self, field: int, form: str, default: int) -> int:
        position = self._field(field)
        return default if position is None else self._number(form, position)

    def _elements(self, field: int, size: int) -> Iterator[int]:
        """Yield the positions of a list's elements, which have `size` bytes each."""
        position = self._field(field)
        if position is not None:
            begin, length = self._vector(position)
            yield from range(begin, begin + size * length, size)

    def _field(self, number: int) -> Optional[int]:
        """Return the position of the field; None if the file leaves it out."""
        entry = _FIRST_FIELD + 2 * number
        if entry >= self._fields_size:
            return None
        offset = self._number("<H", self._fields + entry)
        return self._position + offset if offset else None

    def _vector(self, position: int) -> tuple[int, int]:
        """Return the position of the first element, and the number of elements, of the list or text
        that the field at `position` refers to.
        """
        vector = position + self._number("<I", position)
        return vector + 4, self._number("<I", vector)

    def _number(self, form: str, position: int) -> int:
        return self._content.number(form, position)


def root(buffer: Buffer) -> FlatTable:
    """Return the root table of the file."""
    content = _Content(buffer)
    return FlatTable(content, content.number("<I", 0))
