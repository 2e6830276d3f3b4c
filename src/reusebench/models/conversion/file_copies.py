"""Copies of the files that a converter reads, since some converters overwrite their input.

Standard library only: the harness imports it.
"""

from __future__ import annotations

import dataclasses
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
    """A file cannot be read; the message has its path and the system's reason."""


def copy_files(recipe: _Recipe, source: Path, folder: Path) -> tuple[_Recipe, Path]:
    """Copy all files into the folder; return the recipe and the source with the copies' paths.

    The source, a file or a folder, keeps its name, and the weight files that it names keep their
    relative paths. Raises UnreadableError, or CacheError if a copy cannot be written.
    """
    model_folder = folder / "model"
    copied_source = model_folder / source.name
    for file in _files_of(recipe, source):
        _copy(file, model_folder / file.relative_to(source.parent))

    origin = recipe.source
    if not isinstance(origin, OnnxFile):
        return recipe, copied_source

    inputs = list(origin.inputs)
    for index, tensor in enumerate(inputs):
        if tensor.file is not None:
            data = folder / "inputs" / f"{index}.npy"
            _copy(Path(tensor.file), data)
            inputs[index] = dataclasses.replace(tensor, file=str(data))
    origin = dataclasses.replace(origin, path=str(copied_source), inputs=tuple(inputs))
    return dataclasses.replace(recipe, source=origin), copied_source


def _files_of(recipe: RknnRecipe | NativeRecipe, source: Path) -> list[Path]:
    """Return the files of a source: a model file with its weights, or a description."""
    # A description is a folder. A user's folder is refused as any other file of a wrong kind.
    is_description = source.is_dir() and not isinstance(recipe.source, OnnxFile)
    try:
        if is_description:
            return [path for path in source.rglob("*") if path.is_file()]
        return [source, *weight_files(source)]
    except OSError as error:
        raise _unreadable(source, error) from error


def _copy(file: Path, copy: Path) -> None:
    """Copy only the content: the copy is writable, and the file's own inode does not change."""
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
