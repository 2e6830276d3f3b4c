"""Writes a network as plain data, for a converter whose Python lacks this project.

`python -m reusebench.models.conversion.description NAME SIZE SEED FOLDER`; only the building
process runs it, since it imports numpy, which the harness must not.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from reusebench.models.networks.network import INPUT_NAME, Network
from reusebench.models.networks.weights import draw_weights
from reusebench.models.recipe import Recipe

__all__ = ["describe"]


def describe(network: Network, seed: int, folder: Path) -> None:
    """Write network.json (input, layers in order, outputs) and weights.npz into the folder.

    The arrays LAYER.weight and LAYER.bias have the values of the ONNX file.
    """
    layers = []
    for layer in network.layers:
        fields = dataclasses.asdict(layer)
        if "activation" in fields:
            fields["activation"] = fields["activation"].value
        layers.append({"kind": type(layer).__name__, **fields})
    plain = {
        "input": {"name": INPUT_NAME, "shape": network.input_shape},
        "layers": layers,
        "outputs": network.outputs,
    }
    (folder / "network.json").write_text(json.dumps(plain), encoding="utf-8")

    arrays: dict[str, Any] = {}
    for weights in draw_weights(network, seed):
        arrays[f"{weights.layer}.weight"] = weights.weight
        arrays[f"{weights.layer}.bias"] = weights.bias
    np.savez(folder / "weights.npz", **arrays)


if __name__ == "__main__":
    recipe = Recipe(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    describe(recipe.network(), recipe.seed, Path(sys.argv[4]))
