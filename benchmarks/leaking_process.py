"""A process that infers, has frames come and go, and leaks on request; trend_accuracy.py measures it.

Arguments: the model, one of FRAMES, the bytes that it leaks in a minute, and the bytes of a piece.
"""

from __future__ import annotations

import mmap
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import cycle

import numpy as np
import onnxruntime

FRAME_BYTES = 1920 * 1080 * 3 // 2
_PICTURE = b"\1" * FRAME_BYTES
_FRAMES_PER_S = 30
_MOST_IN_FLIGHT = 3


def _pool() -> Callable[[], object]:
    """Return what takes frames in turn that are there from the beginning."""
    return cycle([bytearray(_PICTURE) for _ in range(_MOST_IN_FLIGHT)]).__next__


def _mapped() -> object:
    frame = mmap.mmap(-1, FRAME_BYTES)
    frame.write(_PICTURE)
    return frame


#: Where frames come from: a pool, the heap, which keeps what is given back, or the kernel.
FRAMES: dict[str, Callable[[], Callable[[], object]]] = {
    "pool": _pool,
    "heap": lambda: lambda: bytearray(_PICTURE),
    "mapped": lambda: _mapped,
}


def main(model: str, frames: str, leak_bytes: int, piece_bytes: int) -> None:
    """Take frame after frame until the process is killed."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session, draw, take = onnxruntime.InferenceSession(model, options), random.Random(), FRAMES[frames]()
    (given,) = session.get_inputs()
    values = {given.name: np.zeros(given.shape, np.float32)}
    in_flight: deque[object] = deque()
    kept: list[bytearray] = []
    begin = time.monotonic()
    while True:
        in_flight.append(take())
        session.run(None, values)
        for _ in range(len(in_flight) - draw.randint(0, _MOST_IN_FLIGHT)):
            in_flight.popleft()
        while (len(kept) + 1) * piece_bytes <= (time.monotonic() - begin) * leak_bytes / 60:
            kept.append(bytearray(b"\1") * piece_bytes)
        time.sleep(1 / _FRAMES_PER_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
