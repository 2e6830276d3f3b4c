"""Weights from a seed."""

from __future__ import annotations

import numpy as np
import pytest

from reusebench.models.networks import find_network
from reusebench.models.networks.weights import LayerWeights, draw_weights


def _draw(name: str, size: int, seed: int) -> list[LayerWeights]:
    return list(draw_weights(find_network(name).make(size), seed))


def test_weights_have_the_described_shapes() -> None:
    """Each layer's weight and bias are fp32 in the shapes of the description, and none is
    missing.
    """
    network = find_network("tiny").make(64)
    drawn = {weights.layer: weights for weights in draw_weights(network, 0)}
    assert list(drawn) == list(network.parameters())
    for layer, parameters in network.parameters().items():
        assert (drawn[layer].weight.shape, drawn[layer].bias.shape) == (
            parameters.weight,
            parameters.bias,
        )
        assert drawn[layer].weight.dtype == drawn[layer].bias.dtype == np.float32


def test_layers_and_seeds_differ_from_each_other() -> None:
    """Layers of equal shape and two seeds share no weight and no bias, so their files can share no
    page.
    """
    drawn = [weights for seed in (0, 1) for weights in _draw("mobilenet_v2", 32, seed)]
    for values in ([weights.weight for weights in drawn], [weights.bias for weights in drawn]):
        assert len({value.tobytes() for value in values}) == len(drawn)


def test_weights_do_not_depend_on_the_input_size() -> None:
    """One seed at two resolutions is one model at two resolutions: runtimes can share its
    weights.
    """
    for small, large in zip(_draw("tiny", 32, 5), _draw("tiny", 96, 5)):
        assert small.weight.tobytes() == large.weight.tobytes()
        assert small.bias.tobytes() == large.bias.tobytes()


@pytest.mark.parametrize(
    ("layer", "deviation"),
    # Fan-in of 64 channels and 3x3: branch of a residual (0.15), and after ReLU (the square root of
    # 2).
    [("branch", 0.15 / np.sqrt(576)), ("last", np.sqrt(2 / 64))],
)
def test_weights_are_scaled_by_fan_in(layer: str, deviation: float) -> None:
    """The deviation of a layer's weights follows He's rule, smaller for a residual branch."""
    weight = {weights.layer: weights.weight for weights in _draw("tiny", 64, 0)}[layer]
    assert weight.std() == pytest.approx(deviation, rel=0.05)
