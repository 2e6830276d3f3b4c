"""Reads the header of a GGUF file: its keys and the list of its tensors, never their data.

gguf's own reader makes an object of each token of a vocabulary, which takes seconds and hundreds of
MiB; this one skips long lists. Lengths are held against the file's before anything is read.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Union

from reusebench.models.errors import ModelError
from reusebench.models.inspection.gguf_types import TENSOR_TYPES, TensorType
from reusebench.system.files import open_regular, printable

__all__ = ["Header", "LongList", "StoredTensor", "Value", "read_header"]

_MAGIC = b"GGUF"
#: Versions whose layout is read here; 1 has counts of 32 bits, and llama.cpp does not read it.
_VERSIONS = (2, 3)
#: Key: number of a type of values; struct's letter for it.
_FORMATS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT = 8
_LIST = 9

#: Bounds of a header, far above those of any model, so that a damaged file ends early.
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 20
_MOST_TEXTS = 1 << 24
_MOST_DIMENSIONS = 4
#: Longer texts, such as templates of chats, are kept up to here.
_LONGEST_TEXT = 1 << 16
#: Longer lists are skipped: only lists with a value for each layer are used.
_LONGEST_LIST = 1 << 12
_ALIGNMENT_KEY = "general.alignment"
_ALIGNMENT = 32


@dataclass(frozen=True)
class LongList:
    """A list of texts, or a long one of numbers, that is counted and not kept."""

    count: int


#: A value of a key.
Value = Union[str, int, float, bool, list[Union[int, float, bool]], LongList]


class StoredTensor(NamedTuple):
    """A tensor in the list."""

    name: str
    type: TensorType
    #: Values along each dimension, those of a row first.
    sizes: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class Header:
    """The header of one file."""

    path: Path
    #: Size of the file.
    size_bytes: int
    version: int
    keys: dict[str, Value]
    tensors: tuple[StoredTensor, ...]

    def number(self, key: str) -> int | None:
        """Return a whole number; None if the key is missing or has something else."""
        value = self.keys.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        """Return a text; None if the key is missing or has something else."""
        value = self.keys.get(key)
        return value if isinstance(value, str) else None


class _CutShort(ValueError):
    """The file ends within its header."""


class _Damaged(ValueError):
    """The header contradicts itself; the message has the reason."""


def read_header(path: Path) -> Header:
    """Return the header; raise ModelError if it is no complete GGUF file, OSError if unreadable."""
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        name = printable(str(path))
        if content[: len(_MAGIC)] != _MAGIC:
            raise ModelError(f"{name} is not a GGUF model (.gguf). Give one, or copy it again")
        try:
            return _read(path, _Cursor(content))
        except _CutShort as error:
            raise ModelError(f"{name} is cut short: {error}. Copy it again") from None
        except _Damaged as error:
            raise ModelError(f"{name} is damaged: {error}. Copy or convert it again") from None


class _Cursor:
    """A place in the file, which moves on with each value that is read."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self.size = len(content)
        self.position = len(_MAGIC)

    def skip(self, count: int) -> int:
        """Move on by `count` bytes; return the place before."""
        before = self.position
        if count > self.size - before:
            raise _CutShort("it ends within its header")
        self.position += count
        return before

    def number(self, letter: str) -> Union[int, float, bool]:
        """Read one number."""
        (value,) = self.numbers(letter, 1)
        return value

    def whole(self, letter: str) -> int:
        """Read one whole number."""
        return int(self.number(letter))

    def numbers(self, letter: str, count: int) -> tuple[Union[int, float, bool], ...]:
        """Read numbers of one type."""
        layout = f"<{count}{letter}"
        begin = self.skip(struct.calcsize(layout))
        return struct.unpack_from(layout, self._content, begin)

    def text(self, longest: int = _LONGEST_TEXT) -> str:
        """Read a text, of which up to `longest` bytes are kept."""
        length = self.whole("Q")
        begin = self.skip(length)
        kept = self._content[begin : begin + min(length, longest)]
        return kept.decode("utf-8", errors="replace")

    def skip_texts(self, count: int) -> None:
        """Skip texts; a vocabulary has hundreds of thousands."""
        content, position, last = self._content, self.position, self.size - 8
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if position > last:
                raise _CutShort("it ends within its header")
            (length,) = length_at(content, position)
            position += 8 + length
        self.position = position
        self.skip(0)


