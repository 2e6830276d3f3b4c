"""Small models in LiteRT's format, by the schema in its wheel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
from ai_edge_litert import schema_py_generated as schema

__all__ = ["write_model"]

_TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "float16": schema.TensorType.FLOAT16,
    "int32": schema.TensorType.INT32,
}
_CHANNELS = (3, 64, 128, 256)
_CODES = {
    "CONV_2D": schema.BuiltinOperator.CONV_2D,
    "DEQUANTIZE": schema.BuiltinOperator.DEQUANTIZE,
    "CUSTOM": schema.BuiltinOperator.CUSTOM,
}


class _Model:
    """A model under construction."""

    def __init__(self) -> None:
        self.graph = schema.SubGraphT()
        self.graph.tensors = []
        self.graph.operators = []
        # The first buffer belongs to tensors without data.
        self.buffers = [schema.BufferT()]
        self.tells_rank = True

    def tensor(self, name: str, kind: str, shape: Sequence[int], values: Any = None) -> int:
        """Add a tensor, which is a constant if it has values; return its number."""
        tensor = schema.TensorT()
        tensor.name = name
        tensor.type = _TYPES[kind]
        tensor.shape = [max(size, 1) for size in shape]
        tensor.shapeSignature = list(shape)
        tensor.hasRank = self.tells_rank
        tensor.buffer = 0
        if values is not None:
            tensor.buffer = len(self.buffers)
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(values.astype(kind).tobytes(), np.uint8)
            self.buffers.append(buffer)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def operator(self, code: str, inputs: Sequence[int], output: int, options: Any = None) -> None:
        """Add an operator."""
        operator = schema.OperatorT()
        operator.opcodeIndex = list(_CODES).index(code)
        operator.inputs = list(inputs)
        operator.outputs = [output]
        if options is not None:
            operator.builtinOptionsType = schema.BuiltinOptions.Conv2DOptions
            operator.builtinOptions = options
        self.graph.operators.append(operator)

    def write(self, path: Path, inputs: list[int], outputs: list[int], custom: str) -> Path:
        """Write the model."""
        self.graph.inputs = inputs
        self.graph.outputs = outputs
        model = schema.ModelT()
        model.version = 3
        model.description = "written by a test"
        model.operatorCodes = [_code(number, custom) for number in _CODES.values()]
        model.subgraphs = [self.graph]
        model.buffers = self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        path.write_bytes(builder.Output())
        return path


def write_model(
    path: Path,
    size: int,
    seed: int = 0,
    weights: str = "float32",
    custom: str = "",
    state: bool = False,
    rank: bool = True,
) -> Path:
    """Write a network of three convolutions, with 1.5 MB of weights, and return its path.

    It takes pictures of `size`, and of any size if that is 0. The weights may be "float16", and the
    last operator a custom one, or have a variable tensor beside it, which stays from inference to
    inference. Without `rank` tensors do not tell that they have one, as before TensorFlow 2.10.
    """
    model = _Model()
    model.tells_rank = rank
    random = np.random.RandomState(seed)
    side = size or -1
    tensor = images = model.tensor("images", "float32", (1, side, side, _CHANNELS[0]))
    for number, (channels, maps) in enumerate(zip(_CHANNELS, _CHANNELS[1:])):
        side = side // 2 if size else -1
        shape = (maps, 3, 3, channels)
        kernel = model.tensor(f"w{number}", weights, shape, random.randn(*shape) / (3 * channels))
        if weights != "float32":
            packed = kernel
            kernel = model.tensor(f"u{number}", "float32", shape)
            model.operator("DEQUANTIZE", [packed], kernel)
        bias = model.tensor(f"b{number}", "float32", (maps,), random.randn(maps))
        output = model.tensor(f"c{number}", "float32", (1, side, side, maps))
        options = schema.Conv2DOptionsT()
        options.padding = schema.Padding.SAME
        options.strideH = 2
        options.strideW = 2
        options.fusedActivationFunction = schema.ActivationFunctionType.RELU
        model.operator("CONV_2D", [tensor, kernel, bias], output, options)
        tensor = output
    if custom:
        output = model.tensor("custom", "float32", (1, side, side, _CHANNELS[-1]))
        model.operator("CUSTOM", [tensor], output)
        tensor = output
    if state:
        number = model.tensor("state", "float32", (1, 4))
        model.graph.tensors[number].isVariable = True
    return model.write(path, [images], [tensor], custom)


def _code(number: int, custom: str) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode = number
    code.deprecatedBuiltinCode = min(number, 127)
    code.version = 1
    if number == schema.BuiltinOperator.CUSTOM:
        code.customCode = custom
    return code
