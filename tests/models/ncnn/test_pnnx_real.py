"""The real pnnx, if it is installed in the user's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.arrays import filled
from reusebench.measured.runtimes.base import InputData, Memory
from reusebench.models.built_files import is_intact
from reusebench.models.errors import ModelError
from reusebench.models.ncnn.environment import PNNX, NcnnConverter
from reusebench.models.recipe import OnnxFile, Recipe

pytest.importorskip("ncnn")

#: The user's own, looked up before a test has a cache of its own.
_FOLDER = PNNX.folder()

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not PNNX.installed(),
        reason=f"{_FOLDER} is not there: run `reusebench models install pnnx` to test it",
    ),
]


@pytest.fixture
def converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NcnnConverter]:
    """Return the converter with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    PNNX.folder().parent.mkdir(parents=True)
    PNNX.folder().symlink_to(_FOLDER)
    with NcnnConverter() as converter:
        yield converter


def _agree(
    model: Path, param: Path, inputs: list[InputData]
) -> list[tuple[str, tuple[int | str, ...]]]:
    """Compare the outputs of both files, in their order; return what the converted one declares of
    its inputs.
    """
    fed = {tensor.name: filled(tensor) for tensor in inputs}
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    expected = session.run(None, fed)
    runtime = open_runtime("ncnn")
    declared = runtime.interface(str(param)).inputs
    given = {
        tensor.name: InputData(tensor.name, tensor.type, tensor.shape, one.value)
        for tensor, one in zip(declared, inputs)
    }
    context = runtime.load(str(param), None, Memory(), given)
    context.infer()
    outputs = [np.frombuffer(output, np.float32) for output in context.outputs()]
    assert len(outputs) == len(expected)
    for output, wanted in zip(outputs, expected):
        scale = np.abs(wanted).max()
        assert np.abs(output - wanted.reshape(-1)).max() < 1e-3 * scale
    return [(tensor.name, tensor.dimensions) for tensor in declared]


@pytest.mark.parametrize(("name", "size"), [("tiny", 64), ("mobilenet_v2", 96)])
def test_built_in_networks(converter: NcnnConverter, name: str, size: int) -> None:
    """Outputs equal ONNX Runtime's, the file has the sizes of its inputs, and both files are
    cached.
    """
    recipe = converter.recipe(Recipe(name, size, 1))
    (path,) = converter.ensure_all([recipe])
    assert is_intact(path)
    assert path.with_suffix(".bin").stat().st_size > Recipe(name, size, 1).network().weight_bytes()
    assert _agree(converter.source(recipe), path, list(recipe.source.inputs)) == [
        ("in0", (1, 3, size, size))
    ]
    before = path.stat().st_mtime_ns
    path.with_suffix(".bin").write_bytes(b"damaged")
    assert converter.ensure_all([recipe]) == [path]
    assert path.stat().st_mtime_ns > before


def _save(
    path: Path, nodes: list[onnx.NodeProto], inputs: list[InputData], outputs: list[str]
) -> OnnxFile:
    """Write a model of these nodes with a matrix "weights", and return it as a source."""
    weights = np.random.RandomState(0).rand(6, 4).astype(np.float32)
    declared = []
    for tensor in inputs:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.type))
        declared.append(helper.make_tensor_value_info(tensor.name, element, tensor.shape))
    graph = helper.make_graph(
        nodes,
        "graph",
        declared,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    onnx.save(model, str(path))
    return OnnxFile(str(path), path.stem, tuple(inputs), has_free_sizes=False)


def test_inputs_and_outputs_keep_their_order(converter: NcnnConverter, tmp_path: Path) -> None:
    """They are numbered in the order of the ONNX file, whatever their names; what pnnx takes for no
    batch stays.
    """
    inputs = [InputData("z", "float32", (1, 5, 6)), InputData("a", "float32", (1, 5, 4))]
    nodes = [
        helper.make_node("MatMul", ["z", "weights"], ["product"]),
        helper.make_node("Add", ["product", "a"], ["last"]),
        helper.make_node("Sigmoid", ["product"], ["first"]),
    ]
    source = _save(tmp_path / "order.onnx", nodes, inputs, ["last", "first"])
    beside = {file.name for file in tmp_path.iterdir()}
    (path,) = converter.ensure_all([converter.recipe(source)])
    assert _agree(tmp_path / "order.onnx", path, inputs) == [
        ("in0", (1, 1, 5, 6)),
        ("in1", (1, 1, 5, 4)),
    ]
    assert {file.name for file in tmp_path.iterdir()} == beside, (
        "pnnx leaves files beside the user's model"
    )


def test_scalars(converter: NcnnConverter, tmp_path: Path) -> None:
    """They become tensors of one element, those in use and those that no node reads."""
    inputs = [
        InputData("x", "float32", (1, 5, 6)),
        InputData("unused", "float32", ()),
        InputData("scale", "float32", (), value=3),
    ]
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("MatMul", ["scaled", "weights"], ["product"]),
        helper.make_node("Add", ["product", "scale"], ["y"]),
    ]
    source = _save(tmp_path / "scalars.onnx", nodes, inputs, ["y"])
    before = (tmp_path / "scalars.onnx").read_bytes()
    (path,) = converter.ensure_all([converter.recipe(source)])
    declared = _agree(tmp_path / "scalars.onnx", path, inputs)
    assert [dimensions for _, dimensions in declared[1:]] == [(1, 1), (1, 1)]
    assert (tmp_path / "scalars.onnx").read_bytes() == before


@pytest.mark.parametrize(
    ("node", "inputs", "words"),
    [
        (
            helper.make_node("NonZero", ["x"], ["y"]),
            [InputData("x", "float32", (1, 5, 6))],
            "pnnx failed: it leaves operators that ncnn lacks: ",
        ),
        (
            helper.make_node("Sigmoid", ["x"], ["y"]),
            [InputData("x", "float32", (1, 0, 6))],
            "input x is 1x0x6, and pnnx needs sizes of 1 or more",
        ),
        (
            helper.make_node("Not", ["x"], ["y"]),
            [InputData("x", "bool", (1, 5))],
            r"reading the inputs failed: pnnx takes no bool \(input x\)",
        ),
    ],
)
def test_what_cannot_be_converted(
    converter: NcnnConverter,
    tmp_path: Path,
    node: onnx.NodeProto,
    inputs: list[InputData],
    words: str,
) -> None:
    """The failure is named, nothing is left in the cache, and the next file is converted."""
    source = _save(tmp_path / "refused.onnx", [node], inputs, ["y"])
    with pytest.raises(ModelError, match=words):
        converter.ensure_all([converter.recipe(source)])
    assert converter.ensure_all([converter.recipe(Recipe("tiny", 64, 1))])[0].exists()


def test_no_model(converter: NcnnConverter, tmp_path: Path) -> None:
    """A file that is no model is refused with pnnx's message."""
    path = tmp_path / "no.onnx"
    path.write_bytes(b"no model")
    source = OnnxFile(
        str(path), "no", (InputData("x", "float32", (1, 3, 8, 8)),), has_free_sizes=False
    )
    with pytest.raises(ModelError, match="pnnx failed: "):
        converter.ensure_all([converter.recipe(source)])
