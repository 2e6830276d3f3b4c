"""Weight files beside a model file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from reusebench.measured.runtimes import RUNTIMES
from reusebench.models.model_kinds import is_language_model, parts_of
from reusebench.system.files import open_regular
from reusebench.system.user_files import MOST_ONNX_BYTES

__all__ = ["is_beside", "weight_files"]

#: Entry that names a file with weights (onnx.proto, TensorProto.external_data): the key, then the
#: length of the value as a varint of one or two bytes. The value follows.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]?[\x01-\x7f])")
_ONNX = ".onnx"
_BLOCK_BYTES = 1 << 20
#: Larger than such an entry, so that an entry cut by the end of a block is whole in the next one.
_OVERLAP_BYTES = 1 << 13


def weight_files(path: Path) -> list[Path]:
    """Return the existing weight files: the runtime's, by suffix, and those an ONNX file names.

    Also the other parts of a file that is split, and the other files of a folder that is a model.
    """
    files = [part for part in parts_of(path) if part != path]
    if any(path.name == entry.folder_model for entry in RUNTIMES) and is_language_model(path):
        files += sorted(file for file in path.parent.iterdir() if file.is_file())
    for entry in RUNTIMES:
        if entry.suffix == path.suffix and entry.weights_suffix:
            files.append(path.with_suffix(entry.weights_suffix))
    if path.suffix == _ONNX:
        for name in sorted(set(_named_files(path))):
            if is_beside(name):
                files.append(path.parent / name)

    existing = []
    for file in dict.fromkeys(files):
        if file != path and _has_content(file):
            existing.append(file)
    return existing


def is_beside(name: str) -> bool:
    """Whether a path named in a model file stays below the model's folder."""
    parts = PurePosixPath(name).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in name


def _named_files(path: Path) -> Iterator[str]:
    """Yield the paths of weight files that an ONNX file names."""
    text = b""
    with open_regular(path) as file:
        while file.tell() < MOST_ONNX_BYTES and (block := file.read(_BLOCK_BYTES)):
            text = text[-_OVERLAP_BYTES:] + block
            for match in _LOCATION.finditer(text):
                length = 0
                for shift, byte in enumerate(match[1]):
                    length |= (byte & 0x7F) << (7 * shift)
                name = text[match.end() : match.end() + length]
                yield name.decode(errors="replace")


def _has_content(file: Path) -> bool:
    """Whether the path exists and is no empty file; opening refuses other kinds of files later."""
    if not os.path.exists(file):  # noqa: PTH110  never raises
        return False
    return not file.is_file() or file.stat().st_size > 0
