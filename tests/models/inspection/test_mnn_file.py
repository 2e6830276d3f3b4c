"""The contents of .mnn files that MNN's converter makes, if it is installed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from reusebench.measured.runtimes import find_runtime
from reusebench.models.errors import ModelError
from reusebench.models.inspection import inspect
from reusebench.models.inspection.applicability import mechanisms
from reusebench.models.inspection.contents import Operator, OtherFacts, Tensor, Weights
from reusebench.models.mnn.environment import PACKAGE, MnnConverter
from reusebench.models.recipe import OnnxFile
from tests.helpers.support import Reusebench
from tests.measured.runtimes.mnn_models import write_custom

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not PACKAGE.installed(), reason="MNN is not installed"),
]


@pytest.fixture(scope="module")
def tiny(mnn_files: Callable[..., list[str]]) -> Path:
    """Return the smallest network."""
    return Path(mnn_files(("tiny", 64))[0])


def test_what_the_file_shows(tiny: Path) -> None:
    """Inputs with type, sizes and order, names of outputs, operators, weights by type, and who made
    it.
    """
    inspection = inspect(tiny)
    assert inspection.inputs == (Tensor("images", "float32", (1, 3, 64, 64), "NCHW"),)
    assert inspection.outputs == (Tensor("fc", None, None),)
    assert inspection.facts == OtherFacts(
        {"format": "MNN", "made by": f"MNN's converter {PACKAGE.version}, from ONNX"}
    )
    assert inspection.operators is not None
    assert Operator("", "Convolution", 5) in inspection.operators
    assert inspection.weights is not None
    (weights,) = (weights for weights in inspection.weights if weights.type == "float32")
    assert 0.9 * tiny.stat().st_size < weights.size_bytes < tiny.stat().st_size


def test_control_flow_and_constants(tmp_path: Path) -> None:
    """Operators and constants of inner graphs count; inputs are the model's alone, and may have
    free sizes.
    """
    helper = onnx.helper
    types = onnx.TensorProto
    branches = {}
    for name, values in (("then_branch", [1.0] * 6), ("else_branch", [2.0] * 6)):
        constant = helper.make_tensor(f"{name}_value", types.FLOAT, [1, 6], values)
        nodes = [
            helper.make_node("Constant", [], [f"{name}_constant"], value=constant),
            helper.make_node("Mul", ["x", f"{name}_constant"], [f"{name}_y"]),
        ]
        branches[name] = helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(f"{name}_y", types.FLOAT, None)]
        )
    inputs = [
        helper.make_tensor_value_info("choice", types.BOOL, []),
        helper.make_tensor_value_info("x", types.FLOAT, [1, "n"]),
    ]
    node = helper.make_node("If", ["choice"], ["y"], **branches)
    graph = helper.make_graph(
        [node], "choose", inputs, [helper.make_tensor_value_info("y", types.FLOAT, None)]
    )
    source = tmp_path / "choose.onnx"
    path = tmp_path / "choose.mnn"
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), source
    )
    with MnnConverter() as converter:
        converter.write(converter.recipe(OnnxFile(str(source), "0" * 64, (), True)), path)
    inspection = inspect(path)
    assert {tensor.name: tensor.dimensions for tensor in inspection.inputs} == {
        "choice": (),
        "x": (1, ""),
    }
    assert inspection.operators is not None
    assert {("If", 1), ("BinaryOp", 2)} <= {
        (operator.name, operator.count) for operator in inspection.operators
    }
    assert inspection.weights == (Weights("float32", 2, 2 * 6 * 4),)


def test_random_operators(tmp_path: Path) -> None:
    """Operators with random results are named."""
    helper = onnx.helper
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 6]) for name in "xy"]
    nodes = [
        helper.make_node("RandomNormal", [], ["r"], shape=[1, 6]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "random", values[:1], values[1:])
    source = tmp_path / "random.onnx"
    path = tmp_path / "random.mnn"
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), source)
    with MnnConverter() as converter:
        converter.write(converter.recipe(OnnxFile(str(source), "0" * 64, (), True)), path)
    assert inspect(path).varying == ("RandomNormal",)


def test_operators_of_the_user(tmp_path: Path) -> None:
    """An operator that an application brings has its own name, and is a hindrance."""
    found = inspect(write_custom(tmp_path, "MyOp"))
    assert found.operators == (Operator("custom", "MyOp", 1),)
    (words,) = found.hindrances
    assert "MyOp" in words


def test_damaged_files(tiny: Path, tmp_path: Path) -> None:
    """A file with wrong bytes, or cut short, is read or refused with a message."""
    content = tiny.read_bytes()
    path = tmp_path / "damaged.mnn"
    generator = random.Random(1)
    refused = 0
    for number in range(200):
        # Tables stand at both ends, weights between them.
        damaged = bytearray(content if number % 2 else content[: generator.randrange(len(content))])
        for _ in range(20):
            distance = generator.randrange(min(2000, len(damaged)) or 1)
            if damaged:
                damaged[distance if generator.random() < 0.5 else -1 - distance] = (
                    generator.randrange(256)
                )
        path.write_bytes(damaged or b"\0")
        try:
            inspect(path)
        except ModelError:
            refused += 1
    assert refused > 100


def test_answers_are_those_of_the_adapter(tiny: Path, reusebench: Reusebench) -> None:
    """Features that MNN lacks are refused with the adapter's message, which the command shows."""
    answers = {
        mechanism.scenario: mechanism
        for mechanism in mechanisms(inspect(tiny), find_runtime("mnn"))
    }
    assert not answers["external_internal"].applies
    assert "takes no allocator" in answers["external_internal"].remark
    assert answers["full_dup"].applies
    shown = reusebench("models", "inspect", tiny)
    assert shown.exit_code == 0
    assert f"MNN's converter {PACKAGE.version}, from ONNX" in shown.out
