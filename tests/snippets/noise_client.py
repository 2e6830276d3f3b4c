"""Runs a program that a snippet is, whole, with the driver's inputs: `python noise_client.py PROGRAM MODEL...`.

Runs in the environment of MegEngine Lite too, whose Python may be 3.8.
"""

from __future__ import annotations

import importlib.util
import sys

from reusebench.measured.runtimes.arrays import noise


def main() -> None:
    """Have each inference of the program begin with noise in the context's inputs, where it says: write your frame."""
    path, *_ = arguments = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    infer = program.infer

    def infer_noise(i: int) -> None:
        for array in program.inputs[i].values():
            array[...] = noise(array.shape, array.dtype.name)
        infer(i)

    # What else the program calls looks the function up by this name.
    program.infer = infer_noise
    sys.argv = arguments
    program.main()


if __name__ == "__main__":
    main()
