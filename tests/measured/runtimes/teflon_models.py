"""Small quantised models in LiteRT's format, of operators for the NPU and for the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
from ai_edge_litert import schema_py_generated as schema

__all__ = ["write_model"]

_TYPES = {"int8": schema.TensorType.INT8, "int32": schema.TensorType.INT32}
_CODES = {
    "CONV_2D": schema.BuiltinOperator.CONV_2D,
    "SOFTMAX": schema.BuiltinOperator.SOFTMAX,
    "MAX_POOL_2D": schema.BuiltinOperator.MAX_POOL_2D,
}
#: Scale and zero point: of tensors, of biases, and those that a softmax must have.
_SCALE = (0.02, 0)
_OF_BIASES = (0.0004, 0)
_OF_SOFTMAX = (1 / 256, -128)


class _Model:
    """A model under construction, of one subgraph per signature."""

    def __init__(self) -> None:
        # The first buffer belongs to tensors without data.
        self.buffers = [schema.BufferT()]
        self.graphs: list[Any] = []
        self.random = np.random.RandomState(0)

    def constant(self, values: Any) -> int:
        """Add a buffer and return its number."""
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def begin(self, name: str) -> None:
        """Add a subgraph, to which the next calls add."""
        graph = schema.SubGraphT()
        graph.name = name
        graph.tensors = []
        graph.operators = []
        self.graphs.append(graph)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        kind: str = "int8",
        buffer: int = 0,
        scale: tuple[float, int] = _SCALE,
    ) -> int:
        """Add a tensor and return its number."""
        quantisation = schema.QuantizationParametersT()
        quantisation.scale = [scale[0]]
        quantisation.zeroPoint = [scale[1]]
        tensor = schema.TensorT()
        tensor.name = name
        tensor.type = _TYPES[kind]
        tensor.shape = list(shape)
        tensor.buffer = buffer
        tensor.quantization = quantisation
        tensors = self.graphs[-1].tensors
        tensors.append(tensor)
        return len(tensors) - 1

    def operator(self, code: str, inputs: Sequence[int], output: int) -> None:
        """Add an operator."""
        operator = schema.OperatorT()
        operator.opcodeIndex = list(_CODES).index(code)
        operator.inputs = list(inputs)
        operator.outputs = [output]
        if code == "CONV_2D":
            options = schema.Conv2DOptionsT()
            options.padding = schema.Padding.SAME
            options.strideH = options.strideW = 1
            options.dilationHFactor = options.dilationWFactor = 1
            operator.builtinOptionsType = schema.BuiltinOptions.Conv2DOptions
        elif code == "SOFTMAX":
            options = schema.SoftmaxOptionsT()
            options.beta = 1.0
            operator.builtinOptionsType = schema.BuiltinOptions.SoftmaxOptions
        else:
            options = schema.Pool2DOptionsT()
            options.strideH = options.strideW = options.filterHeight = options.filterWidth = 1
            operator.builtinOptionsType = schema.BuiltinOptions.Pool2DOptions
        operator.builtinOptions = options
        self.graphs[-1].operators.append(operator)

    def write(self, path: Path) -> Path:
        """Write the model, with a signature for each subgraph."""
        model = schema.ModelT()
        model.version = 3
        model.description = "written by a test"
        model.operatorCodes = list(map(_code, _CODES.values()))
        model.subgraphs = self.graphs
        model.buffers = self.buffers
        model.signatureDefs = []
        for number, graph in enumerate(self.graphs):
            signature = schema.SignatureDefT()
            signature.signatureKey = graph.name
            signature.subgraphIndex = number
            signature.inputs = [_named(graph, number) for number in graph.inputs]
            signature.outputs = [_named(graph, number) for number in graph.outputs]
            model.signatureDefs.append(signature)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        path.write_bytes(builder.Output())
        return path


def write_model(
    path: Path,
    size: int = 16,
    channels: int = 16,
    layers: Sequence[str] = ("CONV_2D", "CONV_2D"),
    signatures: Sequence[str] = ("serving_default",),
    with_cpu_output: bool = False,
) -> Path:
    """Write a network of these operators, in their order, and return its path.

    Its input is a picture of 3 channels. The first layer must be a convolution; the signatures have
    the same weights. The NPU takes CONV_2D; the others stay on the CPU. With `with_cpu_output` the
    CPU copies the input to an output, which tells inputs apart on a virtual board, whose NPU
    computes nothing.
    """
    model = _Model()
    kernels: dict[int, tuple[int, int]] = {}
    for signature in signatures:
        model.begin(signature)
        tensor = first = model.tensor("images", (1, size, size, 3))
        maps = 3
        for number, code in enumerate(layers):
            inputs = [tensor]
            if code == "CONV_2D":
                shape = (channels, 3, 3, maps)
                if number not in kernels:
                    weights = model.random.randint(-127, 127, shape).astype(np.int8)
                    biases = model.random.randint(-100, 100, channels).astype(np.int32)
                    kernels[number] = model.constant(weights), model.constant(biases)
                kernel, bias = kernels[number]
                inputs.append(model.tensor(f"w{number}", shape, buffer=kernel))
                inputs.append(model.tensor(f"b{number}", (channels,), "int32", bias, _OF_BIASES))
                maps = channels
            scale = _OF_SOFTMAX if code == "SOFTMAX" else _SCALE
            output = model.tensor(f"t{number}", (1, size, size, maps), scale=scale)
            model.operator(code, inputs, output)
            tensor = output
        model.graphs[-1].inputs = [first]
        model.graphs[-1].outputs = [tensor]
        if with_cpu_output:
            seen = model.tensor("seen", (1, size, size, 3))
            model.operator("MAX_POOL_2D", [first], seen)
            model.graphs[-1].outputs.append(seen)
    return model.write(path)


def _named(graph: Any, number: int) -> Any:
    named = schema.TensorMapT()
    named.name = graph.tensors[number].name
    named.tensorIndex = number
    return named


def _code(number: int) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode = number
    code.deprecatedBuiltinCode = number
    code.version = 2
    return code
