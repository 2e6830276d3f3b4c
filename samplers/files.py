"""Files of /proc and /sys: their text, their lines `Key:   123 kB` as bytes, and many small ones in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["directory", "parse_sizes", "read_at", "read_text", "under"]

_PAGE_BYTES = 4096


def parse_sizes(text: str) -> dict[str, int]:
    """Return the lines `Key: N kB` of a /proc file as {Key: bytes}; other lines are left out."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if unit == "kB" and number.isdigit():
            sizes[key] = int(number) * 1024
    return sizes


def read_text(path: Path) -> str | None:
    """Return the content of the file; None where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


@contextmanager
def directory(path: Path) -> Iterator[int]:
    """Open a folder: the kernel need not walk the path again for every file in it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


def read_at(name: str, folder: int) -> bytes:
    """Return the content of a small file in that open folder: a page at most, as files of /proc and /sys have."""
    file = os.open(name, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(file, _PAGE_BYTES)
    finally:
        os.close(file)


def under(root: Path, path: str) -> Path:
    """Return the absolute path below another root."""
    return root / path.lstrip("/")
