"""Rewrites a model whose converter takes no scalars: each scalar input gets one dimension of 1.

`python -m reusebench.models.conversion.scalars MODEL`; a separate process runs it, since it imports
onnx, which the harness must not. The model, a copy, is written over. A Squeeze gives the nodes
their scalar, also those in branches and loops.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

__all__ = ["rewrite"]

_SUFFIX = "_of_one_element"


def rewrite(path: Path) -> None:
    """Write the model again with inputs of one dimension in place of scalars.

    Each such input has a new name; the nodes know the scalar by the old one.
    """
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    for tensor in graph.input:
        kind = tensor.type.tensor_type
        is_scalar = kind.HasField("shape") and not kind.shape.dim
        if not is_scalar or tensor.name in constants:
            continue
        scalar = tensor.name
        tensor.name += _SUFFIX
        kind.shape.dim.add().dim_value = 1
        graph.node.insert(0, onnx.helper.make_node("Squeeze", [tensor.name], [scalar]))
    onnx.save(model, path)


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
