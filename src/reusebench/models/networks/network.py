"""A network: its layers as a graph, with the shapes, parameters and sizes that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.models.errors import ModelError
from reusebench.models.networks.layers import Layer, LayerParameters, Shape

__all__ = ["INPUT_CHANNELS", "INPUT_NAME", "Network", "NetworkBuilder"]

#: Every network here takes one RGB image, as pixels in [0, 1].
INPUT_NAME = "images"
INPUT_CHANNELS = 3

_FP32_BYTES = 4


@dataclass(frozen=True)
class Network:
    """A network for one input image; checked when made, so that every emitter can trust it."""

    name: str
    #: Height and width of the input in pixels.
    height: int
    width: int
    #: The layers in an order in which they can run.
    layers: tuple[Layer, ...]
    #: Names of the tensors that the application reads, in order.
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ModelError if a tensor is missing or shapes do not fit."""
        shapes = self.shapes()
        for output in self.outputs:
            if output not in shapes:
                raise ModelError(f"{output!r} is an output of {self.name}, but no layer writes it")

    @property
    def input_shape(self) -> Shape:
        """Shape of the input tensor, INPUT_NAME."""
        return (1, INPUT_CHANNELS, self.height, self.width)

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every tensor by name, the input first, then in layer order."""
        shapes = {INPUT_NAME: self.input_shape}
        for layer in self.layers:
            if layer.name in shapes:
                raise ModelError(f"two layers have the name {layer.name!r}")
            shapes[layer.name] = layer.output_shape(_source_shapes(layer, shapes))
        return shapes

    def parameters(self) -> dict[str, LayerParameters]:
        """Return the parameter shapes of each layer that has any, by layer name, in layer order."""
        shapes = self.shapes()
        by_layer: dict[str, LayerParameters] = {}
        for layer in self.layers:
            parameters = layer.parameters(_source_shapes(layer, shapes))
            if parameters is not None:
                by_layer[layer.name] = parameters
        return by_layer

    def parameter_count(self) -> int:
        """Return the number of parameters, weights and biases together."""
        return sum(parameters.count for parameters in self.parameters().values())

    def weight_bytes(self) -> int:
        """Return the bytes that the parameters take as fp32."""
        return self.parameter_count() * _FP32_BYTES


class NetworkBuilder:
    """Collects the layers of a network."""

    def __init__(self) -> None:
        self._layers: list[Layer] = []

    def add(self, layer: Layer) -> str:
        """Append the layer and return the name of the tensor that it writes."""
        self._layers.append(layer)
        return layer.name

    def build(self, name: str, height: int, width: int, outputs: Sequence[str]) -> Network:
        """Return the network of the layers added so far; raise ModelError if they do not fit."""
        return Network(name, height, width, tuple(self._layers), tuple(outputs))


def _source_shapes(layer: Layer, shapes: dict[str, Shape]) -> list[Shape]:
    for source in layer.sources:
        if source not in shapes:
            raise ModelError(
                f"layer {layer.name!r} reads {source!r}, which no layer before it writes"
            )
    return [shapes[source] for source in layer.sources]
