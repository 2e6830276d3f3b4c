"""The compacted form of stored files: the same content as xz, under a name that ends in `.xz`.

A run's `x.json` becomes `x.json.xz`, a trace's `x.json.gz` becomes `x.json.xz`. While a file
changes its form both are there, with the same content.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

__all__ = [
    "compacted_name",
    "in_either_form",
    "is_compacted",
    "pack",
    "plain_name",
    "unpack",
    "unpack_beginning",
]

_XZ = ".xz"
_GZIP = ".gz"
#: Level of compression. With a lower one traces take a fifth more.
_LEVEL = 6
#: Bounds of the distance of repetitions that are found. Packing takes ten times as much memory.
_LEAST_WINDOW = 4 << 10
_MOST_WINDOW = 8 << 20
#: Limit of the memory for unpacking; ours takes little more than _MOST_WINDOW.
_MOST_MEMORY = 64 << 20

_Read = TypeVar("_Read")


def is_compacted(name: str) -> bool:
    """Whether a file of this name is compacted."""
    return name.endswith(_XZ)


def compacted_name(name: str) -> str:
    """Return the name of the compacted form of a plain run or trace."""
    return name.removesuffix(_GZIP) + _XZ


def plain_name(name: str) -> str:
    """Return the name of a run's file in its plain form."""
    return name.removesuffix(_XZ)


def in_either_form(read: Callable[[str], _Read], name: str) -> _Read:
    """Return `read(name)`, or that of the other form if only this is there.

    A file that changes its form meanwhile is found as well. `name` may be a path.
    """
    other = plain_name(name) if is_compacted(name) else compacted_name(name)
    try:
        return read(name)
    except FileNotFoundError as missing:
        for form in (other, name):
            try:
                return read(form)
            except FileNotFoundError:
                continue
        raise missing


def pack(content: bytes) -> bytes:
    """Return the compacted content; raise OSError if this Python cannot make it."""
    lzma = _lzma()
    # A window as large as the content is enough; the default takes 94 MiB.
    window = min(max(len(content), _LEAST_WINDOW), _MOST_WINDOW)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": _LEVEL, "dict_size": window}]
    packed: bytes = lzma.compress(content, format=lzma.FORMAT_XZ, filters=filters)
    return packed


def unpack(packed: bytes, at_most_bytes: int) -> bytes:
    """Return the plain content.

    Raises ValueError if it is damaged, and OSError if it exceeds `at_most_bytes` or if this Python
    cannot read it.
    """
    unpacking = _Unpacking()
    content = unpacking.first(packed, at_most_bytes + 1)
    if len(content) > at_most_bytes:
        raise OSError(
            errno.EFBIG, f"it has more than {at_most_bytes:,} bytes, the most that is read"
        )
    unpacking.check_end()
    return content


def unpack_beginning(packed: bytes, at_most_bytes: int) -> bytes:
    """Return the beginning of the plain content, by that of the packed; raise as `unpack` does."""
    return _Unpacking().first(packed, at_most_bytes)


class _Unpacking:
    """The unpacking of one file, with limited memory."""

    def __init__(self) -> None:
        self._lzma = _lzma()
        self._stream = self._lzma.LZMADecompressor(self._lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)

    def first(self, packed: bytes, at_most_bytes: int) -> bytes:
        try:
            content: bytes = self._stream.decompress(packed, max_length=at_most_bytes)
        except self._lzma.LZMAError as error:
            raise ValueError(f"its compression: {error}") from None
        return content

    def check_end(self) -> None:
        if not self._stream.eof:
            raise ValueError("its compression: it is cut off")
        if self._stream.unused_data:
            raise ValueError("its compression: more follows its end")


def _lzma() -> ModuleType:
    """Return the module; raise OSError if this Python was built without it."""
    # Not at the top: it is needed for compacted files alone, and some Pythons lack it.
    try:
        import lzma
    except ImportError:
        raise OSError(
            errno.ENOSYS,
            "it is compacted as xz, and this Python has no module lzma; use one that has it",
        ) from None
    return lzma
