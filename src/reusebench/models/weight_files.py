"""The files beside a model's own that have its weights."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from reusebench.measured.runtimes import RUNTIMES
from reusebench.system.files import open_regular

__all__ = ["is_beside", "weight_files"]

#: How ONNX names a file with weights (onnx.proto, TensorProto.external_data): the entry's key, then
#: its value behind the length of it, seven bits in a byte and the last byte without the highest
#: one.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]?[\x01-\x7f])")
_BLOCK_BYTES = 1 << 20
#: Above the longest path and what stands before it: one that a block cuts in two is whole in the
#: next.
_OVERLAP_BYTES = 1 << 13


def weight_files(path: Path) -> list[Path]:
    """Return those that are there: of a runtime's own kind by its suffix, and what an ONNX file
    names.
    """
    suffixes = [entry.weights_suffix for entry in RUNTIMES if entry.suffix == path.suffix]
    files = [path.with_suffix(suffix) for suffix in suffixes if suffix]
    files += [path.parent / name for name in sorted(set(_named_files(path))) if is_beside(name)]
    return [file for file in dict.fromkeys(files) if file != path and _has_content(file)]


def is_beside(name: str) -> bool:
    """Whether a path inside a model file leads to a file below the model's folder."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in name


def _named_files(path: Path) -> Iterator[str]:
    text = b""
    with open_regular(path) as file:
        while block := file.read(_BLOCK_BYTES):
            text = text[-_OVERLAP_BYTES:] + block
            for match in _LOCATION.finditer(text):
                low, *high = match[1]
                name = text[
                    match.end() : match.end() + ((low & 0x7F) | (high[0] << 7 if high else 0))
                ]
                yield name.decode(errors="replace")


def _has_content(file: Path) -> bool:
    """Whether there is anything: what is no regular file is refused by who opens it."""
    return os.path.exists(file) and not (file.is_file() and file.stat().st_size == 0)  # noqa: PTH110  never raises
