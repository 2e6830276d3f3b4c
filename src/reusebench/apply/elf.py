"""What the file of a program tells of how it is started: architecture, loader, libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from reusebench.system.files import open_regular

__all__ = ["ElfFile", "needed_versions", "read_elf"]

_MAGIC = b"\x7fELF"
#: Bytes of the header that have the class, 32 or 64 bits, and the order of bytes.
_CLASS, _ORDER = 4, 5
_LITTLE_ENDIAN = 1
#: Architectures by e_machine (elf.h); for others there is no library of Rockchip's.
_MACHINES = {40: "armhf", 183: "aarch64", 62: "x86_64"}
#: p_type: PT_LOAD, PT_DYNAMIC, PT_INTERP.
_LOAD, _DYNAMIC, _LOADER = 1, 2, 3
#: d_tag: DT_NEEDED, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM.
_NEEDED, _STRINGS, _VERSIONS, _VERSION_FILES = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF
#: Elfxx_Verneed: number of versions; from its own place to the first one and to the next file.
_VERSION_FILE = "<2xH4xII"
#: Elfxx_Vernaux: name; from its own place to the next version.
_VERSION = "<8xII"
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
            tables = _Tables(file, form)
            return ElfFile(tables.architecture, tables.loader(), tuple(tables.needed()))
        except (struct.error, OSError):  # the end is before the place, or no file has it
            return None


def needed_versions(library: Path) -> frozenset[str]:
    """Return the versions of functions that a library of ours needs, such as GLIBC_2.17."""
    with open_regular(library) as file:
        form = _FORMS[file.read(len(_MAGIC) + 1)[_CLASS]]
        return frozenset(_Tables(file, form).versions())


class _Tables:
    """The tables of a file; struct.error if they lead out of it."""

    def __init__(self, file: BinaryIO, form: _Form) -> None:
        self._file = file
        machine, place, size, count = self._unpacked(0, form.header)
        self.architecture = _MACHINES.get(machine)
        self._segments = [
            _Segment(*self._unpacked(place + size * number, form.segment))
            for number in range(count)
        ]
        self._dynamic: list[tuple[int, ...]] = []
        for segment in self._segments:
            if segment.kind == _DYNAMIC:
                data = self._bytes(segment.place, min(segment.size, _LARGEST_TABLE))
                self._dynamic += struct.iter_unpack(form.entry, data)

    def loader(self) -> str | None:
        for segment in self._segments:
            if segment.kind == _LOADER:
                return self._text(segment.place)
        return None

    def needed(self) -> Iterator[str]:
        for name in self._values(_NEEDED):
            yield self._name(name)

    def versions(self) -> Iterator[str]:
        """Yield the names in the list of files, each with a list of versions."""
        for address, files in zip(self._values(_VERSIONS), self._values(_VERSION_FILES)):
            place = self._place_of(address)
            for _ in range(files):
                count, first, next_file = self._unpacked(place, _VERSION_FILE)
                of_version = place + first
                for _ in range(count):
                    name, next_version = self._unpacked(of_version, _VERSION)
                    yield self._name(name)
                    of_version += next_version
                place += next_file

    def _values(self, wanted: int) -> list[int]:
        return [value for tag, value in self._dynamic if tag == wanted]

    def _name(self, offset: int) -> str:
        """Return the name at an offset in the table of strings."""
        (strings,) = self._values(_STRINGS)[:1] or [0]
        return self._text(self._place_of(strings + offset))

    def _place_of(self, address: int) -> int:
        for segment in self._segments:
            if segment.kind == _LOAD and 0 <= address - segment.address < segment.size:
                return segment.place + address - segment.address
        raise struct.error("an address outside the file")

    def _unpacked(self, place: int, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self._bytes(place, struct.calcsize(form)))

    def _text(self, place: int) -> str:
        return self._bytes(place, _LONGEST_NAME).partition(b"\0")[0].decode(errors="replace")

    def _bytes(self, place: int, size: int) -> bytes:
        if place > _LAST_PLACE:
            raise struct.error("a place outside any file")
        self._file.seek(place)
        return self._file.read(size)
