"""Real data for the inputs of models: a file of arrays (.npz), unpacked once into the cache.

Standard library only: the harness imports it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from reusebench.measured.runtimes.base import Interface
from reusebench.models.errors import ModelError
from reusebench.models.inputs.candidates import Given, fits
from reusebench.system.cache import (
    ProcessError,
    cache_root,
    locked,
    run_in_another_process,
    written_whole,
)
from reusebench.system.user_files import Pins, UserFileError, check_file

__all__ = ["INDEX", "as_declared", "given_arrays"]

#: Name of the file that lists the arrays of a folder.
INDEX = "index.json"


def given_arrays(path: Path) -> tuple[dict[str, Given], str]:
    """Return the file's arrays by name, and its SHA-256.

    Raises ModelError if the file has no arrays or cannot be read.
    """
    pins = Pins()
    try:
        file = check_file(path)
        digest = pins.digest(file)
    except UserFileError as error:
        raise ModelError(f"{error}. Give a file that numpy.savez wrote") from None
    folder = cache_root() / "inputs" / digest
    with locked(folder):
        if not (folder / INDEX).exists():
            _unpack(file, folder)
            try:
                pins.check(file)
            except UserFileError as error:
                shutil.rmtree(folder)  # its content has another digest
                raise ModelError(str(error)) from None

    arrays = {}
    for name, entry in json.loads((folder / INDEX).read_text(encoding="utf-8")).items():
        arrays[name] = Given(tuple(entry["shape"]), str(folder / entry["file"]), entry["type"])
    if not arrays:
        raise ModelError(
            f"{path}: it has no array; name each by its input: numpy.savez(FILE, **{{'images':"
            " array})"
        )
    return arrays, digest


def as_declared(given: Mapping[str, Given], interface: Interface) -> dict[str, Given]:
    """Return the user's inputs as the runtime expects them: with channels last if it needs that."""
    converted = dict(given)
    for tensor in interface.inputs:
        of_user = given.get(tensor.name)
        if of_user is None or tensor.layout != "nhwc":
            continue
        if len(of_user.shape) != len(tensor.dimensions):
            continue
        batch, channels, height, width = of_user.shape
        shape = (batch, height, width, channels)
        if fits(tensor, shape) and not fits(tensor, of_user.shape):
            file = of_user.file and _with_channels_last(Path(of_user.file))
            converted[tensor.name] = replace(of_user, shape=shape, file=file)
    return converted


def _with_channels_last(file: Path) -> str:
    """Return the file of the same array with channels last, which is made once."""
    converted = file.with_suffix(".nhwc.npy")
    with locked(converted):
        if not converted.exists():
            with written_whole(converted) as temporary:
                run_in_another_process(
                    "reusebench.models.inputs.channels_last", str(file), str(temporary)
                )
    return str(converted)


def _unpack(path: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        run_in_another_process("reusebench.models.inputs.unpack_npz", str(path), str(folder))
    except ProcessError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ModelError(
            f"{path}: it is no file of arrays as numpy.savez writes them ({error.words})"
        ) from None
