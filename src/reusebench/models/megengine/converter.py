"""Builds described networks and writes `.mge` files.

models/conversion/loop.py runs it in MegEngine's own environment. It imports nothing of this
project: MegEngine's Python may be 3.8. Height and width are only the input's first shape; nothing
in a file depends on them, so that a runtime may change them.
"""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

# Otherwise MegEngine makes a folder in the user's cache. It reads this variable when imported.
os.environ["MGE_FASTRUN_CACHE_TYPE"] = "MEMORY"

import megengine.functional as F  # type: ignore[import-not-found]
import numpy as np
from megengine import tensor
from megengine.jit import trace  # type: ignore[import-not-found]
from megengine.utils.network import Network  # type: ignore[import-not-found]

_ACTIVATIONS = {
    "none": lambda z: z,
    "relu": F.relu,
    "relu6": F.relu6,
    # F.silu is one operator, but slower on x86: YOLOv5s at 320x320 takes 75 ms instead of 57
    # (1.13.0).
    "silu": lambda z: z * F.sigmoid(z),
    "sigmoid": F.sigmoid,
}


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the failed step and the first line of its exception."""
    step = "reading the description"
    try:
        folder = Path(job["description"])
        network = json.loads((folder / "network.json").read_text(encoding="utf-8"))
        with np.load(folder / "weights.npz", allow_pickle=False) as weights:
            constants = dict(weights.items())
        step = "building the network"
        traced = _traced(network, constants)
        step = "dumping it"
        _dump(traced, network, Path(job["output"]))
    except Exception as error:
        # MegEngine raises RuntimeError with a backtrace below the first line.
        return {"step": step, "words": str(error).strip().partition("\n")[0]}
    return None


def _traced(network: dict[str, Any], constants: dict[str, Any]) -> Any:
    """Return the trace of the network, which runs once, on zeros."""

    @trace(symbolic=True, capture_as_const=True)  # type: ignore[untyped-decorator]
    def run(image: Any) -> list[Any]:
        tensors = {network["input"]["name"]: image}
        for layer in network["layers"]:
            tensors[layer["name"]] = _LAYERS[layer["kind"]](layer, tensors, constants)
        return [tensors[name] for name in network["outputs"]]

    run(tensor(np.zeros(network["input"]["shape"], dtype=np.float32)))
    return run


def _dump(traced: Any, network: dict[str, Any], path: Path) -> None:
    """Write the graph after as many optimisation passes of the dumper as change it.

    The pass chooses no layout, which is left to the runtime's options. MegEngine Lite repeats it if
    outputs are in the user's memory, and each pass merges a few more biases: outputs would then
    differ in the last bits. no_change_graph is no alternative: with it MobileNetV2 takes 27 ms
    instead of 16 (1.13.0).
    """
    outputs = network["outputs"]
    dumped = b""
    again = _dumped(traced, arg_names=[network["input"]["name"]], output_names=outputs)
    while again != dumped:
        dumped = again
        again = _dumped(Network.load(BytesIO(dumped)), output_names=outputs)
    path.write_bytes(dumped)


def _dumped(graph: Any, **names: list[str]) -> bytes:
    content = BytesIO()
    graph.dump(content, **names)
    return content.getvalue()


def _convolution(layer: dict[str, Any], tensors: dict[str, Any], constants: dict[str, Any]) -> Any:
    weight, bias = _parameters(layer, constants)
    groups = layer["groups"]
    if groups > 1:
        weight = weight.reshape(groups, -1, *weight.shape[1:])
    bias = bias.reshape(1, -1, 1, 1)
    z = F.conv2d(
        tensors[layer["source"]],
        tensor(weight),
        tensor(bias),
        layer["stride"],
        layer["padding"],
        groups=groups,
    )
    return _ACTIVATIONS[layer["activation"]](z)


def _fully_connected(
    layer: dict[str, Any], tensors: dict[str, Any], constants: dict[str, Any]
) -> Any:
    weight, bias = _parameters(layer, constants)
    return F.linear(tensors[layer["source"]], tensor(weight), tensor(bias))


def _max_pool(layer: dict[str, Any], tensors: dict[str, Any], _constants: dict[str, Any]) -> Any:
    return F.max_pool2d(
        tensors[layer["source"]], layer["kernel"], layer["stride"], layer["padding"]
    )


def _global_average_pool(
    layer: dict[str, Any], tensors: dict[str, Any], _constants: dict[str, Any]
) -> Any:
    return F.mean(tensors[layer["source"]], axis=(2, 3))


def _upsample(layer: dict[str, Any], tensors: dict[str, Any], _constants: dict[str, Any]) -> Any:
    return F.vision.interpolate(
        tensors[layer["source"]], scale_factor=layer["factor"], mode="nearest"
    )


def _add(layer: dict[str, Any], tensors: dict[str, Any], _constants: dict[str, Any]) -> Any:
    return _ACTIVATIONS[layer["activation"]](tensors[layer["shortcut"]] + tensors[layer["branch"]])


def _concat(layer: dict[str, Any], tensors: dict[str, Any], _constants: dict[str, Any]) -> Any:
    return F.concat([tensors[name] for name in layer["parts"]], axis=1)


def _parameters(layer: dict[str, Any], constants: dict[str, Any]) -> tuple[Any, Any]:
    return constants[f"{layer['name']}.weight"], constants[f"{layer['name']}.bias"]


_LAYERS = {
    "Add": _add,
    "Concat": _concat,
    "Convolution": _convolution,
    "FullyConnected": _fully_connected,
    "GlobalAveragePool": _global_average_pool,
    "MaxPool": _max_pool,
    "Upsample": _upsample,
}
