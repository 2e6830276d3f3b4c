"""Models of every kind on the real ONNX Runtime, each with one trait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from reusebench.measured.runtimes.base import (
    AdapterError,
    InputData,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
)
from reusebench.models.inputs.candidates import candidates

pytestmark = pytest.mark.process

_FLOAT = TensorProto.FLOAT
#: Width of weights that are too large to be kept inside the prepared graph.
_WIDE = 64
#: Newest version that the oldest supported ONNX Runtime, 1.16, reads.
_IR = 8

_Make = Callable[[Path], Path]


def _info(name: str, shape: Sequence[Any] | None, element: int = _FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def _weight(name: str, *shape: int, dtype: Any = np.float32) -> Any:
    values = np.random.default_rng(0).integers(-8, 8, shape)
    return numpy_helper.from_array(values.astype(dtype), name)


def _model(
    folder: Path,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: Sequence[Any] = (),
    *,
    opset: int = 17,
    **options: Any,
) -> Path:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializer=list(weights))
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, ir_version=_IR, opset_imports=domains), str(path), **options)
    return path


def _perceptron(folder: Path, opset: int = 17, element: int = _FLOAT, **options: Any) -> Path:
    """Return two products, with weights that are large enough to be shared."""
    dtype = np.float16 if element == TensorProto.FLOAT16 else np.float32
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("MatMul", ["positive", "v"], ["y"]),
    ]
    weights = [_weight("w", _WIDE, _WIDE, dtype=dtype), _weight("v", _WIDE, _WIDE, dtype=dtype)]
    ends = [_info(name, ["n", _WIDE], element) for name in "xy"]
    return _model(folder, nodes, ends[:1], ends[1:], weights, opset=opset, **options)


def _quantised_by_pairs(folder: Path) -> Path:
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    zero = numpy_helper.from_array(np.int8(0), "z")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    weights = [scale, zero, _weight("w", 32, 8, 3, 3, dtype=np.int8)]
    return _model(
        folder,
        nodes,
        [_info("x", ["n", 8, 16, 16])],
        [_info("y", ["n", 32, 14, 14])],
        weights,
    )


def _quantised_operators(folder: Path) -> Path:
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    zero = numpy_helper.from_array(np.uint8(0), "z")
    zero_of_weights = numpy_helper.from_array(np.int8(0), "zw")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node(
            "QLinearConv",
            ["xq", "s", "z", "w", "s", "zw", "s", "z"],
            ["cq"],
            kernel_shape=[3, 3],
        ),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    weights = [scale, zero, zero_of_weights, _weight("w", 32, 8, 3, 3, dtype=np.int8)]
    return _model(
        folder,
        nodes,
        [_info("x", ["n", 8, 16, 16])],
        [_info("y", ["n", 32, 14, 14])],
        weights,
    )


def _branches(folder: Path) -> Path:
    """Return weights inside both branches of an If, whose condition is a scalar input."""
    branches = []
    for number, name in enumerate(("then", "else")):
        product = helper.make_node("MatMul", ["x", f"w{number}"], [f"y{number}"])
        output = _info(f"y{number}", ["n", _WIDE])
        branches.append(
            helper.make_graph([product], name, [], [output], [_weight(f"w{number}", _WIDE, _WIDE)])
        )
    node = helper.make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [_info("x", ["n", _WIDE]), _info("flag", [], TensorProto.BOOL)]
    return _model(folder, [node], inputs, [_info("y", ["n", _WIDE])])


def _loop(folder: Path) -> Path:
    """Return a loop whose body has weights, and whose count is a scalar input."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            _info("i", [], TensorProto.INT64),
            _info("go", [], TensorProto.BOOL),
            _info("state", ["n", _WIDE]),
        ],
        [_info("on", [], TensorProto.BOOL), _info("next", ["n", _WIDE])],
        [_weight("w", _WIDE, _WIDE)],
    )
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    inputs = [_info("count", [], TensorProto.INT64), _info("x", ["n", _WIDE])]
    return _model(folder, [node], inputs, [_info("y", ["n", _WIDE])])


