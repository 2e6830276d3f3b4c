"""The networks against what was published about them."""

from __future__ import annotations

import math

import pytest

from reusebench.models.errors import ModelError
from reusebench.models.networks import NETWORKS, NetworkEntry, find_network
from reusebench.models.networks.layers import (
    Activation,
    Add,
    Convolution,
    GlobalAveragePool,
    MaxPool,
)
from reusebench.models.networks.network import Network


def _default(name: str) -> Network:
    entry = find_network(name)
    return entry.make(entry.default_size)


def _is_normalised(layer: object) -> bool:
    """Whether batch norm follows the published layer: after every convolution except detection
    heads.
    """
    return isinstance(layer, Convolution) and layer.activation is not Activation.SIGMOID


def _unfolded_counts(network: Network) -> dict[str, int]:
    """Parameters per layer with batch norm: convolutions lose their bias; channels gain a scale and
    an offset.
    """
    normalised = {layer.name for layer in network.layers if _is_normalised(layer)}
    return {
        name: parameters.count + (parameters.bias[0] if name in normalised else 0)
        for name, parameters in network.parameters().items()
    }


@pytest.mark.parametrize(
    ("name", "folded", "unfolded", "giga_multiply_adds", "residuals", "activations", "outputs"),
    [
        # Unfolded: `num_params` of torchvision's weights; the summary that yolov5's train.py
        # prints. Multiply-adds: torchvision's `_ops`; yolov5's README counts a multiply-add as two:
        # 16.5. Residuals: the papers' tables.
        (
            "resnet50",
            25_530_472,
            25_557_032,
            4.089,
            16,
            {Activation.RELU, Activation.NONE},
            [(1, 1000)],
        ),
        (
            "mobilenet_v2",
            3_487_816,
            3_504_872,
            0.301,
            10,
            {Activation.RELU6, Activation.NONE},
            [(1, 1000)],
        ),
        # 255 sigmoids per cell at strides 8, 16 and 32.
        (
            *("yolov5s", 7_225_885, 7_235_389, 16.5 / 2, 7, {Activation.SILU, Activation.SIGMOID}),
            [(1, 255, 80, 80), (1, 255, 40, 40), (1, 255, 20, 20)],
        ),
    ],
)
def test_networks_are_the_published_ones(
    name: str,
    folded: int,
    unfolded: int,
    giga_multiply_adds: float,
    residuals: int,
    activations: set[Activation],
    outputs: list[tuple[int, ...]],
) -> None:
    """Parameters with and without batch norm to the last one, activations, and work, which strides
    and maps decide.
    """
    network = _default(name)
    published_millions = find_network(name).published_millions
    assert published_millions is not None
    assert (network.parameter_count(), sum(_unfolded_counts(network).values())) == (
        folded,
        unfolded,
    )
    assert folded / 1e6 == pytest.approx(published_millions, rel=0.005)
    shapes = network.shapes()
    work = 0
    for layer, parameters in network.parameters().items():
        work += math.prod(parameters.weight) * math.prod(shapes[layer][2:])
    assert work / 1e9 == pytest.approx(giga_multiply_adds, rel=0.005)
    assert sum(isinstance(layer, Add) for layer in network.layers) == residuals
    assert {
        layer.activation for layer in network.layers if isinstance(layer, Convolution)
    } == activations
    assert [shapes[output] for output in network.outputs] == outputs


def test_yolov5s_has_the_published_modules() -> None:
    """Each of the 25 modules has the parameters that yolov5's model summary prints for it."""
    summary = [
        3520,
        18560,
        18816,
        73984,
        115712,
        295424,
        625152,
        1180672,
        1182720,
        656896,
        131584,
        0,
        0,
    ]
    summary += [361984, 33024, 0, 0, 90880, 147712, 0, 296448, 590336, 0, 1182720, 229245]
    network = _default("yolov5s")
    counts = {f"model.{index}": 0 for index in range(25)}
    unfolded = _unfolded_counts(network)
    for layer in network.layers:
        counts[".".join(layer.name.split(".")[:2])] += unfolded.get(layer.name, 0)
    assert list(counts.values()) == summary


def test_tiny_has_what_other_tests_need() -> None:
    """A depthwise convolution, a residual, both pools, and less than 1 MB of weights."""
    network = _default("tiny")
    assert {Add, MaxPool, GlobalAveragePool} < {type(layer) for layer in network.layers}
    assert any(
        isinstance(layer, Convolution) and layer.groups == layer.channels
        for layer in network.layers
    )
    assert 100_000 < network.weight_bytes() < 1_000_000


@pytest.mark.parametrize("entry", NETWORKS, ids=lambda entry: entry.name)
def test_default_and_smallest_sizes_are_valid(entry: NetworkEntry) -> None:
    """Every network takes its default size and a small one of the deepest stride; all but frames
    are square.
    """
    smallest = 36 if entry.name == "frame" else 32
    for size in (entry.default_size, smallest):
        entry.check_size(size)
        columns = size // 9 * 16 if entry.name == "frame" else size
        assert entry.make(size).input_shape == (1, 3, size, columns)


@pytest.mark.parametrize(("size", "columns"), [(216, 384), (720, 1280), (1080, 1920), (2160, 3840)])
def test_a_frame_goes_in_and_comes_out_in_16_to_9(size: int, columns: int) -> None:
    """The output is as large as the input, and so little is between that the copies of both
    decide.
    """
    entry = find_network("frame")
    entry.check_size(size)
    network = entry.make(size)
    shapes = network.shapes()
    assert [shapes[name] for name in ("images", *network.outputs)] == [(1, 3, size, columns)] * 2
    assert network.parameter_count() == 12


@pytest.mark.parametrize(
    ("name", "size", "valid"),
    [
        (
            "yolov5s",
            100,
            "yolov5s cannot be made for size 100; valid: a multiple of 32 from 32 to 16384",
        ),
        ("yolov5s", 0, "a multiple of 32"),
        (
            "resnet50",
            31,
            "resnet50 cannot be made for size 31; valid: a whole number from 32 to 16384",
        ),
        (
            "frame",
            1088,
            "frame cannot be made for size 1088; valid: a multiple of 9 from 36 to 16384",
        ),
        ("tiny", -64, "a whole number from 32"),
        ("tiny", 10**30, "a whole number from 32"),
    ],
)
def test_an_invalid_size_is_refused_with_the_valid_ones(name: str, size: int, valid: str) -> None:
    """The message for a bad size has what is valid for that network."""
    with pytest.raises(ModelError, match=valid):
        find_network(name).check_size(size)


def test_an_unknown_name_is_refused_with_the_valid_ones() -> None:
    """The message for an unknown network lists every name."""
    with pytest.raises(
        ModelError, match="'vgg'; valid: resnet50, mobilenet_v2, yolov5s, tiny, frame"
    ):
        find_network("vgg")
