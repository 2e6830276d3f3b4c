"""Converts ONNX files into `.rknn` files: the program that runs in rknn-toolkit2's own environment.

One job per line of standard input, as JSON; one answer per line of standard output: the step that failed and
its words, or null. What the toolkit prints goes to standard error. It works in the current folder.

It is started by its path and imports nothing of this project: the toolkit's Python may be 3.8.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from rknn.api import RKNN  # type: ignore[import-not-found]

#: Linux, sys/prctl.h.
_PR_SET_PDEATHSIG = 1

#: Pixels as a camera gives them become pixels in [0, 1], which the networks take.
_MEANS = [[0, 0, 0]]
_DEVIATIONS = [[255, 255, 255]]

#: One image of noise. Its seed is the same for all models: what differs between them shall be their weights.
_CALIBRATION_SEED = 0
_DATASET = "calibration.txt"


def main() -> None:
    """Answer every job until standard input ends."""
    # Killed with its parent: nobody would take the answer.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answer = _convert(json.loads(line))
        # Whoever reads the answer looks next for the toolkit's words.
        sys.stdout.flush()
        print(json.dumps(answer), file=answers, flush=True)


def _convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the step that failed and its exception's last line (empty: no exception)."""
    _write_calibration(job["size"])
    rknn = RKNN(verbose=False)
    try:
        for step, do in _steps(rknn, job):
            try:
                code = do()
            except Exception as error:  # The toolkit raises whatever it met, as another type.
                return {"step": step, "words": str(error).strip().rpartition("\n")[2]}
            if code != 0:
                return {"step": step, "words": ""}
    finally:
        rknn.release()
    return None


def _steps(rknn: Any, job: dict[str, Any]) -> list[tuple[str, Callable[[], int]]]:
    options = {"target_platform": job["platform"], "remove_weight": job["remove_weight"]}
    return [
        ("config", lambda: rknn.config(mean_values=_MEANS, std_values=_DEVIATIONS, **options)),
        ("load_onnx", lambda: rknn.load_onnx(job["onnx"])),
        ("build", lambda: rknn.build(do_quantization=True, dataset=_DATASET)),
        ("export_rknn", lambda: rknn.export_rknn(job["output"])),
    ]


def _write_calibration(size: int) -> None:
    """Write the image and the list that names it; the toolkit looks for it from the list's folder."""
    noise = np.random.default_rng(_CALIBRATION_SEED).integers(0, 256, (1, 3, size, size), dtype=np.uint8)
    np.save("calibration.npy", noise)
    with open(_DATASET, "w") as dataset:  # noqa: PTH123
        dataset.write("calibration.npy\n")


if __name__ == "__main__":
    main()
