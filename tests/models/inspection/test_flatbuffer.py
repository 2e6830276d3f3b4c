"""Tables of FlatBuffers."""

from __future__ import annotations

import struct

import pytest

from models.inspection.flatbuffer import root

#: A table with field 1 alone, an integer; its list of offsets stands before it, and other bytes behind.
_ONE_FIELD = struct.pack("<I4x HHHH ii", 16, 8, 8, 0, 4, 8, -7) + b"\xff" * 40


def test_fields() -> None:
    """A field is found by its number; one that the table leaves out, or is too old to know, has its default."""
    table = root(_ONE_FIELD)
    assert (table.integer(0), table.integer(1), table.byte(1)) == (0, -7, -7)
    assert (table.integer(2), table.byte(5), table.text(9), list(table.tables(3))) == (0, 0, "", [])


@pytest.mark.parametrize("position", [12, 2**31])
def test_damaged(position: int) -> None:
    """An offset that leads out of the file is an error, and reads nothing behind its end or before its beginning."""
    with pytest.raises((struct.error, ValueError)):
        root(struct.pack("<I8xi200x", position, 99)).integer(0)
