"""An empty shared library: the loader takes it in place of one that is not there.

Without it every program of the other architecture would print an error of the loader.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["placeholder"]

_HEADERS, _PAGE = 3, 0x10000
#: e_type ET_DYN; p_type PT_LOAD, PT_DYNAMIC, PT_GNU_STACK; p_flags R, RW.
_SHARED, _LOAD, _DYNAMIC, _STACK, _R, _RW = 3, 1, 2, 0x6474E551, 4, 6
#: d_tag DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL.
_HASH, _STRINGS, _SYMBOLS, _STRINGS_SIZE, _SYMBOL_SIZE, _END = 4, 5, 6, 10, 11, 0


class _Form(NamedTuple):
    """The forms of tables, for struct, and the values of the header."""

    bits: int
    machine: int
    flags: int
    header: str
    symbol_bytes: int
    entry: str


_FORMS = {
    "aarch64": _Form(2, 183, 0, "<16sHHIQQQIHHHHHH", 24, "<QQ"),
    # EF_ARM_EABI_VER5, EF_ARM_ABI_FLOAT_HARD
    "armhf": _Form(1, 40, 0x05000400, "<16sHHIIIIIHHHHHH", 16, "<II"),
    "x86_64": _Form(2, 62, 0, "<16sHHIQQQIHHHHHH", 24, "<QQ"),
}


def placeholder(architecture: str) -> bytes:
    """Return the file for an architecture: nothing but the tables that the loader asks for."""
    form = _FORMS[architecture]
    header_bytes = struct.calcsize(form.header)
    segment_bytes = len(_segment(form, _LOAD, _R, 0, 0))
    hashes = header_bytes + _HEADERS * segment_bytes
    symbols = hashes + 16  # one bucket and one symbol
    dynamic = symbols + form.symbol_bytes
    strings = symbols  # the empty name, in the empty symbol
    entries = (
        (_HASH, hashes),
        (_STRINGS, strings),
        (_SYMBOLS, symbols),
        (_STRINGS_SIZE, 1),
        (_SYMBOL_SIZE, form.symbol_bytes),
        (_END, 0),
    )
    table = b"".join(struct.pack(form.entry, *entry) for entry in entries)
    end = dynamic + len(table)
    header = struct.pack(
        form.header,
        b"\x7fELF" + bytes((form.bits, 1, 1)),
        _SHARED,
        form.machine,
        1,
        0,
        header_bytes,
        0,
        form.flags,
        header_bytes,
        segment_bytes,
        _HEADERS,
        0,
        0,
        0,
    )
    segments = (
        _segment(form, _LOAD, _RW, 0, end)
        + _segment(form, _DYNAMIC, _RW, dynamic, len(table))
        + _segment(form, _STACK, _RW, 0, 0)
    )
    return header + segments + struct.pack("<IIII", 1, 1, 0, 0) + bytes(form.symbol_bytes) + table


def _segment(form: _Form, kind: int, flags: int, place: int, size: int) -> bytes:
    if form.bits == 1:
        return struct.pack("<8I", kind, place, place, place, size, size, flags, _PAGE)
    return struct.pack("<II6Q", kind, flags, place, place, place, size, size, _PAGE)
