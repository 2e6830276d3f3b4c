"""Runs a program that a snippet is, whole, with the driver's inputs.

`python -m tests.snippets.noise_client PROGRAM MODEL...`. Runs in the environment of MegEngine Lite too, whose Python
may be 3.8.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from reusebench.measured.runtimes.arrays import noise

_PICTURE_DIMENSIONS, _COLOURS = 4, 3


def _noise(array: Any) -> Any:
    """Return the driver's input: pictures with channels last are those of the ONNX file, turned."""
    kind = array.dtype.name
    if array.ndim == _PICTURE_DIMENSIONS and array.shape[3] == _COLOURS:
        count, height, width, colours = array.shape
        return noise((count, colours, height, width), kind).transpose(0, 2, 3, 1)
    return noise(array.shape, kind)


def main() -> None:
    """Have each inference of the program begin with noise in the context's inputs, where it says: write your frame."""
    path, *_ = arguments = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    program: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    infer = program.infer

    def infer_noise(i: int) -> None:
        for array in program.inputs[i].values():
            array[...] = _noise(array)
        infer(i)

    # What else the program calls looks the function up by this name.
    program.infer = infer_noise
    sys.argv = arguments
    program.main()


if __name__ == "__main__":
    main()
