"""A process that does cycles of inferences, and leaks a piece after some of them.

leak_rates.py measures it. After each cycle it prints what it holds, as the measured process does
(measured.usage), and waits for a line.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import sys
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.quick import parse, tiny_model
from reusebench.measured.usage import usage

_LIBRARY = ctypes.CDLL(None)
_LIBRARY.malloc.restype = ctypes.c_void_p
_LIBRARY.malloc.argtypes = [ctypes.c_size_t]
_kept: list[object] = []


def _from_heap(size: int) -> None:
    address = _LIBRARY.malloc(size)
    ctypes.memset(address, 1, size)


def _mapped(size: int) -> None:
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.write(b"\1" * size)
    _kept.append(pages)


def _new_child(size: int) -> None:
    """Leave a child that has ended and is not waited for; it has no size."""
    del size
    if os.fork() == 0:
        os._exit(0)


#: Functions that leak a piece of some bytes.
LEAKS: dict[str, Callable[[int], None]] = {
    "heap": _from_heap,
    "mapping": _mapped,
    "zombie": _new_child,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the cycles, one for each line of standard input."""
    parser = argparse.ArgumentParser("python -m benchmarks.leaking_cycles", description=__doc__)
    add = parser.add_argument
    add("--model", metavar="FILE", help="ONNX file with one input, of float32; default: none")
    add("--inferences", type=int, default=100, metavar="N", help="of a cycle; default: 100")
    add("--leak", choices=LEAKS, default="heap", help="where to leak; default: the heap")
    add("--piece", type=int, default=0, metavar="BYTES", help="default: 0, no leak")
    add("--every", type=int, default=1, metavar="N", help="inferences per piece; default: 1")
    options = parse(parser, arguments, lambda: [f"--model={tiny_model()}", "--piece=80"])
    infer = _inference(options.model) if options.model else lambda: None
    trim = getattr(_LIBRARY, "malloc_trim", lambda _: None)
    done = 0
    while True:
        print(json.dumps(usage(lambda: trim(0))), flush=True)
        if not sys.stdin.readline():
            return
        for _ in range(options.inferences):
            infer()
            done += 1
            if options.piece and done % options.every == 0:
                LEAKS[options.leak](options.piece)


def _inference(model: str) -> Callable[[], object]:
    """Return a function that infers once, in the session's own output memory."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    values = {given.name: np.zeros(given.shape, np.float32)}
    return lambda: session.run(None, values)


if __name__ == "__main__":
    main()
