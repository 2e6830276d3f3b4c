"""The real MegEngine and MegEngine Lite, where they are installed in the user's cache."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

import models
from models.conversion.description import describe
from models.megengine.emitter import MegEngineConverter
from models.megengine.environment import MEGENGINE
from models.networks import find_network
from models.networks.layers import (
    Activation,
    Add,
    Concat,
    Convolution,
    FullyConnected,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Upsample,
)
from models.networks.network import Network
from models.onnx.emitter import emit
from models.recipe import MegEngineRecipe, Recipe

_Array = npt.NDArray[np.float32]

#: The user's own, looked for before a test has a cache of its own.
_FOLDER = MEGENGINE.folder()

pytestmark = pytest.mark.skipif(
    not MEGENGINE.installed(),
    reason=f"{_FOLDER} is not there: run `reusebench models install megengine` to test it",
)

_PROGRAM = Path(__file__).with_name("run_mge.py")
_SEED = 3


def _every_kind() -> Network:
    """Return a network of each kind of layer with each activation, all of them outputs, for an odd image."""
    layers: list[Layer] = [
        Convolution("plain", "images", 8, kernel=3, padding=1),
        # Padded, and some of its maps are below zero at the edge.
        MaxPool("pool", "plain", kernel=5, stride=2, padding=2),
        Upsample("twice", "pool", factor=2),
        Upsample("thrice", "pool", factor=3),
    ]
    for each in Activation:
        layers.append(Convolution(f"conv.{each.value}", "pool", 8, 3, stride=1, padding=1, groups=2, activation=each))
        layers.append(Add(f"add.{each.value}", "pool", f"conv.{each.value}", activation=each))
    layers.append(Concat("concat", ("pool", "conv.silu")))
    layers.append(GlobalAveragePool("mean", "concat"))
    layers.append(FullyConnected("full", "mean", 7))
    return Network("kinds", 33, 47, tuple(layers), tuple(layer.name for layer in layers))


_NETWORKS = {
    "kinds": _every_kind(),
    **{
        name: find_network(name).make(size)
        for name, size in (("tiny", 64), ("mobilenet_v2", 96), ("resnet50", 64), ("yolov5s", 96), ("frame", 216))
    },
    # What the small ones see when their input is changed.
    "mobilenet_v2 larger": find_network("mobilenet_v2").make(129),
    "yolov5s larger": find_network("yolov5s").make(160),
    "frame larger": find_network("frame").make(270),
}
_RESIZED = ("mobilenet_v2", "yolov5s", "frame")


class _Outputs:
    """What MegEngine Lite and ONNX Runtime gave for the files of one session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of_onnx(self, name: str) -> dict[str, _Array]:
        """Return the outputs of the network's ONNX file."""
        session = onnxruntime.InferenceSession(str(self.path(name, "onnx")), providers=["CPUExecutionProvider"])
        image = np.load(self.path(name, "npy"))
        return dict(zip(_NETWORKS[name].outputs, session.run(None, {"images": image})))

    def of_mge(self, name: str) -> dict[str, _Array]:
        """Return the outputs under that name, in the order of the file."""
        with np.load(self.path(name, "npz")) as stored:
            return dict(stored.items())

    def path(self, name: str, kind: str) -> Path:
        return self._folder / f"{name}.{kind}"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> _Outputs:
    """Make all files in one process of MegEngine, and run all in one of MegEngine Lite."""
    outputs = _Outputs(tmp_path_factory.mktemp("mge"))
    with MegEngineConverter() as converter:
        for name, network in _NETWORKS.items():
            _make(outputs, name, network, converter)
    runs = [_run(outputs, name, {name: name}) for name in _NETWORKS]
    for name in _RESIZED:
        seen = {name: f"{name} before", f"{name} larger": f"{name} resized"}
        runs.append(_run(outputs, name, seen))
    command = [str(MEGENGINE.python()), "-I", str(_PROGRAM)]
    done = subprocess.run(command, input=json.dumps(runs), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return outputs


def _make(outputs: _Outputs, name: str, network: Network, converter: MegEngineConverter) -> None:
    description = outputs.path(name, "description")
    description.mkdir()
    describe(network, _SEED, description)
    # The recipe is there for its name.
    converter.convert(MegEngineRecipe(Recipe("tiny", 64, 0)), description, outputs.path(name, "mge"))
    emit(network, _SEED, outputs.path(name, "onnx"))
    np.save(outputs.path(name, "npy"), np.random.default_rng(5).random(network.input_shape, dtype=np.float32))


def _run(outputs: _Outputs, name: str, seen: dict[str, str]) -> dict[str, Any]:
    """Return a run of the file on the images of some networks, each to outputs of another name."""
    return {
        "model": str(outputs.path(name, "mge")),
        "images": [str(outputs.path(image, "npy")) for image in seen],
        "outputs": [str(outputs.path(result, "npz")) for result in seen.values()],
    }


@pytest.mark.parametrize("name", _NETWORKS)
def test_both_runtimes_compute_the_same(name: str, outputs: _Outputs) -> None:
    """The same weights and image give the same outputs, in name, order, shape and value."""
    expected, given = outputs.of_onnx(name), outputs.of_mge(name)
    assert list(given) == list(expected)
    for output, values in expected.items():
        np.testing.assert_allclose(given[output], values, rtol=1e-4, atol=1e-5, err_msg=output)


@pytest.mark.parametrize("name", _RESIZED)
def test_an_input_may_change_its_size(name: str, outputs: _Outputs) -> None:
    """A network made for one size and given another computes what one made for that computes, bit for bit."""
    expected, given = outputs.of_mge(f"{name} larger"), outputs.of_mge(f"{name} resized")
    assert {output: values.shape for output, values in given.items()} == {
        output: _NETWORKS[f"{name} larger"].shapes()[output] for output in expected
    }
    assert all(given[output].tobytes() == expected[output].tobytes() for output in expected)


def test_equal_recipes_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew, in another process, a file has the same bytes; another seed changes them and not their number."""
    made = []
    for number, seed in enumerate((1, 1, 2)):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(number)))
        MEGENGINE.folder().parent.mkdir(parents=True)
        MEGENGINE.folder().symlink_to(_FOLDER)
        (path,) = models.ensure_all(".mge", [Recipe("tiny", 64, seed)])
        made.append(path.read_bytes())
    assert made[0] == made[1] != made[2]
    assert len(made[0]) == len(made[2])
