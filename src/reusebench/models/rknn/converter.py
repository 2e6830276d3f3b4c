"""Converts ONNX files into `.rknn` files, in rknn-toolkit2's own environment;
models/conversion/loop.py runs it.

It imports nothing of this project: the toolkit's Python may be 3.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rknn.api import RKNN  # type: ignore[import-not-found]

#: Of noise. It is the same for all models: what differs between them shall be their weights.
_SEED = 0
_DATASET = "calibration.txt"

#: An input of so many dimensions is fed with pixels of 8 bits, as a camera gives them.
_PICTURE_DIMENSIONS = 4
_LARGEST_PIXEL = 255


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the step that failed and its exception's words (empty:
    no exception).
    """
    rknn = RKNN(verbose=False)
    step = "reading the inputs"
    try:
        samples = [_Sample(tensor) for tensor in job["inputs"]]
        for step, do in _steps(rknn, job, samples):
            if do() != 0:
                return {"step": step, "words": ""}
    except Exception as error:  # The toolkit raises whatever it met, as another type.
        return {"step": step, "words": _last_words(str(error))}
    finally:
        rknn.release()
    return None


def _last_words(text: str) -> str:
    """Return what follows the traceback that the toolkit puts into its exceptions, in one line."""
    lines = text.strip().splitlines()
    places = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    words = lines[places[-1] + 1 :] if places else lines[-1:]
    return " ".join(line.strip() for line in words if not line.startswith("    "))


class _Sample:
    """One input: what the quantisation is calibrated with, and how pixels become what the network
    takes.
    """

    def __init__(self, tensor: dict[str, Any]) -> None:
        self.name = tensor["name"]
        self.shape = tensor["shape"]
        values = np.load(tensor["file"], allow_pickle=False) if tensor["file"] else None
        #: Of each channel, as the toolkit calls them: it has (pixel - mean) / deviation. None: it
        #: takes the values.
        self.means = self.deviations = None
        if len(self.shape) != _PICTURE_DIMENSIONS or "float" not in tensor["type"]:
            self.values = _noise(tensor) if values is None else values
            return
        # Pixels span the range of the data; without data that from 0 to 1.
        low, high = (0.0, 1.0) if values is None else (float(values.min()), float(values.max()))
        deviation = _LARGEST_PIXEL / ((high - low) or 1.0)
        self.means = [-low * deviation] * self.shape[1]
        self.deviations = [deviation] * self.shape[1]
        if values is None:
            self.values = np.random.default_rng(_SEED).integers(
                0, _LARGEST_PIXEL + 1, self.shape, dtype=np.uint8
            )
        else:
            self.values = np.rint((values - low) * deviation).astype(np.uint8)


def _noise(tensor: dict[str, Any]) -> Any:
    """Return floats from 0 to 1; integers that index any table, or the value that the name asks
    for.
    """
    random = np.random.default_rng(_SEED)
    if "float" in tensor["type"]:
        return random.random(tensor["shape"]).astype(tensor["type"])
    if tensor["value"] is not None:
        return np.full(tensor["shape"], tensor["value"], tensor["type"])
    return random.integers(0, 2, tensor["shape"]).astype(tensor["type"])


def _steps(
    rknn: Any, job: dict[str, Any], samples: list[_Sample]
) -> list[tuple[str, Callable[[], int]]]:
    options = {"target_platform": job["platform"], "remove_weight": job["remove_weight"]}
    pixels = {
        "mean_values": [sample.means for sample in samples],
        "std_values": [sample.deviations for sample in samples],
    }
    sizes: dict[str, Any] = {}
    if job["has_free_sizes"]:
        sizes = {
            "inputs": [sample.name for sample in samples],
            "input_size_list": [sample.shape for sample in samples],
        }
    quantise: dict[str, Any] = {"do_quantization": False}
    if job["calibrate"]:
        quantise = {"do_quantization": True, "dataset": _write_dataset(samples)}
    return [
        ("config", lambda: rknn.config(**pixels, **options)),
        ("load_onnx", lambda: rknn.load_onnx(job["onnx"], **sizes)),
        ("build", lambda: rknn.build(**quantise)),
        ("export_rknn", lambda: rknn.export_rknn(job["output"])),
    ]


def _write_dataset(samples: list[_Sample]) -> str:
    """Write the calibration's one line, a file for each input; the toolkit looks for them from the
    list's folder.
    """
    names = []
    for number, sample in enumerate(samples):
        names.append(f"calibration-{number}.npy")
        np.save(names[-1], sample.values, allow_pickle=False)
    with open(_DATASET, "w") as dataset:  # noqa: PTH123
        dataset.write(" ".join(names) + "\n")
    return _DATASET
