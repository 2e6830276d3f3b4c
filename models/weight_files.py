"""The files beside a model's own that have its weights."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtimes import RUNTIMES

__all__ = ["mapped", "weight_files"]

#: What ONNX calls the name of a file with weights (onnx.proto, TensorProto.external_data).
_NAMES_A_FILE = b"location"
_SHORTEST_NAME = 4


def weight_files(path: Path) -> list[Path]:
    """Return those that are there: of a runtime's own kind by its suffix, and what an ONNX file names."""
    suffixes = [entry.weights_suffix for entry in RUNTIMES if entry.suffix == path.suffix]
    files = [path.with_suffix(suffix) for suffix in suffixes if suffix]
    with mapped(path) as content:
        # Looked for first: a search for the name of each of a hundred files takes seconds.
        siblings = sorted(path.parent.iterdir()) if content.find(_NAMES_A_FILE) >= 0 else []
        for sibling in siblings:
            if sibling != path and len(sibling.name) >= _SHORTEST_NAME and content.find(sibling.name.encode()) >= 0:
                files.append(sibling)
    return [file for file in files if file.is_file() and file.stat().st_size > 0]


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Yield the file's bytes, which may be gigabytes."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content
