"""Converts ONNX files into `.rknn` files, in rknn-toolkit2's own environment; models/conversion/loop.py runs it.

It imports nothing of this project: the toolkit's Python may be 3.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rknn.api import RKNN  # type: ignore[import-not-found]

#: Pixels as a camera gives them become pixels in [0, 1], which the networks take.
_MEANS = [[0, 0, 0]]
_DEVIATIONS = [[255, 255, 255]]

#: One image of noise. Its seed is the same for all models: what differs between them shall be their weights.
_CALIBRATION_SEED = 0
_DATASET = "calibration.txt"


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the step that failed and its exception's last line (empty: no exception)."""
    _write_calibration(job["shape"])
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


def _write_calibration(shape: list[int]) -> None:
    """Write the image and the list that names it; the toolkit looks for it from the list's folder."""
    noise = np.random.default_rng(_CALIBRATION_SEED).integers(0, 256, shape, dtype=np.uint8)
    np.save("calibration.npy", noise)
    with open(_DATASET, "w") as dataset:  # noqa: PTH123
        dataset.write("calibration.npy\n")
