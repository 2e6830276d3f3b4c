"""The description of a network: shapes, counts, and the mistakes it refuses."""

from __future__ import annotations

import pytest

from reusebench.models.errors import ModelError
from reusebench.models.networks.layers import (
    Add,
    Concat,
    Convolution,
    FullyConnected,
    GlobalAveragePool,
    Layer,
    LayerParameters,
    MaxPool,
    Upsample,
)
from reusebench.models.networks.network import Network


def _network(*layers: Layer, height: int = 32, width: int = 32) -> Network:
    return Network("test", height, width, layers, (layers[-1].name,))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (Convolution("out", "images", 8, kernel=1), (1, 8, 33, 50)),
        (Convolution("out", "images", 8, kernel=3, stride=2, padding=1), (1, 8, 17, 25)),
        (Convolution("out", "images", 8, kernel=6, stride=2, padding=2), (1, 8, 16, 25)),
        (Convolution("out", "images", 6, kernel=3, groups=3), (1, 6, 31, 48)),
        (MaxPool("out", "images", kernel=2, stride=2), (1, 3, 16, 25)),
        (MaxPool("out", "images", kernel=5, stride=1, padding=2), (1, 3, 33, 50)),
        (Upsample("out", "images", factor=2), (1, 3, 66, 100)),
        (Concat("out", ("images", "images")), (1, 6, 33, 50)),
        (Add("out", "images", "images"), (1, 3, 33, 50)),
        (GlobalAveragePool("out", "images"), (1, 3)),
    ],
)
def test_every_kind_infers_its_shape(layer: Layer, shape: tuple[int, ...]) -> None:
    """Each layer kind's output shape follows from an image of 33 x 50 by whole strides."""
    assert _network(layer, height=33, width=50).shapes()["out"] == shape


def test_parameters_follow_from_channels_kernel_and_groups() -> None:
    """Weights are counted per group and each output has one bias; layers without weights are left
    out.
    """
    network = _network(
        Convolution("plain", "images", 8, kernel=3),
        Convolution("depthwise", "plain", 8, kernel=3, groups=8),
        GlobalAveragePool("pool", "depthwise"),
        FullyConnected("fc", "pool", 10),
    )
    assert network.parameters() == {
        "plain": LayerParameters((8, 3, 3, 3), (8,)),
        "depthwise": LayerParameters((8, 1, 3, 3), (8,)),
        "fc": LayerParameters((10, 8), (10,)),
    }
    assert network.parameter_count() == (216 + 8) + (72 + 8) + (80 + 10)
    assert network.weight_bytes() == 4 * network.parameter_count()


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            [MaxPool("a", "nowhere", 2, 2)],
            "layer 'a' reads 'nowhere', which no layer before it writes",
        ),
        ([MaxPool("images", "images", 2, 2)], "two layers have the name 'images'"),
        (
            [Convolution("a", "images", 8, kernel=1, groups=2)],
            "2 groups do not divide 3 input and 8 output",
        ),
        (
            [Convolution("a", "images", 8, kernel=35, padding=1)],
            "kernel 35 is larger than the padded map of 32 x 32",
        ),
        ([FullyConnected("a", "images", 8)], "needs a vector"),
        (
            [GlobalAveragePool("a", "images"), MaxPool("b", "a", 2, 2)],
            "layer 'b': needs a feature map",
        ),
        ([MaxPool("a", "images", 2, 2), Add("b", "images", "a")], "shapes must be equal"),
        ([MaxPool("a", "images", 2, 2), Concat("b", ("images", "a"))], "one height and width"),
    ],
)
def test_a_contradiction_is_refused_with_the_layers_name(layers: list[Layer], message: str) -> None:
    """A network whose layers do not fit together cannot be made, and the message has the layer and
    the reason.
    """
    with pytest.raises(ModelError, match=message):
        _network(*layers)


def test_an_output_that_nothing_writes_is_refused() -> None:
    """Every output must be a tensor of the network."""
    with pytest.raises(ModelError, match="'b' is an output of test, but no layer writes it"):
        Network("test", 32, 32, (MaxPool("a", "images", 2, 2),), ("a", "b"))
