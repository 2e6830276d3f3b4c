"""The contents of .onnx files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from reusebench.models.errors import ModelError
from reusebench.models.inspection import inspect
from reusebench.models.inspection.contents import (
    ExternalFile,
    Function,
    Inspection,
    OnnxFacts,
    Operator,
    Tensor,
    Weights,
)
from tests.models.inspection.onnx_models import constant, save_model, value


def _facts(inspection: Inspection) -> OnnxFacts:
    assert isinstance(inspection.facts, OnnxFacts)
    return inspection.facts


def _convolution(tmp_path: Path) -> Path:
    """A network with free sizes, metadata, and a weight that is also declared as an input."""
    return save_model(
        tmp_path / "net.onnx",
        [
            helper.make_node("Conv", ["images", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Relu", ["r"], ["y"]),
        ],
        [value("images", ("batch", 3, None, 32)), value("w", (8, 3, 3, 3))],
        [value("y", ("batch", 8, None, 32))],
        [constant("w", 8, 3, 3, 3)],
        metadata={"imgsz": "[320, 320]"},
    )


def test_tensors_weights_and_operators(tmp_path: Path) -> None:
    """Free sizes keep their names, a weight is no input, operators come with the most frequent
    first.
    """
    path = _convolution(tmp_path)
    inspection = inspect(path)
    assert inspection.size_bytes == path.stat().st_size
    assert inspection.inputs == (Tensor("images", "float32", ("batch", 3, "", 32)),)
    assert inspection.outputs == (Tensor("y", "float32", ("batch", 8, "", 32)),)
    assert inspection.weights == (Weights("float32", 1, 864),)
    assert inspection.weight_bytes == 864
    assert inspection.operators == (Operator("", "Relu", 2), Operator("", "Conv", 1))
    facts = _facts(inspection)
    assert (facts.ir_version, facts.opsets, facts.producer) == (8, {"": 17}, "test")
    assert facts.metadata == inspection.interface.metadata == {"imgsz": "[320, 320]"}


def test_it_declares_what_onnxruntime_declares(tmp_path: Path) -> None:
    """A session has the same names, sizes and order of inputs and outputs."""
    path = _convolution(tmp_path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    interface = inspect(path).interface
    for declared, tensors in (
        (interface.inputs, session.get_inputs()),
        (interface.outputs, session.get_outputs()),
    ):
        assert [(tensor.name, tensor.dimensions) for tensor in declared] == [
            (tensor.name, tuple(size or "" for size in tensor.shape)) for tensor in tensors
        ]


def test_inputs_of_every_kind(tmp_path: Path) -> None:
    """Types are numpy's; an optional tensor is a tensor; a sequence or a map says so, and has no
    sizes.
    """
    tensor = helper.make_tensor_type_proto
    kinds = {
        "half": tensor(TensorProto.FLOAT16, ()),
        "text": tensor(TensorProto.STRING, (2,)),
        "brain": tensor(TensorProto.BFLOAT16, (-1,)),
        "any_rank": tensor(TensorProto.DOUBLE, None),
        "optional": helper.make_optional_type_proto(tensor(TensorProto.INT64, (3,))),
        "sequence": helper.make_sequence_type_proto(tensor(TensorProto.FLOAT, None)),
        "later": helper.make_optional_type_proto(
            helper.make_sequence_type_proto(tensor(TensorProto.INT32, None))
        ),
        "map": helper.make_map_type_proto(TensorProto.STRING, tensor(TensorProto.FLOAT, None)),
    }
    inputs = [helper.make_value_info(name, kind) for name, kind in kinds.items()]
    path = save_model(tmp_path / "kinds.onnx", [], inputs, [])
    assert inspect(path).inputs == (
        Tensor("half", "float16", ()),
        Tensor("text", "str", (2,)),
        Tensor("brain", "bfloat16", ("",)),
        Tensor("any_rank", "float64", None),
        Tensor("optional", "int64", (3,)),
        Tensor("sequence", "seq(tensor(float))", None),
        Tensor("later", "optional(seq(tensor(int32)))", None),
        Tensor("map", "map(string,tensor(float))", None),
    )


def test_weights_of_every_kind(tmp_path: Path) -> None:
    """Constants of operators and of subgraphs count, and types whose elements share bytes; the
    largest comes first.
    """
    packed = helper.make_tensor("packed", TensorProto.INT4, (3,), b"\0\0", raw=True)
    brain = helper.make_tensor("brain", TensorProto.BFLOAT16, (4,), bytes(8), raw=True)
    text = TensorProto(
        name="text", data_type=TensorProto.STRING, dims=[2], string_data=[b"ab", b"c"]
    )
    then = helper.make_graph(
        [helper.make_node("Identity", ["inner"], ["t"])],
        "then",
        [],
        [value("t")],
        [constant("inner", 100)],
    )
    path = save_model(
        tmp_path / "weights.onnx",
        [
            helper.make_node("Constant", [], ["k"], value=constant("k", 5, dtype=np.int64)),
            helper.make_node("If", ["condition"], ["y"], then_branch=then, else_branch=then),
        ],
        [value("condition", (), TensorProto.BOOL)],
        [value("y")],
        [
            packed,
            text,
            brain,
            constant("half", 9, dtype=np.float16),
            constant("flags", 7, dtype=np.bool_),
        ],
    )
    inspection = inspect(path)
    assert inspection.weights == (
        Weights("float32", 2, 800),
        Weights("int64", 1, 40),
        Weights("float16", 1, 18),
        Weights("bfloat16", 1, 8),
        Weights("bool", 1, 7),
        Weights("str", 1, 3),
        Weights("int4", 1, 2),
    )
    assert inspection.operators == (
        Operator("", "Identity", 2),
        Operator("", "Constant", 1),
        Operator("", "If", 1),
    )
    assert _facts(inspection).subgraphs == {"If": 2}


@pytest.mark.parametrize(
    ("operators", "ways"),
    [
        (["QuantizeLinear", "DequantizeLinear"], ("QDQ",)),
        (["DequantizeLinear"], ("weights",)),
        (["QLinearConv", "QuantizeLinear"], ("QDQ", "QOperator")),
        (["DynamicQuantizeLinear", "MatMulInteger"], ("dynamic",)),
        (["MatMulNBits", "DequantizeLinear"], ("weights",)),
        (["Conv"], ()),
    ],
)
def test_ways_of_quantising(tmp_path: Path, operators: list[str], ways: tuple[str, ...]) -> None:
    """Operators show the kinds of quantisation."""
    nodes = [helper.make_node(operator, [], []) for operator in operators]
    assert _facts(inspect(save_model(tmp_path / "q.onnx", nodes, [], []))).quantised == ways


def test_random_operators(tmp_path: Path) -> None:
    """Operators with random results are named once, also in branches."""
    branches = {}
    for name in ("then_branch", "else_branch"):
        node = helper.make_node("RandomUniform", [], [name], shape=[1])
        branches[name] = helper.make_graph([node], name, [], [value(name)])
    path = save_model(
        tmp_path / "random.onnx",
        [
            helper.make_node("RandomNormalLike", ["x"], ["a"]),
            helper.make_node("RandomNormalLike", ["a"], ["b"]),
            helper.make_node("If", ["choice"], ["c"], **branches),
            helper.make_node("Add", ["b", "c"], ["y"]),
        ],
        [value("x"), value("choice", (), TensorProto.BOOL)],
        [value("y")],
    )
    assert inspect(path).varying == ("RandomNormalLike", "RandomUniform")


@pytest.mark.parametrize(
    ("inputs", "varying"),
    [
        (["x"], ()),
        (["x", "ratio"], ()),
        (["x", "", "off"], ()),
        (["x", "", "on"], ("Dropout in training mode",)),
        (["x", "ratio", "given"], ("Dropout in training mode",)),
    ],
)
def test_dropout_is_random_only_in_training(
    tmp_path: Path, inputs: list[str], varying: tuple[str, ...]
) -> None:
    """Dropout passes its input on unless an input switches training on, or may do so."""
    path = save_model(
        tmp_path / "dropout.onnx",
        [helper.make_node("Dropout", inputs, ["y"])],
        [value("x"), value("given", (), TensorProto.BOOL)],
        [value("y")],
        [
            constant("ratio"),
            constant("off", dtype=np.bool_),
            onnx.numpy_helper.from_array(np.array(True), "on"),
        ],
    )
    assert inspect(path).varying == varying


def test_functions_and_domains(tmp_path: Path) -> None:
    """An operator that the file defines is one of its functions; both have their domain."""
    function = helper.make_function(
        "mine",
        "Twice",
        ["x"],
        ["y"],
        [helper.make_node("Add", ["x", "x"], ["y"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["y"], domain="mine"),
        helper.make_node("Odd", [], [], domain="theirs"),
    ]
    inspection = inspect(
        save_model(
            tmp_path / "f.onnx",
            nodes,
            [value("x")],
            [value("y")],
            (),
            [function],
            None,
            ["mine", "theirs"],
        )
    )
    assert _facts(inspection).functions == (Function("mine", "Twice", 1),)
    assert _facts(inspection).opsets == {"": 17, "mine": 1, "theirs": 1}
    assert set(inspection.operators or ()) == {
        Operator("mine", "Twice", 1),
        Operator("theirs", "Odd", 1),
        Operator("", "Add", 1),
    }


def test_external_files_are_not_read(tmp_path: Path) -> None:
    """Weights of 3 GB in another file count as the model says; a missing file has no size."""
    large = constant("large", 0)
    large.dims[:] = [750_000_000]
    onnx.external_data_helper.set_external_data(large, "large.bin", 4096, 3_000_000_000)
    small = constant("small", 1)
    onnx.external_data_helper.set_external_data(small, "small.bin")
    path = save_model(tmp_path / "large.onnx", [], [], [], [large, small])
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(3_000_004_096)
    inspection = inspect(path)
    assert inspection.weight_bytes == 3_000_000_004
    assert _facts(inspection).external_files == (
        ExternalFile("large.bin", 3_000_004_096, 3_000_004_096),
        ExternalFile("small.bin", None, 4),
    )


def test_texts_that_are_not_in_utf_8(tmp_path: Path) -> None:
    """Bytes that cannot be decoded are replaced, since such a file runs."""
    path = save_model(tmp_path / "gbk.onnx", [], [value("x")], [], metadata={"characters": "@@"})
    path.write_bytes(path.read_bytes().replace(b"@@", b"\xd6\xd0"))
    assert _facts(inspect(path)).metadata == {"characters": "\ufffd\ufffd"}


@pytest.mark.parametrize("content", [b"no model", b"\x08\x08", b"{}"])
def test_no_models(tmp_path: Path, content: bytes) -> None:
    """A file that is no ONNX model is refused with a message."""
    path = tmp_path / "no.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"no\.onnx is not an ONNX model, or is cut short"):
        inspect(path)


def test_a_model_that_is_cut_short(tmp_path: Path) -> None:
    """Half of a file is refused with the same message."""
    path = _convolution(tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ModelError, match="or is cut short"):
        inspect(path)
