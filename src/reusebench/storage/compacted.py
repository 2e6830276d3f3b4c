"""The forms of stored files, by the ends of their names: plain, `.gz`, and compacted as `.xz`.

Compacted, a run's `x.json` becomes `x.json.xz`, and a trace's `x.json.gz` becomes `x.json.xz`.
While a file changes its form both are there, with the same content.
"""

from __future__ import annotations

import errno
import gzip
import re
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from reusebench.system.files import UNFINISHED

__all__ = [
    "UNFINISHED_FORM",
    "beginning",
    "compacted_name",
    "decoded",
    "encoded",
    "in_either_form",
    "is_compacted",
    "plain_name",
    "plain_trace_name",
]

#: Name of a file that is being written in another form; a kill may leave it.
UNFINISHED_FORM = re.compile(rf"\..+\.json(\.gz|\.xz)?\.[0-9]+{re.escape(UNFINISHED)}")
_XZ = ".xz"
_GZIP = ".gz"
#: zlib's wbits for the gzip format.
_GZIP_BITS = 31
#: Level of both compressions. With a lower one of xz traces take a fifth more.
_LEVEL = 6
#: Bounds of the distance of repetitions that xz finds. Packing takes ten times as much memory.
_LEAST_WINDOW = 4 << 10
_MOST_WINDOW = 8 << 20
#: Limit of the memory for unpacking xz; ours takes little more than _MOST_WINDOW.
_MOST_MEMORY = 64 << 20

_Read = TypeVar("_Read")


def is_compacted(name: str) -> bool:
    """Whether a file of this name is compacted."""
    return name.endswith(_XZ)


def compacted_name(name: str) -> str:
    """Return the name of the compacted form of this run or trace."""
    return name.removesuffix(_GZIP) + _XZ


def plain_name(name: str) -> str:
    """Return the name of a run's file in its plain form."""
    return name.removesuffix(_XZ)


def plain_trace_name(name: str) -> str:
    """Return the name of a trace in its plain form, by which a result names it."""
    return name.removesuffix(_XZ) + _GZIP if is_compacted(name) else name


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


def encoded(name: str, content: bytes) -> bytes:
    """Return the content of a file of this name; raise OSError if this Python cannot make it."""
    if name.endswith(_GZIP):
        return gzip.compress(content, _LEVEL, mtime=0)
    if not is_compacted(name):
        return content
    lzma = _lzma()
    # A window as large as the content is enough; the default takes 94 MiB.
    window = min(max(len(content), _LEAST_WINDOW), _MOST_WINDOW)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": _LEVEL, "dict_size": window}]
    packed: bytes = lzma.compress(content, format=lzma.FORMAT_XZ, filters=filters)
    return packed


def decoded(name: str, content: bytes, at_most_bytes: int) -> bytes:
    """Return the content that a file of this name stands for.

    Raises ValueError if the file is damaged, and OSError if the result exceeds `at_most_bytes` or
    if this Python cannot read it.
    """
    if not name.endswith((_GZIP, _XZ)):
        return content
    unpacking = _Unpacking(name)
    unpacked = unpacking.first(content, at_most_bytes + 1)
    if len(unpacked) > at_most_bytes:
        raise OSError(
            errno.EFBIG, f"it has more than {at_most_bytes:,} bytes, the most that is read"
        )
    unpacking.check_end()
    return unpacked


def beginning(name: str, content: bytes, at_most_bytes: int) -> bytes:
    """Return the first bytes of the content of a `.gz` or `.xz`; raise as `decoded` does.

    `content` may be the beginning of the file.
    """
    return _Unpacking(name).first(content, at_most_bytes)


class _Unpacking:
    """The unpacking of one `.gz` or `.xz`, with limited memory."""

    def __init__(self, name: str) -> None:
        self._error: type[Exception] = zlib.error
        if is_compacted(name):
            lzma = _lzma()
            self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
            self._error = lzma.LZMAError
        else:
            self._stream = zlib.decompressobj(_GZIP_BITS)

    def first(self, content: bytes, at_most_bytes: int) -> bytes:
        try:
            unpacked: bytes = self._stream.decompress(content, at_most_bytes)
        except self._error as error:
            raise ValueError(f"its compression: {error}") from None
        return unpacked

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
            errno.ENOSYS, "xz needs the module lzma, which this Python lacks; use one that has it"
        ) from None
    return lzma
