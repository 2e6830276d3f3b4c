"""Weights from a seed."""

from __future__ import annotations

import numpy as np
import pytest

from models.networks import find_network
from models.networks.weights import LayerWeights, draw_weights


def _draw(name: str, size: int, seed: int) -> list[LayerWeights]:
    return list(draw_weights(find_network(name).make(size), seed))


def _same(one: LayerWeights, other: LayerWeights) -> bool:
    return bool(np.array_equal(one.weight, other.weight)) or bool(np.array_equal(one.bias, other.bias))


def test_weights_have_the_described_shapes() -> None:
    """Each layer's weight and bias are fp32 in the shapes of the description, and none is missing."""
    network = find_network("tiny").make(64)
    drawn = {each.layer: each for each in draw_weights(network, 0)}
    assert list(drawn) == list(network.parameters())
    for layer, parameters in network.parameters().items():
        assert (drawn[layer].weight.shape, drawn[layer].bias.shape) == (parameters.weight, parameters.bias)
        assert drawn[layer].weight.dtype == drawn[layer].bias.dtype == np.float32


def test_another_seed_differs_in_every_layer() -> None:
    """Two seeds share neither weight nor bias of any layer, so their files can share no page."""
    pairs = zip(_draw("mobilenet_v2", 32, 0), _draw("mobilenet_v2", 32, 1))
    assert not any(_same(one, other) for one, other in pairs)


def test_layers_of_one_seed_differ_from_each_other() -> None:
    """Layers of equal shape do not repeat each other's weights."""
    drawn = _draw("mobilenet_v2", 32, 0)
    distinct = {each.weight.tobytes() for each in drawn}
    assert len(distinct) == len(drawn)


def test_weights_do_not_depend_on_the_input_size() -> None:
    """One seed at two resolutions is one model at two resolutions: runtimes can share its weights."""
    for small, large in zip(_draw("tiny", 32, 5), _draw("tiny", 96, 5)):
        assert small.weight.tobytes() == large.weight.tobytes()
        assert small.bias.tobytes() == large.bias.tobytes()


@pytest.mark.parametrize(
    ("layer", "deviation"),
    # Fan-in of 64 channels and 3x3: branch of a residual (0.15), and after ReLU (the square root of 2).
    [("branch", 0.15 / np.sqrt(576)), ("last", np.sqrt(2 / 64))],
)
def test_weights_are_scaled_by_fan_in(layer: str, deviation: float) -> None:
    """The deviation of a layer's weights follows He's rule, smaller for a residual branch."""
    weight = {each.layer: each.weight for each in _draw("tiny", 64, 0)}[layer]
    assert weight.std() == pytest.approx(deviation, rel=0.05)
