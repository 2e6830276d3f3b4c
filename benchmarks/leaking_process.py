"""A process that infers, allocates and frees frames, and leaks on request.

trend_accuracy.py measures it. `python -m benchmarks.leaking_process --model FILE` runs until it is
killed, or for --seconds.
"""

from __future__ import annotations

import argparse
import mmap
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np
import onnxruntime

from benchmarks.quick import parse, tiny_model

FRAME_BYTES = 1920 * 1080 * 3 // 2
_PICTURE = b"\1" * FRAME_BYTES
_FRAMES_PER_S = 30
_MOST_IN_FLIGHT = 3


def _pool() -> Callable[[], object]:
    """Return a function that returns preallocated frames in turn."""
    return cycle([bytearray(_PICTURE) for _ in range(_MOST_IN_FLIGHT)]).__next__


def _mapped() -> object:
    frame = mmap.mmap(-1, FRAME_BYTES)
    frame.write(_PICTURE)
    return frame


#: Sources of frames: a pool, the heap, which keeps freed memory, or the kernel.
FRAMES: dict[str, Callable[[], Callable[[], object]]] = {
    "pool": _pool,
    "heap": lambda: lambda: bytearray(_PICTURE),
    "mapped": lambda: _mapped,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Take frames until the process is killed or the time is over."""
    parser = argparse.ArgumentParser("python -m benchmarks.leaking_process", description=__doc__)
    add = parser.add_argument
    add(
        "--model",
        required=True,
        metavar="FILE",
        help="ONNX file with one input, of float32",
    )
    add("--frames", choices=FRAMES, default="pool", help="source of frames; default: pool")
    add("--leak", type=int, default=0, metavar="BYTES", help="leak per minute; default: 0")
    add(
        "--piece",
        type=int,
        default=mmap.PAGESIZE,
        metavar="BYTES",
        help="size of a leaked piece; default: a page",
    )
    add(
        "--seconds",
        type=float,
        default=float("inf"),
        metavar="S",
        help="default: until it is killed",
    )
    given = parse(
        parser, arguments, lambda: [f"--model={tiny_model()}", "--leak=10000000", "--seconds=2"]
    )
    run(given.model, given.frames, given.leak, given.piece, given.seconds)


def run(model: str, frames: str, leak_bytes: int, piece_bytes: int, seconds: float) -> None:
    """Take frames for `seconds`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options)
    draw = random.Random()
    take = FRAMES[frames]()
    (given,) = session.get_inputs()
    values = {given.name: np.zeros(given.shape, np.float32)}
    in_flight: deque[object] = deque()
    kept: list[bytearray] = []
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        in_flight.append(take())
        session.run(None, values)
        for _ in range(len(in_flight) - draw.randint(0, _MOST_IN_FLIGHT)):
            in_flight.popleft()
        while (len(kept) + 1) * piece_bytes <= (time.monotonic() - begin) * leak_bytes / 60:
            kept.append(bytearray(b"\1") * piece_bytes)
        time.sleep(1 / _FRAMES_PER_S)


if __name__ == "__main__":
    main()
