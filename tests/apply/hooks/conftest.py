"""A folder with tiny models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def save_model(path: Path, *, operator: str = "MatMul", domain: str = "", seed: int = 0) -> None:
    """Save a model that multiplies rows by weights, and applies an operator to them."""
    weights = np.random.default_rng(seed).standard_normal((64, 64), dtype=np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["hidden"])]
    inputs = ["hidden", "w"] if operator == "MatMul" else ["hidden"]
    nodes.append(helper.make_node(operator, inputs, ["y"], domain=domain))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def save_large_model(path: Path) -> None:
    """Save convolutions with weights of more than a MiB, which is worth a prepared model."""
    weights = np.random.default_rng(2).standard_normal((128, 128, 5, 5), dtype=np.float32) / 60
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["hidden"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["hidden"], ["y"]),
    ]
    shape: list[str | int | None] = ["n", 128, "height", "width"]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 15)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(model, {"author": "nobody"})
    onnx.save(model, path)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models: one and two differ in weights, one is random, one is large."""
    folder = tmp_path_factory.mktemp("models")
    save_model(folder / "one.onnx")
    save_model(folder / "two.onnx", seed=1)
    save_model(folder / "random.onnx", operator="RandomUniformLike")
    save_large_model(folder / "large.onnx")
    return folder
