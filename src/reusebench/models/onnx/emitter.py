"""Writes a network as an ONNX file: fp32, opset 13, batch 1.

Only the building process imports this: it imports numpy and onnx, which the harness must not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper

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
from reusebench.models.networks.network import INPUT_NAME, Network
from reusebench.models.networks.weights import draw_weights

__all__ = ["emit"]

#: Old enough for ONNX Runtime 1.16, the oldest supported version; newer ones read it too.
_OPSET = 13
_IR_VERSION = 8


def emit(network: Network, seed: int, path: Path) -> None:
    """Write the network, with the weights of the seed, to `path`; raise OSError if that fails.

    The input is INPUT_NAME, pixels in [0, 1]; every tensor has the name of the layer that writes
    it. Equal network, seed and numpy version give equal bytes.
    """
    graph = _Graph()
    for layer in network.layers:
        graph.add(layer)
    for weights in draw_weights(network, seed):
        graph.constant(f"{weights.layer}.weight", weights.weight)
        graph.constant(f"{weights.layer}.bias", weights.bias)
    model = helper.make_model(
        graph.finish(network),
        producer_name="reusebench",
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    path.write_bytes(model.SerializeToString(deterministic=True))


class _Graph:
    """An ONNX graph while its layers are added."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = {}

    def constant(self, name: str, values: npt.NDArray[np.float32]) -> str:
        """Store values as raw bytes, once per name, and return the name."""
        if name not in self._constants:
            raw = values.astype("<f4", copy=False).tobytes()
            self._constants[name] = helper.make_tensor(
                name, TensorProto.FLOAT, values.shape, raw, raw=True
            )
        return name

    def finish(self, network: Network) -> GraphProto:
        """Return the graph between the network's input and its outputs."""
        shapes = network.shapes()
        values = {
            name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name])
            for name in (INPUT_NAME, *network.outputs)
        }
        return helper.make_graph(
            self._nodes,
            network.name,
            [values[INPUT_NAME]],
            [values[name] for name in network.outputs],
            list(self._constants.values()),
        )

    @singledispatchmethod
    def add(self, layer: Layer) -> None:
        """Append the nodes that write layer.name."""
        raise TypeError(f"ONNX emitter: unknown layer kind {type(layer).__name__}")

    @add.register
    def _convolution(self, layer: Convolution) -> None:
        result = _before_activation(layer.name, layer.activation)
        window = _window(layer.kernel, layer.stride, layer.padding)
        self._node(
            "Conv", [layer.source, *_parameters(layer)], result, group=layer.groups, **window
        )
        self._activate(layer.activation, result, layer.name)

    @add.register
    def _fully_connected(self, layer: FullyConnected) -> None:
        self._node("Gemm", [layer.source, *_parameters(layer)], layer.name, transB=1)

    @add.register
    def _max_pool(self, layer: MaxPool) -> None:
        self._node(
            "MaxPool",
            [layer.source],
            layer.name,
            **_window(layer.kernel, layer.stride, layer.padding),
        )

    @add.register
    def _global_average_pool(self, layer: GlobalAveragePool) -> None:
        pooled = f"{layer.name}.map"
        self._node("GlobalAveragePool", [layer.source], pooled)
        self._node("Flatten", [pooled], layer.name, axis=1)

    @add.register
    def _upsample(self, layer: Upsample) -> None:
        factors = np.array([1, 1, layer.factor, layer.factor], dtype=np.float32)
        scales = self.constant(f"{layer.name}.scales", factors)
        # The empty name is the region of interest, which nearest neighbour does not need.
        self._node(
            "Resize",
            [layer.source, "", scales],
            layer.name,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    @add.register
    def _add(self, layer: Add) -> None:
        result = _before_activation(layer.name, layer.activation)
        self._node("Add", layer.sources, result)
        self._activate(layer.activation, result, layer.name)

    @add.register
    def _concat(self, layer: Concat) -> None:
        self._node("Concat", layer.sources, layer.name, axis=1)

    def _activate(self, activation: Activation, source: str, result: str) -> None:
        """Append the activation from `source` to `result`; for NONE both names are equal."""
        if activation is Activation.RELU:
            self._node("Relu", [source], result)
        elif activation is Activation.RELU6:
            low = self.constant("relu6.low", np.array(0, dtype=np.float32))
            high = self.constant("relu6.high", np.array(6, dtype=np.float32))
            self._node("Clip", [source, low, high], result)
        elif activation is Activation.SIGMOID:
            self._node("Sigmoid", [source], result)
        elif activation is Activation.SILU:
            self._node("Sigmoid", [source], f"{result}.sigmoid")
            self._node("Mul", [source, f"{result}.sigmoid"], result)

    def _node(self, operator: str, sources: Sequence[str], result: str, **attributes: Any) -> None:
        self._nodes.append(helper.make_node(operator, sources, [result], name=result, **attributes))


def _before_activation(name: str, activation: Activation) -> str:
    return name if activation is Activation.NONE else f"{name}.sum"


def _parameters(layer: Layer) -> tuple[str, str]:
    return f"{layer.name}.weight", f"{layer.name}.bias"


def _window(kernel: int, stride: int, padding: int) -> dict[str, list[int]]:
    return {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
