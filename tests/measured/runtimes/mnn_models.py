"""Small models in MNN's format that reusebench's own converter would refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx

__all__ = ["write_custom"]

_CONVERT = "import sys, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"


def write_custom(folder: Path, operator: str) -> Path:
    """Write a network of one operator of the user's own, and return its path."""
    helper = onnx.helper
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 6]) for name in "xy"]
    node = helper.make_node(operator, ["x"], ["y"], domain="own")
    graph = helper.make_graph([node], "custom", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    source = folder / "custom.onnx"
    path = folder / "custom.mnn"
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), source)
    options = ["-f", "ONNX", "--modelFile", source, "--MNNModel", path, "--allowCustomOp"]
    command = [sys.executable, "-c", _CONVERT, *map(str, options), "--bizCode", "reusebench"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return path
