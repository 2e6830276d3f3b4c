"""Tables of FlatBuffers."""

from __future__ import annotations

import struct

import pytest

from reusebench.models.inspection import flatbuffer
from reusebench.models.inspection.flatbuffer import root

#: A table with field 1 alone, an integer; its list of offsets stands before it, and other bytes
#: behind.
_ONE_FIELD = struct.pack("<I4x HHHH ii", 16, 8, 8, 0, 4, 8, -7) + b"\xff" * 40


def test_fields() -> None:
    """A field is found by its number; a missing one has its default."""
    table = root(_ONE_FIELD)
    assert (table.integer(0), table.integer(1), table.byte(1)) == (0, -7, -7)
    assert (table.integer(2), table.byte(5), table.text(9), list(table.tables(3))) == (0, 0, "", [])


@pytest.mark.parametrize("position", [12, 2**31])
def test_damaged(position: int) -> None:
    """An offset out of the file is an error, and reads nothing outside of it."""
    with pytest.raises((struct.error, ValueError)):
        root(struct.pack("<I8xi200x", position, 99)).integer(0)


def test_reading_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading ends even if the lists of a damaged file contain each other."""
    monkeypatch.setattr(flatbuffer, "_MOST_READS", 50)
    table = root(_ONE_FIELD)
    with pytest.raises(ValueError, match="more than 50"):
        sum(table.integer(1) for _ in range(50))


def test_lists() -> None:
    """Lists of numbers, texts and tables have their stored lengths; a missing list is empty."""
    # A table with a list of numbers, one of texts, and a table that is itself.
    table = struct.pack("<I HHHHH2x iIII", 16, 10, 16, 4, 8, 12, 12, 12, 20, 2**32 - 12)
    lists = struct.pack("<Iii", 2, 5, -6) + struct.pack("<II I4s", 1, 4, 2, b"ok")
    # The offsets of the lists are relative to their own positions.
    parent = root(table + lists)
    assert list(parent.integers(0)) == [5, -6]
    assert (parent.length(0), parent.length(7)) == (2, 0)
    assert (list(parent.integers(7)), list(parent.texts(7)), parent.table(7)) == ([], [], None)
    assert list(parent.texts(1)) == ["ok"]
    assert (parent.integer(9, 3), parent.byte(9, 4)) == (3, 4)