def _scan(folder: Path) -> Path:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "row"], ["total"]),
            helper.make_node("MatMul", ["total", "w"], ["out"]),
        ],
        "body",
        [_info("sum", [_WIDE]), _info("row", [_WIDE])],
        [_info("total", [_WIDE]), _info("out", [_WIDE])],
        [_weight("w", _WIDE, _WIDE)],
    )
    node = helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    inputs = [_info("start", [_WIDE]), _info("x", ["n", _WIDE])]
    return _model(folder, [node], inputs, [_info("last", [_WIDE]), _info("y", ["n", _WIDE])])


def _recurrent(folder: Path) -> Path:
    """Return an LSTM whose state comes in and goes out."""
    node = helper.make_node(
        "LSTM",
        ["x", "w", "r", "", "", "h", "c"],
        ["y", "hn", "cn"],
        hidden_size=_WIDE,
    )
    weights = [_weight("w", 1, 4 * _WIDE, 8), _weight("r", 1, 4 * _WIDE, _WIDE)]
    state = [1, "batch", _WIDE]
    inputs = [_info("x", ["time", "batch", 8]), _info("h", state), _info("c", state)]
    outputs = [_info("y", ["time", 1, "batch", _WIDE]), _info("hn", state), _info("cn", state)]
    return _model(folder, [node], inputs, outputs, weights)


def _cache(folder: Path) -> Path:
    """Return a step of a decoder, whose cache gets longer, with a mask as long as the new cache."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("Unsqueeze", ["x", "axis"], ["new"]),
        helper.make_node("Concat", ["past_key_values.key", "new"], ["present.key"], axis=2),
        helper.make_node("MatMul", ["present.key", "w"], ["y4"]),
        helper.make_node("ReduceMax", ["y4"], ["best"], axes=[1, 3], keepdims=0),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=_FLOAT),
        helper.make_node("Mul", ["best", "mask"], ["y"]),
    ]
    weights = [
        _weight("table", 2, _WIDE),
        _weight("w", _WIDE, _WIDE),
        numpy_helper.from_array(np.array([1]), "axis"),
    ]
    tokens = ["batch", "length"]
    both = ["batch", "past_length + length"]
    inputs = [
        _info("input_ids", tokens, TensorProto.INT64),
        _info("attention_mask", both, TensorProto.INT64),
        _info("past_key_values.key", ["batch", 1, "past_length", _WIDE]),
    ]
    outputs = [_info("y", both), _info("present.key", ["batch", 1, "past_length + length", _WIDE])]
    return _model(folder, nodes, inputs, outputs, weights, opset=13)


def _sequence_inside(folder: Path) -> Path:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=1),
    ]
    return _model(folder, nodes, [_info("x", ["n", _WIDE])], [_info("y", None)])


def _data_decide_the_size(folder: Path) -> Path:
    """Return an output whose size follows from the input's values."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    return _model(
        folder,
        nodes,
        [_info("x", ["n", _WIDE])],
        [_info("y", [2, "count"], TensorProto.INT64)],
    )


def _external_data(folder: Path) -> Path:
    return _perceptron(
        folder,
        save_as_external_data=True,
        location="weights.data",
        size_threshold=0,
    )


def _magic(folder: Path, domain: str) -> Path:
    """Return an operator that no runtime has."""
    node = helper.make_node("Magic", ["x"], ["y"], domain=domain)
    return _model(folder, [node], [_info("x", [1])], [_info("y", [1])])


_KINDS: dict[str, _Make] = {
    "opset 9": lambda folder: _perceptron(folder, opset=9),
    "newest opset": lambda folder: _perceptron(folder, opset=19),
    "float16": lambda folder: _perceptron(folder, element=TensorProto.FLOAT16),
    "quantised by pairs": _quantised_by_pairs,
    "quantised operators": _quantised_operators,
    "branches": _branches,
    "loop": _loop,
    "scan": _scan,
    "recurrent": _recurrent,
    "cache": _cache,
    "sequence inside": _sequence_inside,
    "size by data": _data_decide_the_size,
    "external data": _external_data,
}


