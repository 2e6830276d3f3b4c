"""Runs programs that snippets are, whole, with the driver's inputs, one after the other.

`python -m tests.snippets.noise_client MODULE... <PROGRAMS`: the modules are those of a runtime, and
standard input is a list in JSON, in which each item is a program's path and the arguments it has.
Each program runs in a fork of this process, which has imported the modules and does nothing else:
an import takes longer than a program. What it prints and how it ended are in files beside it:
PROGRAM.out, PROGRAM.err and PROGRAM.exit_code.

Runs in the environment of MegEngine Lite too, whose Python may be 3.8.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from reusebench.measured.runtimes.arrays import noise

_PICTURE_DIMENSIONS = 4
_COLOURS = 3


def _noise(array: Any) -> Any:
    """Return the driver's input; pictures with channels last are the ONNX file's, transposed."""
    kind = array.dtype.name
    if array.ndim == _PICTURE_DIMENSIONS and array.shape[3] == _COLOURS:
        count, height, width, colours = array.shape
        return noise((count, colours, height, width), kind).transpose(0, 2, 3, 1)
    return noise(array.shape, kind)


def _run(path: str, *arguments: str) -> None:
    """Let each inference begin with noise in the context's inputs, in place of a user's frame."""
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

    # Other functions of the program look this function up by its name.
    program.infer = infer_noise
    sys.argv = [path, *arguments]
    program.main()


def _print_into_files(path: str) -> None:
    """Have all that this process prints, in Python or in C, go into the program's files."""
    for descriptor, suffix in ((1, ".out"), (2, ".err")):
        file = os.open(path + suffix, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)


def main() -> None:
    """Run each program; a child returns from here, so that its Python ends as a script's does."""
    for module in sys.argv[1:]:
        importlib.import_module(module)
    for path, *arguments in json.load(sys.stdin):
        child = os.fork()
        if child == 0:
            _print_into_files(path)
            _run(path, *arguments)
            return
        _, status = os.waitpid(child, 0)
        exit_code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        Path(path + ".exit_code").write_text(str(exit_code))


if __name__ == "__main__":
    main()
