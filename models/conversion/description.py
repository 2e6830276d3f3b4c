"""Writes a network as plain data, for a converter whose Python has nothing of this project.

`python -m models.conversion.description NAME SIZE SEED FOLDER` does it. Imports numpy: for the building
process only, never for the harness.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from models.networks.layers import Activation, Layer
from models.networks.network import INPUT_NAME, Network
from models.networks.weights import draw_weights
from models.recipe import Recipe

__all__ = ["describe"]


def describe(network: Network, seed: int, folder: Path) -> None:
    """Write network.json (input, layers in order, outputs) and weights.npz (LAYER.weight, LAYER.bias) into folder.

    The weights are those that the ONNX file has.
    """
    (folder / "network.json").write_text(json.dumps(_plain(network)), encoding="utf-8")
    arrays: dict[str, Any] = {}
    for weights in draw_weights(network, seed):
        arrays[f"{weights.layer}.weight"] = weights.weight
        arrays[f"{weights.layer}.bias"] = weights.bias
    np.savez(folder / "weights.npz", **arrays)


def _plain(network: Network) -> dict[str, Any]:
    return {
        "input": {"name": INPUT_NAME, "shape": network.input_shape},
        "layers": [_plain_layer(layer) for layer in network.layers],
        "outputs": network.outputs,
    }


def _plain_layer(layer: Layer) -> dict[str, Any]:
    fields = {name: _plain_value(value) for name, value in dataclasses.asdict(layer).items()}
    return {"kind": type(layer).__name__, **fields}


def _plain_value(value: Any) -> Any:
    return value.value if isinstance(value, Activation) else value


def _main(name: str, size: str, seed: str, folder: str) -> None:
    recipe = Recipe(name, int(size), int(seed))
    describe(recipe.network(), recipe.seed, Path(folder))


if __name__ == "__main__":
    _main(*sys.argv[1:])
