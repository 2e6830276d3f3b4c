"""A run is written: whole or not at all, under a number that no other run of its storage has."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

__all__ = [
    "UNFINISHED",
    "RunNameInvalid",
    "python_folder",
    "run_number",
    "save_run",
    "sync_names",
    "to_json",
    "write_synced",
]

#: End of the name of a file that is being written. It begins with a dot, and stands where no reader looks.
UNFINISHED = ".unfinished"
_NUMBERED = re.compile(r"(\d+)_.+\.json")
#: What pytest-benchmark does not allow in --benchmark-save.
_NOT_IN_NAMES = r"\/:*?<>|"


class RunNameInvalid(ValueError):
    """A run cannot have this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} cannot be the name of a run; valid: one character or more, none of {_NOT_IN_NAMES}")


def save_run(storage: Path, document: dict[str, Any], name: str) -> Path:
    """Write the run as `storage/PYTHON/NNNN_name.json` and return that path; raise OSError where it cannot be written.

    Runs that are written at the same time get different numbers, whatever their names. Whenever the writer is killed,
    readers find the whole file or none.
    """
    if not name or set(name) & set(_NOT_IN_NAMES):
        raise RunNameInvalid(name)
    content = to_json(document)
    folder = storage / python_folder()
    folder.mkdir(parents=True, exist_ok=True)
    number, unfinished = _claim(storage)
    try:
        write_synced(unfinished, content)
        path = unfinished.rename(folder / f"{number:04}_{name}.json")
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_names(folder)
    sync_names(storage)
    return path


def run_number(path: Path) -> int | None:
    """Return the number that a run's file has; None where it is called otherwise."""
    named = _NUMBERED.fullmatch(path.name)
    return int(named[1]) if named else None


def _claim(storage: Path) -> tuple[int, Path]:
    """Return the next number, and the file to write into, which keeps every other writer from this number.

    Only one can make that file. Who has made it looks again: another writer may have had it, and be done.
    """
    number = max(_numbers(storage), default=0)
    while True:
        number += 1
        unfinished = storage / f".{number:04}{UNFINISHED}"
        try:
            unfinished.touch(exist_ok=False)
        except FileExistsError:
            continue
        if number not in _numbers(storage):
            return number, unfinished
        unfinished.unlink(missing_ok=True)


def _numbers(storage: Path) -> set[int]:
    """Return the numbers of the runs in the storage."""
    return {run_number(path) or 0 for path in storage.glob("*/*.json")}


def write_synced(path: Path, content: bytes) -> None:
    """Write the content and have it on the disk, so that a name never stands there without it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_names(folder: Path) -> None:
    """Have the names of the folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems cannot; the file is there all the same.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def python_folder() -> str:
    """Return the name of this Python's folder, which is pytest-benchmark's."""
    version = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.system()}-{platform.python_implementation()}-{version}-{platform.architecture()[0]}"


def to_json(document: dict[str, Any]) -> bytes:
    """Return the document as JSON without blanks."""
    return json.dumps(document, separators=(",", ":"), default=_unknown).encode()


def _unknown(value: Any) -> str:
    """Return what pytest-benchmark writes for what JSON has no form for."""
    return f"UNSERIALIZABLE[{value!r}]"
