"""The parts of an index on disk: each covers some files of a storage, and never changes.

A part is a folder with a list of its files and a Parquet file for each table. It is written beside
its place and renamed, so that it is whole or not there, with several writers too. A checksum tells
a damaged part, which is removed: its files are read again. Parts that are merged are removed after
their successor is there. Two parts may cover a file; one of them is taken.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from reusebench.storage.index.covered import CoveredFile
from reusebench.system.files import UNFINISHED

__all__ = ["NewPart", "Part", "parts_in", "remove_leftovers", "remove_part"]

_LIST = "files"
_SUFFIX = ".parquet"
#: Digits of a part's name.
_DIGITS = 16
#: Bytes of a checksum.
_SUM_BYTES = 4
_BLOCK_BYTES = 1 << 20
#: Rows of a part are numbered from its number times this.
_MOST_FILES = 1 << 32
_MOST_NUMBER = 1 << 30
#: Age from which an unfinished part is left over, and an index of another version is not used.
_LEFT_AFTER_S = 24 * 60 * 60
_UNUSED_AFTER_S = 30 * _LEFT_AFTER_S


class _List(msgspec.Struct, frozen=True, array_like=True):
    """The content of the list of files."""

    number: int
    #: Key: table; value: checksum of its file.
    sums: dict[str, int]
    #: Size of all tables' files.
    size_bytes: int
    files: list[CoveredFile]


@dataclass
class Part:
    """A part of an index."""

    folder: Path
    number: int
    files: list[CoveredFile]
    #: Size of all tables' files.
    size_bytes: int
    _sums: dict[str, int]
    _checked: set[str] = field(default_factory=set)

    def key(self, position: int) -> int:
        """Return the value of the column `run` for the file at this position in `files`."""
        return self.number * _MOST_FILES + position

    def table(self, name: str) -> Path:
        """Return the Parquet file of a table.

        If it is gone or damaged, the part is removed, and OSError raised.
        """
        path = self.folder / f"{name}{_SUFFIX}"
        if name not in self._checked:
            try:
                is_whole = _sum_of(path) == self._sums.get(name)
            except OSError:
                is_whole = False
            if not is_whole:
                remove_part(self.folder)
                raise OSError(f"{path} is damaged")
            self._checked.add(name)
        return path


def parts_in(folder: Path, known: Collection[str] = ()) -> Iterator[Part]:
    """Yield the parts in a folder, but those of `known` names; damaged ones are removed."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  faster
    except OSError:
        return
    for name in names:
        if name.startswith(".") or name in known:
            continue
        try:
            content = (folder / name / _LIST).read_bytes()
        except OSError:
            # It was merged meanwhile, or is not ours.
            continue
        listed = _listed(content)
        if listed is None:
            remove_part(folder / name)
        else:
            yield Part(folder / name, listed.number, listed.files, listed.size_bytes, listed.sums)


def _listed(content: bytes) -> _List | None:
    sum_bytes, packed = content[:_SUM_BYTES], content[_SUM_BYTES:]
    if int.from_bytes(sum_bytes, "big") != zlib.crc32(packed):
        return None
    try:
        return msgspec.msgpack.decode(packed, type=_List)
    except msgspec.DecodeError:
        return None


class NewPart:
    """A part that is being written; `folder` gets its Parquet files."""

    def __init__(self, index: Path) -> None:
        """Make the folder in the index; raise OSError if it cannot be made."""
        self.number = secrets.randbelow(_MOST_NUMBER)
        self._place = index / secrets.token_hex(_DIGITS // 2)
        self.folder = index / f".{self._place.name}.{os.getpid()}{UNFINISHED}"
        self.folder.mkdir(parents=True)

    def key(self, position: int) -> int:
        """Return the value of the column `run` for the file at this position."""
        return self.number * _MOST_FILES + position

    def table(self, name: str) -> Path:
        """Return the path at which the file of a table is to be written."""
        return self.folder / f"{name}{_SUFFIX}"

    def finish(self, files: list[CoveredFile], tables: Iterable[str]) -> None:
        """Write the list of files, and put the part in its place."""
        paths = {name: self.table(name) for name in tables}
        sums = {name: _sum_of(path) for name, path in paths.items()}
        size_bytes = sum(path.stat().st_size for path in paths.values())
        packed = msgspec.msgpack.encode(_List(self.number, sums, size_bytes, files))
        content = zlib.crc32(packed).to_bytes(_SUM_BYTES, "big") + packed
        (self.folder / _LIST).write_bytes(content)
        self.folder.rename(self._place)

    def discard(self) -> None:
        """Remove what was written, if it is not in its place."""
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_part(folder: Path) -> None:
    """Remove a part as a whole, if this user may: nobody sees half of it."""
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}{UNFINISHED}")
    with suppress(OSError):
        folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def remove_leftovers(index: Path, version: str) -> None:
    """Remove what killed processes left, and indexes of versions that nobody uses any more."""
    now_s = time.time()
    for path, after_s in (
        *((path, _LEFT_AFTER_S) for path in index.glob(f"{version}/.*{UNFINISHED}")),
        *((path, _UNUSED_AFTER_S) for path in index.glob("[0-9a-f]*") if path.name != version),
    ):
        with suppress(OSError):
            if now_s - path.lstat().st_mtime > after_s:
                shutil.rmtree(path, ignore_errors=True)


def _sum_of(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            total = zlib.crc32(block, total)
    return total
