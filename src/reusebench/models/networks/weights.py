"""Weights from a seed, for untrained models of equal size whose activations keep a sensible level.

Only the building process imports this: it imports numpy, which the harness must not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reusebench.models.networks.layers import Activation, Add, Layer
from reusebench.models.networks.network import INPUT_NAME, Network

__all__ = ["LayerWeights", "draw_weights"]

#: Root mean square of the activations, throughout a network.
_LEVEL = 1.0
#: The same for SiLU, which is nearly ReLU at this level. At level 1 it bends upwards: a slightly
#: lower level fades to nothing within 40 layers, a slightly higher one saturates the sigmoids at
#: the end (observed).
_SILU_LEVEL = 4.0

#: Root mean square of pixels spread evenly over [0, 1].
_IMAGE_LEVEL = 1 / math.sqrt(3)

#: Standard deviation of z, relative to the level, for which activation(z) has the level; z is
#: normal with mean 0. Thus every layer keeps the level (He et al., arXiv:1502.01852; SiLU's value
#: is from numeric integration).
_GAINS = {
    Activation.NONE: 1.0,
    Activation.RELU: math.sqrt(2),
    Activation.RELU6: math.sqrt(2),
    Activation.SILU: 1.42,
    Activation.SIGMOID: 1.0,
}

#: A residual branch adds little to its shortcut, so that 16 blocks in a row do not grow the level.
_BRANCH_SCALE = 0.15

_BIAS_DEVIATION = 0.05


@dataclass(frozen=True)
class LayerWeights:
    """The weight and bias of one layer, fp32, in the shapes of its LayerParameters."""

    layer: str
    weight: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]


def draw_weights(network: Network, seed: int) -> Iterator[LayerWeights]:
    """Yield the weights of each layer that has any, in layer order.

    They depend only on the layers and the seed, not on the input size: one model at two resolutions
    has the same weights. Two seeds give different weights in every layer. Equal bytes need the same
    numpy, since its generators may change between versions.
    """
    scales = _scales(network)
    for index, (name, parameters) in enumerate(network.parameters().items()):
        generator = np.random.default_rng([seed, index])
        fan_in = math.prod(parameters.weight[1:])
        weight = generator.standard_normal(parameters.weight, dtype=np.float32)
        weight *= np.float32(scales[name] / math.sqrt(fan_in))
        bias = generator.standard_normal(parameters.bias, dtype=np.float32)
        bias *= np.float32(_BIAS_DEVIATION)
        yield LayerWeights(name, weight, bias)


def _scales(network: Network) -> dict[str, float]:
    """Return the ratio of the level of each layer's weighted sum to the level of its input."""
    has_silu = any(_activation(layer) is Activation.SILU for layer in network.layers)
    level = _SILU_LEVEL if has_silu else _LEVEL
    branches = {layer.branch for layer in network.layers if isinstance(layer, Add)}
    scales = {}
    for layer in network.layers:
        scale = _GAINS[_activation(layer)]
        if INPUT_NAME in layer.sources:
            scale *= level / _IMAGE_LEVEL
        if _activation(layer) is Activation.SIGMOID:
            # An output, whose values should spread over (0, 1) and not lie at the ends.
            scale /= level
        if layer.name in branches:
            scale *= _BRANCH_SCALE
        scales[layer.name] = scale
    return scales


def _activation(layer: Layer) -> Activation:
    activation: Activation = getattr(layer, "activation", Activation.NONE)
    return activation
