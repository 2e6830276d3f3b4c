"""The real onnx2tf, if it is installed in the user's cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.arrays import filled
from reusebench.measured.runtimes.base import InputData, Memory
from reusebench.models.errors import ConversionError
from reusebench.models.litert.environment import LiteRtConverter
from reusebench.models.recipe import OnnxFile, Recipe
from tests.models.litert.real_onnx2tf import REAL_ONNX2TF, opened

pytest.importorskip("ai_edge_litert")

pytestmark = REAL_ONNX2TF


@pytest.fixture(scope="module")
def converter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteRtConverter]:
    """Return the converter with a separate cache; one process serves all tests here."""
    with opened(LiteRtConverter, tmp_path_factory) as converter:
        yield converter


def _agree(source: Path, made: Path, inputs: tuple[InputData, ...]) -> list[tuple[int | str, ...]]:
    """Compare the outputs of both files with noise, in their order and shapes; return the shapes of
    the inputs.
    """
    session = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    expected = session.run(None, {tensor.name: filled(tensor) for tensor in inputs})
    runtime = open_runtime("litert")
    interface = runtime.interface(str(made))
    context = runtime.load(str(made), None, Memory())
    context.infer()
    outputs = context.outputs()
    assert len(outputs) == len(expected)
    for output, declared, wanted in zip(outputs, interface.outputs, expected):
        assert declared.dimensions == wanted.shape
        values = np.frombuffer(output, wanted.dtype).reshape(wanted.shape)
        assert np.abs(values - wanted).max() <= 1e-3 * np.abs(wanted).max()
    return [tensor.dimensions for tensor in interface.inputs]


@pytest.mark.parametrize(("name", "size"), [("tiny", 64), ("mobilenet_v2", 96), ("yolov5s", 64)])
def test_built_in_networks(converter: LiteRtConverter, name: str, size: int) -> None:
    """Noise gives the outputs of ONNX Runtime, in the order of the ONNX file; the picture has its
    channels last.
    """
    recipe = converter.recipe(Recipe(name, size, 1))
    (path,) = converter.ensure_all([recipe])
    assert _agree(converter.source(recipe), path, recipe.source.inputs) == [(1, size, size, 3)]


def _save(
    path: Path, nodes: list[onnx.NodeProto], inputs: list[InputData], outputs: list[str], free: bool
) -> OnnxFile:
    """Write a model of these nodes with a matrix "weights", and return it as a source."""
    weights = np.random.RandomState(0).rand(6, 4).astype(np.float32)
    declared = []
    for tensor in inputs:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.type))
        shape = [f"size{axis}" for axis in range(len(tensor.shape))] if free else tensor.shape
        declared.append(helper.make_tensor_value_info(tensor.name, kind, shape))
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(
        nodes, "made", declared, results, [onnx.numpy_helper.from_array(weights, "weights")]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path
    )
    return OnnxFile(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), tuple(inputs), free)


def test_several_inputs_and_outputs(converter: LiteRtConverter, tmp_path: Path) -> None:
    """Other inputs than pictures keep their shapes, indices their type; free sizes are fixed."""
    nodes = [
        helper.make_node("MatMul", ["signal", "weights"], ["projected"]),
        helper.make_node("Transpose", ["projected"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("Gather", ["weights", "rows"], ["taken"], axis=0),
    ]
    inputs = [InputData("signal", "float32", (1, 5, 6)), InputData("rows", "int64", (3,))]
    source = _save(tmp_path / "several.onnx", nodes, inputs, ["turned", "taken"], free=True)
    (path,) = converter.ensure_all([converter.recipe(source)])
    assert _agree(Path(source.path), path, source.inputs) == [(1, 5, 6), (3,)]


@pytest.mark.parametrize("free", [False, True])
def test_scalars(converter: LiteRtConverter, tmp_path: Path, free: bool) -> None:
    """A scalar becomes a tensor of one element, and the outputs are equal."""
    nodes = [
        helper.make_node("Mul", ["signal", "scale"], ["scaled"]),
        helper.make_node("MatMul", ["scaled", "weights"], ["product"]),
    ]
    inputs = [InputData("signal", "float32", (1, 5, 6)), InputData("scale", "float32", ())]
    source = _save(tmp_path / "scalars.onnx", nodes, inputs, ["product"], free)
    (path,) = converter.ensure_all([converter.recipe(source)])
    assert _agree(Path(source.path), path, source.inputs) == [(1, 5, 6), (1,)]


def test_what_cannot_be_converted(converter: LiteRtConverter, tmp_path: Path) -> None:
    """The error has the converter's message."""
    nodes = [helper.make_node("Unknown", ["signal"], ["result"], domain="com.example")]
    source = _save(
        tmp_path / "unknown.onnx",
        nodes,
        [InputData("signal", "float32", (2, 6))],
        ["result"],
        free=False,
    )
    with pytest.raises(ConversionError) as refused:
        converter.ensure_all([converter.recipe(source)])
    assert "failed: " in refused.value.words
    assert len(refused.value.words) > len("onnx2tf failed: ")
