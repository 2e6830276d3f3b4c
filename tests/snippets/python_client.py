"""Loads a program that a snippet is, and uses it: `python -m tests.snippets.python_client PROGRAM
MODEL...`.

Prints JSON: the digest of each context's outputs, with an input of its own, and what the contexts
added to the process's memory. Runs in the environment of MegEngine Lite too, whose Python may be
3.8.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def _pss_bytes() -> int:
    """Return the process's memory without free heap and shared libraries.

    The share of a library's pages that counts here depends on which other processes have it mapped
    at the moment.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    total = 0
    is_counted = True
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            # The line that begins a mapping: addresses, permissions, offset, device, inode, and the
            # path if it has one.
            is_counted = ".so" not in " ".join(values[4:])
        elif name == "Pss:" and is_counted:
            total += int(values[0]) * 1024
    return total


def _fill(arrays: dict[str, Any], number: int) -> None:
    noise = np.random.RandomState(number)
    for array in arrays.values():
        array[...] = noise.rand(*array.shape)


def main() -> None:
    path, *models = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    before = _pss_bytes()
    program.make_all(models)
    digests = []
    for i in range(program.CONTEXTS):
        _fill(program.inputs[i], i)
        program.infer(i)
        outputs = program.outputs[i]
        arrays = outputs.values() if isinstance(outputs, dict) else outputs
        digests.append(
            zlib.crc32(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
        )
    print(json.dumps({"digests": digests, "pss_bytes": _pss_bytes() - before}))


if __name__ == "__main__":
    main()
