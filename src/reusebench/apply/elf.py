"""What the file of a program tells of how it is started: architecture, loader, libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from reusebench.system.files import open_regular

__all__ = ["ElfFile", "read_elf"]

_MAGIC = b"\x7fELF"
#: Bytes of the header that have the class, 32 or 64 bits, and the order of bytes.
_CLASS, _ORDER = 4, 5
_LITTLE_ENDIAN = 1
#: Architectures by e_machine (elf.h); for others there is no library of Rockchip's.
_MACHINES = {40: "armhf", 183: "aarch64", 62: "x86_64"}
#: p_type: PT_LOAD, PT_DYNAMIC, PT_INTERP.
_LOAD, _DYNAMIC, _LOADER = 1, 2, 3
#: d_tag: DT_NEEDED, DT_STRTAB.
_NEEDED, _STRINGS = 1, 5
_LONGEST_NAME = 4096
#: No real table is larger; a damaged file may say so.
_LARGEST_TABLE = 1 << 16
#: A file's offset is a signed number of 64 bits.
_LAST_PLACE = (1 << 63) - 1


@dataclass(frozen=True)
class ElfFile:
    """A program or a library."""

    #: None: another one than those of boards and PCs.
    architecture: str | None
    #: Path of the dynamic loader; None: the program is static.
    loader: str | None
    #: Names of the libraries that it is linked with.
    needed: tuple[str, ...]


class _Form(NamedTuple):
    """The forms of tables, for struct."""

    #: Machine; place, size and number of the segments.
    header: str
    #: Kind, place, address and size.
    segment: str
    #: Tag and value.
    entry: str


_FORMS = {
    1: _Form("<18xH8xI10xHH", "<III4xI12x", "<II"),
    2: _Form("<18xH12xQ14xHH", "<I4xQQ8xQ16x", "<QQ"),
}


class _Segment(NamedTuple):
    kind: int
    place: int
    address: int
    size: int


def read_elf(path: Path) -> ElfFile | None:
    """Return architecture, loader and libraries; None if it is no ELF file, or a damaged one.

    Raises OSError if the file cannot be read.
    """
    with open_regular(path) as file:
        start = file.read(len(_MAGIC) + 2)
        if len(start) < len(_MAGIC) + 2 or not start.startswith(_MAGIC):
            return None
        form = _FORMS.get(start[_CLASS])
        if form is None or start[_ORDER] != _LITTLE_ENDIAN:
            return ElfFile(None, None, ())
        try:
            return _read(file, form)
        except (struct.error, OSError):  # the end is before the place, or no file has it
            return None


def _read(file: BinaryIO, form: _Form) -> ElfFile:
    machine, place, size, count = _unpacked(file, 0, form.header)
    segments = [_Segment(*_unpacked(file, place + size * at, form.segment)) for at in range(count)]
    loaders = [segment for segment in segments if segment.kind == _LOADER]
    return ElfFile(
        architecture=_MACHINES.get(machine),
        loader=_text(file, loaders[0].place) if loaders else None,
        needed=tuple(_needed(file, form, segments)),
    )


def _needed(file: BinaryIO, form: _Form, segments: list[_Segment]) -> Iterator[str]:
    """Yield the names of the libraries, which are in the table of strings."""
    for dynamic in segments:
        if dynamic.kind != _DYNAMIC:
            continue
        data = _bytes(file, dynamic.place, min(dynamic.size, _LARGEST_TABLE))
        entries = list(struct.iter_unpack(form.entry, data))
        addresses = [value for tag, value in entries if tag == _STRINGS]
        for tag, value in entries:
            if tag == _NEEDED and addresses:
                yield _text(file, _place_of(addresses[0] + value, segments))


def _place_of(address: int, segments: list[_Segment]) -> int:
    for segment in segments:
        if segment.kind == _LOAD and 0 <= address - segment.address < segment.size:
            return segment.place + address - segment.address
    raise struct.error("an address outside the file")


def _unpacked(file: BinaryIO, place: int, form: str) -> tuple[int, ...]:
    return struct.unpack(form, _bytes(file, place, struct.calcsize(form)))


def _text(file: BinaryIO, place: int) -> str:
    return _bytes(file, place, _LONGEST_NAME).partition(b"\0")[0].decode(errors="replace")


def _bytes(file: BinaryIO, place: int, size: int) -> bytes:
    if place > _LAST_PLACE:
        raise struct.error("a place outside any file")
    file.seek(place)
    return file.read(size)
