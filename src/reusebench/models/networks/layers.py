"""The kinds of layers that networks consist of: plain data, each with its rule for shapes.

A layer writes one tensor, which has the layer's name. Shapes are (1, channels, height, width) for
feature maps and (1, features) for vectors; the batch is always 1. Kernels, strides and paddings are
square and in pixels. Nothing here depends on a file format: each emitter translates the layers.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.models.errors import ModelError

__all__ = [
    "Activation",
    "Add",
    "Concat",
    "Convolution",
    "FullyConnected",
    "GlobalAveragePool",
    "Layer",
    "LayerParameters",
    "MaxPool",
    "Shape",
    "Upsample",
]

Shape = tuple[int, ...]


class Activation(enum.Enum):
    """The function that is applied to each element z of a layer's result."""

    NONE = "none"
    #: max(z, 0)
    RELU = "relu"
    #: min(max(z, 0), 6)
    RELU6 = "relu6"
    #: z * sigmoid(z), also called swish
    SILU = "silu"
    #: 1 / (1 + exp(-z))
    SIGMOID = "sigmoid"


@dataclass(frozen=True)
class LayerParameters:
    """The shapes of a layer's weight, output channels first, and of its bias."""

    weight: Shape
    bias: Shape

    @property
    def count(self) -> int:
        """Number of parameters."""
        return math.prod(self.weight) + math.prod(self.bias)


@dataclass(frozen=True)
class Layer(ABC):
    """A layer of any kind."""

    #: Unique name in the network, and the name of the tensor that the layer writes.
    name: str

    @property
    @abstractmethod
    def sources(self) -> tuple[str, ...]:
        """The tensors that the layer reads, in order."""

    @abstractmethod
    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the output shape for inputs of these shapes; ModelError if they do not fit."""

    def parameters(self, inputs: Sequence[Shape]) -> LayerParameters | None:  # noqa: ARG002 - most kinds have none
        """Return the shapes of the layer's parameters, or None if it has no parameters."""
        return None


@dataclass(frozen=True)
class _OneSource(Layer):
    """A layer that reads one tensor."""

    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The only source."""
        return (self.source,)


@dataclass(frozen=True)
class Convolution(_OneSource):
    """A convolution with bias (batch norm is folded into both), then its activation."""

    #: Output channels.
    channels: int
    kernel: int
    stride: int = 1
    #: Zeros added on each of the four sides.
    padding: int = 0
    #: Number of groups; equal to the number of input channels for a depthwise convolution.
    groups: int = 1
    activation: Activation = Activation.NONE

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return (1, channels, height, width) after the kernel has moved in whole strides."""
        _, channels, _, _ = _feature_map(self, inputs[0])
        if channels % self.groups or self.channels % self.groups:
            raise ModelError(
                f"layer {self.name!r}: {self.groups} groups do not divide {channels} input and"
                f" {self.channels} output channels"
            )
        height, width = _slide(self, inputs[0], self.kernel, self.stride, self.padding)
        return (1, self.channels, height, width)

    def parameters(self, inputs: Sequence[Shape]) -> LayerParameters:
        """Return the shapes (channels, input channels / groups, kernel, kernel) and (channels,)."""
        fan_in_channels = inputs[0][1] // self.groups
        return LayerParameters(
            (self.channels, fan_in_channels, self.kernel, self.kernel), (self.channels,)
        )


@dataclass(frozen=True)
class FullyConnected(_OneSource):
    """A layer whose output features are weighted sums of all input features, plus a bias."""

    #: Output features.
    features: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return (1, features)."""
        if len(inputs[0]) != 2:
            raise ModelError(f"layer {self.name!r}: needs a vector (1, features), not {inputs[0]}")
        return (1, self.features)

    def parameters(self, inputs: Sequence[Shape]) -> LayerParameters:
        """Return the shapes (features, input features) and (features,)."""
        return LayerParameters((self.features, inputs[0][1]), (self.features,))


@dataclass(frozen=True)
class MaxPool(_OneSource):
    """The largest value under a moving window; padding never wins."""

    kernel: int
    stride: int
    padding: int = 0

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the input's channels at the size that whole strides give."""
        _, channels, _, _ = _feature_map(self, inputs[0])
        height, width = _slide(self, inputs[0], self.kernel, self.stride, self.padding)
        return (1, channels, height, width)


@dataclass(frozen=True)
class GlobalAveragePool(_OneSource):
    """The mean of each channel over height and width: a feature map in, a vector out."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return (1, channels)."""
        _, channels, _, _ = _feature_map(self, inputs[0])
        return (1, channels)


@dataclass(frozen=True)
class Upsample(_OneSource):
    """Each pixel repeated factor times in both directions (nearest neighbour)."""

    factor: int

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the input's channels at factor times its height and width."""
        _, channels, height, width = _feature_map(self, inputs[0])
        return (1, channels, height * self.factor, width * self.factor)


@dataclass(frozen=True)
class Add(Layer):
    """The elementwise sum that ends a residual block, then its activation."""

    #: The way around the block.
    shortcut: str
    #: The way through the block.
    branch: str
    activation: Activation = Activation.NONE

    @property
    def sources(self) -> tuple[str, ...]:
        """Shortcut, branch."""
        return (self.shortcut, self.branch)

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the shape that both sources have."""
        if inputs[0] != inputs[1]:
            raise ModelError(
                f"layer {self.name!r}: cannot add {inputs[1]} to {inputs[0]}: shapes must be equal"
            )
        return inputs[0]


@dataclass(frozen=True)
class Concat(Layer):
    """Feature maps of one size, joined along the channels."""

    parts: tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The parts."""
        return self.parts

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the common size with the sum of the channels."""
        all_channels = 0
        sizes = set()
        for shape in inputs:
            _, channels, height, width = _feature_map(self, shape)
            all_channels += channels
            sizes.add((height, width))
        if len(sizes) != 1:
            raise ModelError(
                f"layer {self.name!r}: parts must have one height and width, not {sorted(sizes)}"
            )
        height, width = sizes.pop()
        return (1, all_channels, height, width)


def _feature_map(layer: Layer, shape: Shape) -> tuple[int, int, int, int]:
    if len(shape) != 4:
        raise ModelError(
            f"layer {layer.name!r}: needs a feature map (1, channels, height, width), not {shape}"
        )
    batch, channels, height, width = shape
    return batch, channels, height, width


def _slide(layer: Layer, shape: Shape, kernel: int, stride: int, padding: int) -> tuple[int, int]:
    """Return the number of window positions, down and across, in whole strides."""
    _, _, height, width = _feature_map(layer, shape)
    if min(height, width) + 2 * padding < kernel:
        raise ModelError(
            f"layer {layer.name!r}: kernel {kernel} is larger than the padded map of {height} x"
            f" {width}"
        )
    down = (height + 2 * padding - kernel) // stride + 1
    across = (width + 2 * padding - kernel) // stride + 1
    return down, across
