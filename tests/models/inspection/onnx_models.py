"""Small .onnx files with traits of real ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["constant", "save_model", "value"]

_Shape = Optional[Sequence[Union[int, str, None]]]


def value(name: str, shape: _Shape = (1,), kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return an input or output; a size of None has no name, a shape of None no sizes."""
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, *shape: int, dtype: npt.DTypeLike = np.float32) -> onnx.TensorProto:
    """Return an initializer of zeros."""
    return numpy_helper.from_array(np.zeros(shape, dtype), name)


def save_model(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    metadata: Optional[dict[str, str]] = None,
    domains: Sequence[str] = (),
) -> Path:
    """Write a model of opset 17 and IR version 8, and return its path."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(
        graph, opset_imports=opsets, functions=functions, producer_name="test"
    )
    model.ir_version = 8
    helper.set_model_props(model, metadata or {})
    path.write_bytes(model.SerializeToString())
    return path
