"""Making `.mge` files: the name, the description, and the calls of the (scripted) MegEngine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reusebench import models
from reusebench.models.conversion.description import describe
from reusebench.models.megengine.environment import MegEngineConverter
from reusebench.models.networks.layers import Activation, Convolution, GlobalAveragePool
from reusebench.models.networks.network import Network
from reusebench.models.networks.weights import draw_weights
from reusebench.models.recipe import Recipe
from tests.models.megengine.scripted_megengine import install_scripted_megengine

pytestmark = pytest.mark.process


def test_the_name_of_a_file() -> None:
    """It has network, size, seed, and the versions of MegEngine, emitter and conversion."""
    recipe = MegEngineConverter.recipe(Recipe("yolov5s", 640, 7))
    assert recipe.file_name == "yolov5s-640-seed7-megengine1.13.0-v1.1.mge"


def test_a_description_has_all_of_the_network(tmp_path: Path) -> None:
    """Input, layers with their kinds and fields, outputs, and the weights of that seed as fp32
    arrays.
    """
    layers = (
        Convolution("c", "images", 4, kernel=3, activation=Activation.SILU),
        GlobalAveragePool("g", "c"),
    )
    network = Network("test", 32, 48, layers, ("g", "c"))
    describe(network, 7, tmp_path)
    assert json.loads((tmp_path / "network.json").read_text()) == {
        "input": {"name": "images", "shape": [1, 3, 32, 48]},
        "layers": [
            {
                "kind": "Convolution",
                "name": "c",
                "source": "images",
                "channels": 4,
                "kernel": 3,
                "stride": 1,
                "padding": 0,
                "groups": 1,
                "activation": "silu",
            },
            {"kind": "GlobalAveragePool", "name": "g", "source": "c"},
        ],
        "outputs": ["g", "c"],
    }
    (drawn,) = draw_weights(network, 7)
    with np.load(tmp_path / "weights.npz") as stored:
        assert stored["c.weight"].tobytes() == drawn.weight.tobytes()
        assert stored["c.bias"].tobytes() == drawn.bias.tobytes()


@pytest.mark.usefixtures("model_cache")
def test_megengine_dumps_by_its_own_defaults() -> None:
    """Names are the network's, no layout is chosen, and another pass would change nothing."""
    install_scripted_megengine()
    (path,) = models.ensure_all(".mge", [Recipe("frame", 36, 1)])
    written = json.loads(path.read_text())
    assert written["trace"] == {"symbolic": True, "capture_as_const": True}
    assert written["dump"] == {"arg_names": ["images"], "output_names": ["colours"]}
    image = [1, 3, 36, 64]
    weight = [3, 3, 1, 1]
    bias = [1, 3, 1, 1]
    assert written["outputs"] == [["conv2d", image, weight, bias, 1, 0, {"groups": 1}]]
    assert written["passes"] == 3