def _inputs(runtime: Runtime, model: str) -> dict[str, InputData]:
    return {tensor.name: tensor for tensor in candidates(runtime.interface(model), {})[0]}


def _outputs(context: RuntimeContext) -> list[bytes]:
    context.infer()
    return [bytes(output) for output in context.outputs()]


@pytest.mark.parametrize("kind", _KINDS)
def test_every_mechanism_gives_equal_outputs(runtime: Runtime, tmp_path: Path, kind: str) -> None:
    """The model runs with assumed inputs; every mechanism gives the same bits each time."""
    model = str(_KINDS[kind](tmp_path))
    inputs = _inputs(runtime, model)
    expected = _outputs(runtime.load(model, None, Memory(), inputs))
    assert any(map(len, expected))
    preparation = runtime.prepare(model, "digest", str(tmp_path / "prepared"), lambda: None, inputs)
    assert preparation is not None
    prepared = preparation.path
    for memory in (Memory(), Memory(internal=0), Memory(zero_copy=("input", "output"))):
        source = runtime.load(model, prepared, memory, inputs)
        contexts = [runtime.load(model, None, memory, inputs), source, runtime.dup(source, memory)]
        assert [[_outputs(context) for _ in range(2)] for context in contexts] == [
            [expected] * 2
        ] * 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: _magic(folder, ""), "has the operator Magic, which ONNX Runtime"),
        (
            lambda folder: _magic(folder, "com.microsoft"),
            "has the operator com.microsoft:Magic, which ONNX Runtime",
        ),
        (lambda folder: _perceptron(folder, opset=99), "has Opset 99, and ONNX Runtime"),
    ],
)
def test_what_this_version_lacks(runtime: Runtime, tmp_path: Path, make: _Make, words: str) -> None:
    """A missing operator and a newer opset are named, with a remedy."""
    model = make(tmp_path)
    for call in (
        lambda: runtime.interface(str(model)),
        lambda: runtime.load(str(model), None, Memory()),
    ):
        with pytest.raises(AdapterError) as refusal:
            call()
        assert f"{model} {words}" in str(refusal.value)
        assert "Export it" in str(refusal.value)


def test_an_opset_that_is_too_old(runtime: Runtime, tmp_path: Path) -> None:
    """The remedy for an operator of opset 6 is a newer opset."""
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2])
    sides = [_info("x", [1, 3, 8, 8])], [_info("y", [1, 3, 7, 7])]
    model = _model(tmp_path, [node], *sides, opset=6)
    with pytest.raises(AdapterError, match="export it with a newer one") as refusal:
        runtime.interface(str(model))
    assert refusal.value.message.values["operator"] == "AveragePool"


def test_external_data_that_are_missing(runtime: Runtime, tmp_path: Path) -> None:
    """The file is named."""
    model = _external_data(tmp_path)
    (tmp_path / "weights.data").unlink()
    with pytest.raises(
        AdapterError,
        match=r"weights\.data, which does not exist. Copy that file into the model's folder",
    ):
        runtime.load(str(model), None, Memory())


def test_outputs_that_are_no_tensors(runtime: Runtime, tmp_path: Path) -> None:
    """A sequence comes out as it is; it cannot be bound, and the output is named."""
    node = helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0)
    output = helper.make_tensor_sequence_value_info("parts", _FLOAT, None)
    model = str(_model(tmp_path, [node], [_info("x", ["n", _WIDE])], [output]))
    inputs = _inputs(runtime, model)
    assert _outputs(runtime.load(model, None, Memory(), inputs))
    with pytest.raises(NotSupported, match=r"'parts' is seq\(tensor\(float\)\)"):
        runtime.load(model, None, Memory(zero_copy=("output",)), inputs)
