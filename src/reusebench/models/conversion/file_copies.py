"""Copies of what a converter reads: some write over their input, or pull its external data into it.

Standard library only, since the harness imports it.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import TypeVar

from reusebench.models.recipe import NativeRecipe, OnnxFile, RknnRecipe
from reusebench.models.weight_files import weight_files
from reusebench.system.cache import cannot_write
from reusebench.system.files import open_regular

__all__ = ["UnreadableError", "copy_files"]

_Recipe = TypeVar("_Recipe", RknnRecipe, NativeRecipe)


class UnreadableError(Exception):
    """A file cannot be read; the message names it, with the system's words."""


def copy_files(recipe: _Recipe, source: Path, folder: Path) -> tuple[_Recipe, Path]:
    """Return the recipe and the source with copies in the folder in place of every file.

    The source, a file or a folder, keeps its name, and the weights that a file names keep theirs
    relative to it. Raises UnreadableError, or CacheError if a copy cannot be written.
    """
    beside = folder / "model"
    origin = recipe.source
    # A description of a built-in network is a folder; a user's is refused as every other file that
    # is none.
    is_description = source.is_dir() and not isinstance(origin, OnnxFile)
    try:
        files = _files_in(source) if is_description else [source, *weight_files(source)]
    except OSError as error:
        raise _unreadable(source, error) from error
    for file in files:
        _copy(file, beside / file.relative_to(source.parent))
    copy = beside / source.name
    if isinstance(origin, OnnxFile):
        inputs = list(origin.inputs)
        for index, tensor in enumerate(inputs):
            if tensor.file is not None:
                data = folder / "inputs" / f"{index}.npy"
                _copy(Path(tensor.file), data)
                inputs[index] = dataclasses.replace(tensor, file=str(data))
        origin = dataclasses.replace(origin, path=str(copy), inputs=tuple(inputs))
    return dataclasses.replace(recipe, source=origin), copy


def _files_in(folder: Path) -> list[Path]:
    return [Path(at) / name for at, _, names in os.walk(folder) for name in names]


def _copy(file: Path, copy: Path) -> None:
    """Copy the content alone: the copy can be written to, and nothing of the file's own inode
    changes.
    """
    try:
        open_regular(file).close()
    except OSError as error:
        raise _unreadable(file, error) from error
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    except OSError as error:
        raise cannot_write(copy, error) from error


def _unreadable(file: Path, cause: OSError) -> UnreadableError:
    return UnreadableError(f"reading {file} failed: {cause.strerror or cause}")
