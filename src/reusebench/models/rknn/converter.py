"""Converts ONNX files into `.rknn` files.

models/conversion/loop.py runs it in rknn-toolkit2's own environment. It imports nothing of this
project: the toolkit's Python may be 3.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from rknn.api import RKNN  # type: ignore[import-not-found]

#: Seed of the noise, the same for all models: only their weights should differ.
_SEED = 0
_DATASET = "calibration.txt"

#: Rank of inputs that are fed with pixels of 8 bits, as a camera gives them.
_PICTURE_DIMENSIONS = 4
_LARGEST_PIXEL = 255


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the failed step and its exception's message, if any."""
    rknn = RKNN(verbose=False)
    step = "reading the inputs"
    try:
        samples = [_Sample(tensor) for tensor in _used_inputs(job)]
        for step, do in _steps(rknn, job, samples):
            if do() != 0:
                return {"step": step, "words": ""}
    except Exception as error:  # The toolkit re-raises any exception as another type.
        return {"step": step, "words": _last_words(str(error))}
    finally:
        rknn.release()
    return None


def _used_inputs(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs that the graph uses; the toolkit drops all others, and refuses their sizes.

    They are all inputs if the file is no model: the toolkit says what is wrong.
    """
    inputs: list[dict[str, Any]] = job["inputs"]
    try:
        graph = onnx.load(job["onnx"], load_external_data=False).graph
    except DecodeError:
        return inputs
    if not graph.node:
        return inputs
    used = _used_names(graph)
    return [tensor for tensor in inputs if tensor["name"] in used]


def _used_names(graph: Any) -> set[str]:
    """Return the names that nodes read, also in branches, and those of outputs."""
    names = {tensor.name for tensor in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            for branch in (attribute.g, *attribute.graphs):
                names |= _used_names(branch)
    return names


def _last_words(text: str) -> str:
    """Return the message behind the traceback in the toolkit's exceptions, as one line."""
    lines = text.strip().splitlines()
    words = lines[-1:]
    for number, line in enumerate(lines):
        if line.startswith("  File "):
            words = lines[number + 1 :]
    return " ".join(line.strip() for line in words if not line.startswith("    "))


class _Sample:
    """An input: the values to calibrate with, and the normalisation of pixels."""

    def __init__(self, tensor: dict[str, Any]) -> None:
        self.name = tensor["name"]
        self.shape = tensor["shape"]
        values = np.load(tensor["file"], allow_pickle=False) if tensor["file"] else None
        #: Mean and deviation per channel: the network gets (pixel - mean) / deviation. None: it
        #: gets the values.
        self.means = self.deviations = None
        if len(self.shape) != _PICTURE_DIMENSIONS or "float" not in tensor["type"]:
            self.values = _noise(tensor) if values is None else values
            return

        # Pixels span the range of the data, or 0 to 1.
        low = 0.0
        high = 1.0
        if values is not None:
            low = float(values.min())
            high = float(values.max())
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
    """Return floats from 0 to 1, integers that index any table, or the input's fixed value."""
    random = np.random.default_rng(_SEED)
    if "float" in tensor["type"]:
        return random.random(tensor["shape"]).astype(tensor["type"])
    if tensor["value"] is not None:
        return np.full(tensor["shape"], tensor["value"], tensor["type"])
    return random.integers(0, 2, tensor["shape"]).astype(tensor["type"])


def _steps(
    rknn: Any, job: dict[str, Any], samples: list[_Sample]
) -> list[tuple[str, Callable[[], int]]]:
    """Return the steps of a conversion by name; each returns 0 if it succeeds."""
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
    """Write the list of the calibration, one line with a file per input, and these files.

    The toolkit looks for the files in the folder of the list.
    """
    names = []
    for number, sample in enumerate(samples):
        names.append(f"calibration-{number}.npy")
        np.save(names[-1], sample.values, allow_pickle=False)
    with open(_DATASET, "w") as dataset:  # noqa: PTH123
        dataset.write(" ".join(names) + "\n")
    return _DATASET