def _read(path: Path, cursor: _Cursor) -> Header:
    version = cursor.whole("I")
    if version not in _VERSIONS:
        raise ModelError(f"{printable(str(path))} {_version_problem(version)}")
    tensor_count = _count(cursor, "tensors", _MOST_TENSORS)
    key_count = _count(cursor, "keys", _MOST_KEYS)
    keys: dict[str, Value] = {}
    for _ in range(key_count):
        key = cursor.text()
        if key in keys:
            raise _Damaged(f"it has the key {printable(key)} twice")
        keys[key] = _value(cursor, key)
    tensors = list(_tensors(cursor, tensor_count))
    alignment = keys.get(_ALIGNMENT_KEY, _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise _Damaged(f"{_ALIGNMENT_KEY} is no power of 2")
    begin = -(-cursor.position // alignment) * alignment
    _check_ends(tensors, begin, cursor.size)
    return Header(path, cursor.size, version, keys, tuple(tensor for tensor, _ in tensors))


def _version_problem(version: int) -> str:
    if version == 1:
        return "is of GGUF's version 1, which no runtime reads any more. Convert the model again"
    if version & 0xFFFF == 0:
        return "has its bytes in the order of big-endian machines. Convert it for this machine"
    versions = " and ".join(map(str, _VERSIONS))
    return f"is of GGUF's version {version}; versions {versions} are read. Convert it again"


def _count(cursor: _Cursor, kind: str, most: int) -> int:
    count = cursor.whole("Q")
    if count > most:
        raise _Damaged(f"it says that it has {count:,} {kind}")
    return count


def _value(cursor: _Cursor, key: str) -> Value:
    kind = cursor.whole("I")
    if kind == _TEXT:
        return cursor.text()
    if kind in _FORMATS:
        return cursor.number(_FORMATS[kind])
    if kind != _LIST:
        raise _Damaged(f"the key {printable(key)} has a value of the unknown type {kind}")
    kind = cursor.whole("I")
    count = cursor.whole("Q")
    if kind == _TEXT:
        if count > _MOST_TEXTS:
            raise _Damaged(f"the key {printable(key)} says that it has {count:,} texts")
        cursor.skip_texts(count)
        return LongList(count)
    if kind not in _FORMATS:
        raise _Damaged(f"the key {printable(key)} has a list of the unknown type {kind}")
    letter = _FORMATS[kind]
    if count <= _LONGEST_LIST:
        return list(cursor.numbers(letter, count))
    cursor.skip(count * struct.calcsize(f"<{letter}"))
    return LongList(count)


def _tensors(cursor: _Cursor, count: int) -> Iterator[tuple[StoredTensor, int]]:
    """Yield each tensor and the offset of its data."""
    for _ in range(count):
        name = cursor.text()
        dimensions = cursor.whole("I")
        if dimensions > _MOST_DIMENSIONS:
            raise _Damaged(f"the tensor {printable(name)} has {dimensions} dimensions")
        sizes = tuple(map(int, cursor.numbers("Q", dimensions)))
        number = cursor.whole("I")
        offset = cursor.whole("Q")
        kind = TENSOR_TYPES.get(number)
        if kind is None:
            raise _Damaged(f"the tensor {printable(name)} is of the unknown type {number}")
        yield StoredTensor(name, kind, sizes, _tensor_bytes(name, kind, sizes)), offset


def _tensor_bytes(name: str, kind: TensorType, sizes: tuple[int, ...]) -> int:
    values, *rows = sizes or (1,)
    try:
        size_bytes = kind.row_bytes(values)
    except ValueError as error:
        raise _Damaged(f"the tensor {printable(name)} has rows of {error}") from None
    for count in rows:
        size_bytes *= count
    return size_bytes


def _check_ends(tensors: list[tuple[StoredTensor, int]], begin: int, size: int) -> None:
    """Raise _CutShort if a tensor ends behind the file."""
    end = max((offset + tensor.size_bytes for tensor, offset in tensors), default=0)
    if tensors and begin + end > size:
        raise _CutShort(f"its tensors end at byte {begin + end:,}, the file at {size:,}")
