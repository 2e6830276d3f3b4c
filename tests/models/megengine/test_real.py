"""The real MegEngine and MegEngine Lite, if they are installed in the user's cache."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from reusebench import models
from reusebench.models.conversion.description import describe
from reusebench.models.megengine.environment import MEGENGINE, MegEngineConverter
from reusebench.models.networks import find_network
from reusebench.models.networks.layers import (
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
from reusebench.models.networks.network import Network
from reusebench.models.onnx.emitter import emit
from reusebench.models.recipe import Recipe

_Array = npt.NDArray[np.float32]

#: The user's own, looked up before a test has a cache of its own.
_FOLDER = MEGENGINE.folder()

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not MEGENGINE.installed(),
        reason=f"{_FOLDER} is not there: run `reusebench models install megengine` to test it",
    ),
]

_PROGRAM = Path(__file__).with_name("run_mge.py")
_SEED = 3
_TINY = Recipe("tiny", 64, 0)


def _every_kind() -> Network:
    """Return a network of all kinds of layers and activations, all outputs, for an odd image."""
    layers: list[Layer] = [
        Convolution("plain", "images", 8, kernel=3, padding=1),
        # Padded, and some of its maps are below zero at the edge.
        MaxPool("pool", "plain", kernel=5, stride=2, padding=2),
        Upsample("twice", "pool", factor=2),
        Upsample("thrice", "pool", factor=3),
    ]
    for activation in Activation:
        name = f"conv.{activation.value}"
        layers.append(
            Convolution(name, "pool", 8, 3, stride=1, padding=1, groups=2, activation=activation)
        )
        layers.append(Add(f"add.{activation.value}", "pool", name, activation=activation))
    layers.append(Concat("concat", ("pool", "conv.silu")))
    layers.append(GlobalAveragePool("mean", "concat"))
    layers.append(FullyConnected("full", "mean", 7))
    return Network("kinds", 33, 47, tuple(layers), tuple(layer.name for layer in layers))


_MADE = ("mobilenet_v2", 96), ("yolov5s", 96), ("frame", 216)
_NETWORKS = {
    "kinds": _every_kind(),
    **{name: find_network(name).make(size) for name, size in _MADE},
    # Sizes at which the small networks see a change of their input.
    "yolov5s larger": find_network("yolov5s").make(160),
    "frame larger": find_network("frame").make(270),
}
_RESIZED = ("yolov5s", "frame")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make all files in one process of MegEngine, and run all in one of MegEngine Lite; return
    their folder.

    Of a network there are NAME.onnx, NAME.mge, NAME.npy, the image, and NAME.npz, MegEngine Lite's
    outputs.
    """
    folder = tmp_path_factory.mktemp("mge")
    runs = []
    with MegEngineConverter() as converter:
        for name, network in _NETWORKS.items():
            description = folder / name
            description.mkdir()
            describe(network, _SEED, description)
            # The recipe is there for its name.
            converter.convert(MegEngineConverter.recipe(_TINY), description, folder / f"{name}.mge")
            emit(network, _SEED, folder / f"{name}.onnx")
            image = np.random.default_rng(5).random(network.input_shape, dtype=np.float32)
            np.save(folder / f"{name}.npy", image)
            runs.append(_run(folder, name, {name: name}))
    for name in _RESIZED:
        runs.append(
            _run(folder, name, {name: f"{name} before", f"{name} larger": f"{name} resized"})
        )
    command = [str(MEGENGINE.python()), "-I", str(_PROGRAM)]
    done = subprocess.run(
        command, input=json.dumps(runs), text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def _run(folder: Path, name: str, outputs: dict[str, str]) -> dict[str, Any]:
    """Return a run of the file on the images of some networks, each to outputs of another name."""
    return {
        "model": str(folder / f"{name}.mge"),
        "images": [str(folder / f"{image}.npy") for image in outputs],
        "outputs": [str(folder / f"{result}.npz") for result in outputs.values()],
    }


def _outputs(folder: Path, name: str) -> dict[str, _Array]:
    """Return MegEngine Lite's outputs, in the order of the file."""
    with np.load(folder / f"{name}.npz") as stored:
        return dict(stored.items())


@pytest.mark.parametrize("name", _NETWORKS)
def test_both_runtimes_compute_the_same(name: str, folder: Path) -> None:
    """The same weights and image give the same outputs in ONNX Runtime, in name, order, shape and
    value.
    """
    session = onnxruntime.InferenceSession(
        str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"]
    )
    expected = session.run(None, {"images": np.load(folder / f"{name}.npy")})
    outputs = _outputs(folder, name)
    assert tuple(outputs) == _NETWORKS[name].outputs
    for output, values in zip(outputs, expected):
        np.testing.assert_allclose(outputs[output], values, rtol=1e-4, atol=1e-5, err_msg=output)


@pytest.mark.parametrize("name", _RESIZED)
def test_an_input_may_change_its_size(name: str, folder: Path) -> None:
    """A network made for one size and given another computes what one made for that computes, bit
    for bit.
    """
    expected = _outputs(folder, f"{name} larger")
    resized = _outputs(folder, f"{name} resized")
    shapes = _NETWORKS[f"{name} larger"].shapes()
    assert list(resized) == list(expected)
    for output, values in expected.items():
        assert resized[output].shape == shapes[output]
        assert resized[output].tobytes() == values.tobytes()


def test_equal_recipes_give_equal_bytes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made anew, in another process, a file has the same bytes; another seed changes them and not
    their number.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    MEGENGINE.folder().parent.mkdir(parents=True)
    MEGENGINE.folder().symlink_to(_FOLDER)
    recipes = [Recipe("frame", 216, seed) for seed in (_SEED, _SEED + 1)]
    again, other = (path.read_bytes() for path in models.ensure_all(".mge", recipes))
    first = (folder / "frame.mge").read_bytes()
    assert first == again != other
    assert len(other) == len(first)
