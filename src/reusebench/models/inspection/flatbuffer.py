"""Reads tables of a FlatBuffers file by the numbers of their fields; a schema is the caller's."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Optional, Union

__all__ = ["Buffer", "FlatTable", "root"]

#: The file, mapped or read.
Buffer = Union[bytes, memoryview, mmap.mmap]

#: Numbers and bytes of texts that are read of one file: networks have up to some 10,000 operators,
#: with tens of numbers each. In a damaged one each list may stand in many others; so many take a
#: few seconds and 200 MB.
_MOST_READS = 3_000_000

#: Of the field number 0 in a table's list of offsets; each has two bytes.
_FIRST_FIELD = 4


class _Content:
    """The file, of which so much is read and no more."""

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
    """A table; its fields are numbered from 0. A damaged one raises struct.error or ValueError."""

    __slots__ = ("_content", "_fields", "_fields_size", "_position")

    def __init__(self, content: _Content, position: int) -> None:
        self._content = content
        self._position = position
        self._fields = position - self._number("<i", position)
        self._fields_size = self._number("<H", self._fields)

    def byte(self, field: int, default: int = 0) -> int:
        """Return a signed byte; the default where it is not there."""
        position = self._field(field)
        return default if position is None else self._number("<b", position)

    def integer(self, field: int, default: int = 0) -> int:
        """Return a signed integer of four bytes; the default where it is not there."""
        position = self._field(field)
        return default if position is None else self._number("<i", position)

    def long(self, field: int) -> int:
        """Return an unsigned integer of eight bytes; 0 where it is not there."""
        position = self._field(field)
        return 0 if position is None else self._number("<Q", position)

    def text(self, field: int) -> str:
        """Return a text; "" where it is not there."""
        position = self._field(field)
        if position is None:
            return ""
        return self._content.text(*self._vector(position))

    def texts(self, field: int) -> Iterator[str]:
        """Yield the texts of a list."""
        for entry in self._entries(field):
            yield self._content.text(*self._vector(entry))

    def integers(self, field: int, form: str = "<i") -> Iterator[int]:
        """Yield the numbers of a list, of four bytes, or as in the struct module's form of one."""
        position = self._field(field)
        if position is not None:
            begin, length = self._vector(position)
            size = struct.calcsize(form)
            for entry in range(begin, begin + size * length, size):
                yield self._number(form, entry)

    def length(self, field: int) -> int:
        """Return the number of elements of a list, of whatever kind; 0 where it is not there."""
        position = self._field(field)
        return 0 if position is None else self._vector(position)[1]

    def table(self, field: int) -> Optional[FlatTable]:
        """Return the table that the field refers to; None if it is not there."""
        position = self._field(field)
        return (
            None
            if position is None
            else FlatTable(self._content, position + self._number("<I", position))
        )

    def tables(self, field: int) -> Iterator[FlatTable]:
        """Yield the tables of a list."""
        for entry in self._entries(field):
            yield FlatTable(self._content, entry + self._number("<I", entry))

    def _entries(self, field: int) -> Iterator[int]:
        """Yield where the elements are of a list of what is referred to."""
        position = self._field(field)
        if position is not None:
            begin, length = self._vector(position)
            yield from range(begin, begin + 4 * length, 4)

    def _field(self, number: int) -> Optional[int]:
        """Return where the field is; None if the table has it not."""
        entry = _FIRST_FIELD + 2 * number
        offset = self._number("<H", self._fields + entry) if entry < self._fields_size else 0
        return self._position + offset if offset else None

    def _vector(self, position: int) -> tuple[int, int]:
        """Return where the elements begin of the list, or text, that the field at position refers
        to; their number.
        """
        vector = position + self._number("<I", position)
        return vector + 4, self._number("<I", vector)

    def _number(self, form: str, position: int) -> int:
        return self._content.number(form, position)


def root(buffer: Buffer) -> FlatTable:
    """Return the table that the file consists of."""
    content = _Content(buffer)
    return FlatTable(content, content.number("<I", 0))
