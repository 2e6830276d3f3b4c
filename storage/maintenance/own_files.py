"""Which files in a storage this project made: what is removed is one of these, and no link is followed to it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["RUN_ID", "is_regular", "own_files", "own_folders"]

#: What names the traces' folders: the id of a session, the start of a UUID in hexadecimal digits, or of a recording,
#: its moment and the process that recorded.
RUN_ID = re.compile(r"[0-9a-f]{12}|\d{8}_\d{6}-\d+")


def own_folders(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    """Yield the folders with such names in the folder, by name; none where the folder is a link, or is not there."""
    yield from (Path(entry) for entry in _entries(folder, name) if entry.is_dir(follow_symlinks=False))


def own_files(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    """Yield the regular files with such names in the folder, by name; none where it is a link, or is not there."""
    yield from (Path(entry) for entry in _entries(folder, name) if entry.is_file(follow_symlinks=False))


def is_regular(path: Path) -> bool:
    """Whether the path is a regular file in a folder that is no link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and not path.parent.is_symlink()
    except OSError:
        return False


def _entries(folder: Path, name: re.Pattern[str]) -> list[os.DirEntry[str]]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if name.fullmatch(entry.name)), key=lambda entry: entry.name)
