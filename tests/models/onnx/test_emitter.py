"""ONNX files as ONNX Runtime really runs them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from reusebench.models.networks import NETWORKS, find_network
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
from reusebench.models.networks.weights import LayerWeights, draw_weights
from reusebench.models.onnx.emitter import emit
from reusebench.models.recipe import EMISSION_VERSION

_Array = npt.NDArray[np.float32]

_NAMES = [entry.name for entry in NETWORKS]


def _small(name: str) -> int:
    """Return a size that is quick: frames have 9 rows for every 16 columns."""
    return 72 if name == "frame" else 64


class _Files:
    """Emits each file once for all tests of this module."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str, size: int | None = None, seed: int = 0) -> Path:
        size = size or _small(name)
        path = self._folder / f"{name}-{size}-{seed}.onnx"
        if not path.exists():
            emit(find_network(name).make(size), seed, path)
        return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> _Files:
    return _Files(tmp_path_factory.mktemp("onnx"))


def _run(path: Path, *images: _Array) -> list[list[_Array]]:
    """Return the outputs for each image."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [session.run(None, {"images": image}) for image in images]


def _run_layers(folder: Path, image: _Array, *layers: Layer) -> tuple[_Array, list[LayerWeights]]:
    """Return the output of a network of these layers, and its weights."""
    network = Network("test", 32, 32, layers, (layers[-1].name,))
    emit(network, 0, folder / "m.onnx")
    (outputs,) = _run(folder / "m.onnx", image)
    return outputs[0], list(draw_weights(network, 0))


def _noise(height: int, width: int | None = None) -> _Array:
    return np.random.default_rng(7).random((1, 3, height, width or height), dtype=np.float32)


def _ramp(height: int, width: int | None = None) -> _Array:
    line = np.linspace(0, 1, width or height, dtype=np.float32)
    ramp: _Array = np.broadcast_to(line, (1, 3, height, line.size)).copy()
    return ramp


@pytest.mark.parametrize("name", _NAMES)
def test_outputs_are_alive(name: str, files: _Files) -> None:
    """Every network's outputs are finite, spread out, and different for another image."""
    network = find_network(name).make(_small(name))
    size = network.height, network.width
    of_noise, of_ramp = _run(files.get(name), _noise(*size), _ramp(*size))
    assert len(of_noise) == len(network.outputs)
    for output, other_image in zip(of_noise, of_ramp):
        assert np.isfinite(output).all()
        assert 0.03 < output.std() < 10
        assert np.abs(output - other_image).mean() > 0.01


@pytest.mark.parametrize("seed", [2, 5])
def test_the_signal_reaches_yolov5s_heads(seed: int, files: _Files) -> None:
    """SiLU neither fades the image nor saturates the heads, for seeds that fade He weights."""
    images = np.zeros((1, 3, 128, 128), np.float32), _ramp(128)
    for black, ramp in zip(*_run(files.get("yolov5s", 128, seed), *images)):
        assert ramp.std() > 3 * black.std()
        assert np.quantile(ramp, 0.1) > 0.01
        assert np.quantile(ramp, 0.9) < 0.99


@pytest.mark.parametrize("name", _NAMES)
def test_the_file_is_what_the_description_says(name: str, files: _Files) -> None:
    """The checker passes; opset 13, IR 8; each layer's tensor has its name and shape, each weight
    four raw bytes.
    """
    path = files.get(name)
    network = find_network(name).make(_small(name))
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 13)]
    assert model.ir_version == 8
    assert [image.name for image in model.graph.input] == ["images"]
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    shapes = {}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        shapes[value.name] = tuple(
            dimension.dim_value for dimension in value.type.tensor_type.shape.dim
        )
    assert {tensor: shapes[tensor] for tensor in network.shapes()} == network.shapes()
    stored = {constant.name: len(constant.raw_data) for constant in model.graph.initializer}
    for layer, parameters in network.parameters().items():
        assert stored[f"{layer}.weight"] + stored[f"{layer}.bias"] == 4 * parameters.count
    assert 0 < path.stat().st_size - network.weight_bytes() < 600 * len(network.layers)


