"""Weights from a seed: "different models" of equal size that compute something without having been
trained.

Imports numpy: for the building process only, never for the harness.
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

#: The root mean square that activations are held at, throughout a network.
_LEVEL = 1.0
#: SiLU is held higher, where it is nearly ReLU. At 1 it bends upwards: a level a little too low
#: fades to nothing within 40 layers, one a little too high saturates the sigmoids at the end
#: (observed).
_SILU_LEVEL = 4.0

#: Of pixels spread evenly over [0, 1].
_IMAGE_LEVEL = 1 / math.sqrt(3)

#: Deviation of z, over the level, for which activation(z) is at the level; z normal with mean 0. So
#: every layer passes its level on (He et al., arXiv:1502.01852; SiLU's by numeric integration).
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

    They depend on the layers and the seed alone, not on the input size, so that one model at two
    resolutions has the same weights. Each seed differs from every other in every layer. Equal bytes
    need the same numpy: its generators may change between versions.
    """
    scales = _scales(network)
    for index, (name, parameters) in enumerate(network.parameters().items()):
        generator = np.random.default_rng([seed, index])
        fan_in = math.prod(parameters.weight[1:])
        weight = generator.standard_normal(parameters.weight, dtype=np.float32)
        weight *= np.float32(scales[name] / math.sqrt(fan_in))
        bias = generator.standard_normal(parameters.bias, dtype=np.float32) * np.float32(
            _BIAS_DEVIATION
        )
        yield LayerWeights(name, weight, bias)


def _scales(network: Network) -> dict[str, float]:
    """Return for every layer how much larger its weighted sum shall be than what it reads."""
    silu = any(_activation(layer) is Activation.SILU for layer in network.layers)
    level = _SILU_LEVEL if silu else _LEVEL
    branches = {layer.branch for layer in network.layers if isinstance(layer, Add)}
    scales = {}
    for layer in network.layers:
        scale = _GAINS[_activation(layer)]
        if INPUT_NAME in layer.sources:
            scale *= level / _IMAGE_LEVEL
        if _activation(layer) is Activation.SIGMOID:
            # An output: its values shall spread over (0, 1) and not lie at the ends.
            scale /= level
        scales[layer.name] = scale * (_BRANCH_SCALE if layer.name in branches else 1.0)
    return scales


def _activation(layer: Layer) -> Activation:
    activation: Activation = getattr(layer, "activation", Activation.NONE)
    return activation
