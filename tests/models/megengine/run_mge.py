"""Runs `.mge` files in MegEngine Lite's own environment: the program behind test_real.py.

Standard input is a JSON list of runs: model, images (.npy) that one network gets one after the
other, and as many files (.npz) for its outputs, which are named as in the model.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import megenginelite as lite
import numpy as np


def main() -> None:
    """Make every run."""
    for run in json.load(sys.stdin):
        network = lite.LiteNetwork()
        network.load(run["model"])
        assert network.get_all_input_name() == ["images"]
        for image, outputs in zip(run["images"], run["outputs"]):
            np.savez(outputs, **_infer(network, np.load(image)))


def _infer(network: Any, image: Any) -> dict[str, Any]:
    tensor = network.get_io_tensor("images")
    tensor.layout = lite.LiteLayout(image.shape, image.dtype)
    tensor.set_data_by_copy(image)
    network.forward()
    network.wait()
    return {name: network.get_io_tensor(name).to_numpy() for name in network.get_all_output_name()}


if __name__ == "__main__":
    main()