def test_equal_seeds_give_equal_bytes(files: _Files, tmp_path: Path) -> None:
    """Emitting the same network and seed twice gives the same file."""
    emit(find_network("tiny").make(64), 0, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == files.get("tiny").read_bytes()


def _graph_digest(path: Path) -> str:
    model = onnx.load(path)
    for constant in model.graph.initializer:
        constant.ClearField("raw_data")
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()[:16]


def test_graphs_change_only_with_the_version(files: _Files) -> None:
    """Whoever changes an emitted graph must raise EMISSION_VERSION, and record the new digests here
    with it.
    """
    digests = {name: _graph_digest(files.get(name)) for name in _NAMES}
    assert (EMISSION_VERSION, digests) == (
        1,
        {
            "resnet50": "985a9555b17d1960",
            "mobilenet_v2": "c4ae3f3005c0dcae",
            "yolov5s": "f3dae8e70142a4a3",
            "tiny": "c069af6c98bf99c9",
            "frame": "d0e5e4390730a73c",
        },
    )


def test_weights_change_only_with_the_version() -> None:
    """Whoever changes how weights are drawn must raise EMISSION_VERSION, and record the new first
    ones here.
    """
    first = [weights.weight.flat[0] for weights in draw_weights(find_network("tiny").make(64), 0)]
    assert EMISSION_VERSION == 1
    assert first == pytest.approx(
        [0.52685, 0.21495, -0.10709, -0.0055233, 0.089082, -0.10216], rel=1e-4
    )


@pytest.mark.parametrize("name", ["mobilenet_v2", "tiny"])
def test_classifiers_run_at_sizes_that_no_stride_divides(name: str, files: _Files) -> None:
    """A classifier of 33 x 33 pixels gives its logits."""
    ((logits,),) = _run(files.get(name, 33), _noise(33))
    assert logits.shape == (1, {"tiny": 100}.get(name, 1000))
    assert np.isfinite(logits).all()


# Each kind of layer, computed without a runtime, for one image of 32 x 32 pixels.


def _convolve(image: _Array, weight: _Array, bias: _Array, layer: Convolution) -> _Array:
    padded = np.pad(image, ((0, 0), (0, 0), (layer.padding,) * 2, (layer.padding,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, (layer.kernel, layer.kernel), axis=(2, 3)
    )
    windows = windows[0, :, :: layer.stride, :: layer.stride]
    per_group = zip(np.split(windows, layer.groups), np.split(weight, layer.groups))
    summed: _Array = np.concatenate(
        [np.einsum("chwij,ocij->ohw", part, kernels) for part, kernels in per_group]
    )
    return (summed + bias[:, None, None])[None]


def _sigmoid(z: _Array) -> _Array:
    return np.asarray(1 / (1 + np.exp(-z)), dtype=np.float32)


@pytest.mark.parametrize(
    "layer",
    [
        Convolution("out", "images", 4, kernel=3, padding=1),
        Convolution("out", "images", 4, kernel=6, stride=2, padding=2),
        Convolution("out", "images", 6, kernel=3, stride=2, padding=1, groups=3),
    ],
)
def test_a_convolution_is_what_the_description_says(layer: Convolution, tmp_path: Path) -> None:
    """Kernel, stride, padding, groups and bias mean the same in the file as in the description."""
    output, (weights,) = _run_layers(tmp_path, _noise(32), layer)
    np.testing.assert_allclose(
        output, _convolve(_noise(32), weights.weight, weights.bias, layer), atol=1e-5
    )


@pytest.mark.parametrize("activation", list(Activation))
def test_an_activation_is_what_the_description_says(activation: Activation, tmp_path: Path) -> None:
    """Each activation's formula holds on both sides of its bends, after an addition of pixels from
    0 to 20.
    """
    image = (_noise(32) - 0.5) * 20
    output, _ = _run_layers(tmp_path, image, Add("out", "images", "images", activation))
    z = image + image
    expected = {
        Activation.NONE: z,
        Activation.RELU: np.maximum(z, 0),
        Activation.RELU6: np.clip(z, 0, 6),
        Activation.SILU: z * _sigmoid(z),
        Activation.SIGMOID: _sigmoid(z),
    }[activation]
    np.testing.assert_allclose(output, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([MaxPool("out", "images", 2, 2)], lambda x: x.reshape(1, 3, 16, 2, 16, 2).max((3, 5))),
        ([Upsample("out", "images", 2)], lambda x: x.repeat(2, axis=2).repeat(2, axis=3)),
        ([GlobalAveragePool("out", "images")], lambda x: x.mean((2, 3))),
        (
            [Add("sum", "images", "images"), Concat("out", ("sum", "images"))],
            lambda x: np.concatenate([x + x, x], axis=1),
        ),
    ],
)
def test_a_layer_without_weights_is_what_the_description_says(
    layers: list[Layer], expected: Any, tmp_path: Path
) -> None:
    """Pools, upsampling and concatenation give what numpy gives."""
    output, _ = _run_layers(tmp_path, _noise(32), *layers)
    np.testing.assert_allclose(output, expected(_noise(32)), atol=1e-5)


def test_a_padded_pool_never_takes_the_padding(tmp_path: Path) -> None:
    """Below zero everywhere, the largest value under a window at the edge is a pixel and not the
    padding's zero.
    """
    output, _ = _run_layers(tmp_path, _noise(32) - 2, MaxPool("out", "images", 5, 1, 2))
    assert output.shape == (1, 3, 32, 32)
    assert output.max() < 0


def test_a_fully_connected_layer_is_what_the_description_says(tmp_path: Path) -> None:
    """Each feature is its row of weights times the input, plus its bias."""
    layers = GlobalAveragePool("pool", "images"), FullyConnected("out", "pool", 7)
    output, (weights,) = _run_layers(tmp_path, _noise(32), *layers)
    np.testing.assert_allclose(
        output, _noise(32).mean((2, 3)) @ weights.weight.T + weights.bias, atol=1e-5
    )
