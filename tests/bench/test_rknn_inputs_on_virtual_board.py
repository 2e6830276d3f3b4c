"""Inputs of users' `.rknn` files on Rockchip's own libraries: small networks that rknn-toolkit2
converts here.

They run if the toolkit is installed in the user's cache (`reusebench models install rknn-toolkit`),
the libraries are in reusebench/rknn there, and the virtual board is installed for them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from reusebench.harness.errors import UnusableModel
from reusebench.harness.measuring.models.model_files import InputShape, ModelFile
from reusebench.harness.measuring.models.user_models import UserModels
from reusebench.measured.plan import Model
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.base import InputData
from reusebench.models.rknn.toolkit import TOOLKIT
from reusebench.targets.barriers import StepData
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.vboard.catalogue import rknn_board
from tests.bench.test_rknn_on_virtual_board import _LIBRARIES, Board, Walked, _walk
from tests.helpers.support import known

#: The user's own cache, read before any test has a cache of its own.
_PYTHON = TOOLKIT.python()

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not TOOLKIT.installed(),
        reason="rknn-toolkit2 is not there: run `reusebench models install rknn-toolkit`",
    ),
]

#: The newest libraries: for what the adapter does by itself, whatever the version is.
_newest = pytest.mark.parametrize(
    "board",
    [param for param in _LIBRARIES if all(mark.name != "slow" for mark in param.marks)],
    indirect=True,
)
_TIME_LIMIT_S = 60.0
_SHAPES = ((1, 3, 96, 96), (1, 3, 64, 64), (1, 3, 32, 48))
_CONVERT = dedent("""
    import json, sys
    from rknn.api import RKNN
    for job in json.loads(sys.argv[1]):
        rknn = RKNN(verbose=False)
        steps = [
            rknn.config(target_platform=job["platform"], **job["options"]),
            rknn.load_onnx(job["onnx"]),
            rknn.build(do_quantization=job["data"] is not None, dataset=job["data"]),
            rknn.export_rknn(job["output"]),
        ]
        assert steps == [0] * 4, steps
        rknn.release()
""")


def _weights(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(
        np.random.default_rng(1).normal(0, 0.2, shape).astype(np.float32), name
    )


def _network(
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    output: Sequence[Any],
    nodes: Sequence[tuple[str, str, str]],
    constants: Sequence[TensorProto],
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a network whose nodes are operator, inputs and output; attributes are those of the
    convolutions.
    """
    made = []
    for operator, sources, target in nodes:
        own = attributes if operator == "Conv" else {}
        made.append(helper.make_node(operator, sources.split(), [target], **own))
    taken = [
        helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()
    ]
    given = [helper.make_tensor_value_info("out", TensorProto.FLOAT, output)]
    graph = helper.make_graph(made, "network", taken, given, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _picture_and_vector() -> onnx.ModelProto:
    inputs = {"image": (TensorProto.FLOAT, (1, 3, 32, 32)), "vector": (TensorProto.FLOAT, (1, 8))}
    nodes = [
        ("Conv", "image w", "a"),
        ("Gemm", "vector v", "b"),
        ("Reshape", "b shape", "c"),
        ("Add", "a c", "d"),
        ("Relu", "d", "out"),
    ]
    shape = numpy_helper.from_array(np.array([1, 8, 1, 1]), "shape")
    constants = [_weights("w", 8, 3, 3, 3), _weights("v", 8, 8), shape]
    return _network(inputs, (1, 8, 32, 32), nodes, constants, pads=[1] * 4)


def _tokens() -> onnx.ModelProto:
    nodes = [("Gather", "table tokens", "a"), ("MatMul", "a w", "b"), ("Relu", "b", "out")]
    constants = [_weights("table", 10, 32), _weights("w", 32, 24)]
    return _network({"tokens": (TensorProto.INT64, (1, 8))}, (1, 8, 24), nodes, constants)


def _features() -> onnx.ModelProto:
    nodes = [("Conv", "x w", "a"), ("Relu", "a", "out")]
    inputs = {"x": (TensorProto.FLOAT, (1, 32, 8, 8))}
    return _network(inputs, (1, 8, 8, 8), nodes, [_weights("w", 8, 32, 3, 3)], pads=[1] * 4)


def _any_size() -> onnx.ModelProto:
    nodes = [("Conv", "image w", "a"), ("Relu", "a", "out")]
    inputs = {"image": (TensorProto.FLOAT, (1, 3, "h", "w"))}
    return _network(inputs, (1, 8, "h", "w"), nodes, [_weights("w", 8, 3, 3, 3)], pads=[1] * 4)


#: Network, chip, whether it is INT8, options of the toolkit.
_FILES: dict[str, tuple[onnx.ModelProto, str, bool, dict[str, Any]]] = {
    "two": (_picture_and_vector(), "rk3588", False, {}),
    "tokens": (_tokens(), "rk3588", False, {}),
    "features": (_features(), "rk3588", True, {}),
    "dynamic": (_any_size(), "rk3588", False, {"dynamic_input": [[shape] for shape in _SHAPES]}),
    "mini_dynamic": (
        _any_size(),
        "rv1106",
        True,
        {"dynamic_input": [[shape] for shape in _SHAPES]},
    ),
    "mini_two": (_picture_and_vector(), "rv1106", True, {}),
    "mini_features": (_features(), "rv1106", True, {}),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the files, converted in one process of the toolkit."""
    folder = tmp_path_factory.mktemp("files")
    jobs = []
    for name, (network, platform, is_int8, options) in _FILES.items():
        onnx.save(network, folder / f"{name}.onnx")
        data = _calibration(folder, name, network) if is_int8 else None
        job = {
            "platform": platform,
            "options": options,
            "onnx": str(folder / f"{name}.onnx"),
            "data": data,
        }
        jobs.append({**job, "output": str(folder / f"{name}.rknn")})
    command = [str(_PYTHON), "-c", _CONVERT, json.dumps(jobs)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: folder / f"{name}.rknn" for name in _FILES}


def _calibration(folder: Path, name: str, network: onnx.ModelProto) -> str:
    """Write one sample of noise; return the list that names it."""
    paths = []
    for tensor in network.graph.input:
        sizes = [size.dim_value for size in tensor.type.tensor_type.shape.dim]
        shape = sizes if all(sizes) else _SHAPES[0]
        paths.append(folder / f"{name}-{tensor.name}.npy")
        np.save(paths[-1], np.random.default_rng(1).random(shape, np.float32))
    (folder / f"{name}.txt").write_text(" ".join(map(str, paths)) + "\n")
    return str(folder / f"{name}.txt")


@pytest.fixture(params=_LIBRARIES)
def board(request: pytest.FixtureRequest) -> Board:
    """Return one library after the other, on the virtual board."""
    library, chip = request.param
    missing = rknn_board(library).missing_parts()
    if missing:
        pytest.skip(
            f"the virtual board is not ready for {library.path}: {', '.join(missing)} missing"
        )
    return Board(
        library, parse_target(Selection(f"vboard:{chip}", library.path), find_runtime("rknn")), ()
    )


def _model(board: Board, file: Path, *shapes: InputShape, arrays: Path | None = None) -> Model:
    """Return the user's model as the harness reads it."""
    models = UserModels({"rknn": board.target}, _TIME_LIMIT_S, shapes, arrays)
    (model,) = models.of(find_runtime("rknn"), [ModelFile(file)])
    return model


def _walked(board: Board, model: Model, scenario: str) -> Walked:
    walked = _walk(replace(board, models=(model, model)), scenario)
    assert walked.run.failure is None, walked.run.failure
    assert walked.account.left_bytes == 0
    return walked


def _first_inference(walked: Walked) -> StepData:
    return walked.barrier("first_inference", 0).data


def _prefix(board: Board) -> str:
    return "mini_" if board.is_mini else ""


@_newest
def test_a_picture_and_a_vector(board: Board, files: dict[str, Path]) -> None:
    """Pixels and numbers are inputs; each counts with the application's bytes, and none is copied
    in place.
    """
    model = _model(board, files[f"{_prefix(board)}two"])
    vector = InputData("vector", "float32", (1, 8))
    assert model.inputs == (InputData("image", "uint8", (1, 32, 32, 3)), vector)
    copies = _first_inference(_walked(board, model, "in_turn")).copies
    # The mini runtime has no call that converts: there the vector is INT8.
    assert known(copies).input_bytes == 32 * 32 * 3 + 8 * (1 if board.is_mini else 4)
    assert known(_first_inference(_walked(board, model, "external_memory")).copies).input_bytes == 0


def test_indices_and_dup(board: Board, files: dict[str, Path]) -> None:
    """A table gets valid indices; a dup of such a model shares the weights."""
    if board.is_mini:
        pytest.skip("the mini runtime has no Gather of 64-bit indices")
    walked = _walked(board, _model(board, files["tokens"]), "full_dup")
    assert set(walked.shared()) == {(0, (1,))}
    assert known(_first_inference(walked).copies).input_bytes == 8 * 8


@_newest
def test_data_in_the_order_of_onnx(
    board: Board, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Channels come first, as in the ONNX file, copied and in place; the mini runtime's own order
    is named.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(1).random((1, 32, 8, 8), np.float32))
    file = files[f"{_prefix(board)}features"]
    if board.is_mini:
        with pytest.raises(UnusableModel, match="in an order of its own"):
            _model(board, file, arrays=tmp_path / "data.npz")
        return
    model = _model(board, file, arrays=tmp_path / "data.npz")
    (data,) = model.inputs
    assert (data.type, data.shape) == ("float32", (1, 8, 8, 32))
    for scenario in ("in_turn", "external_memory"):
        _walked(board, model, scenario)


def test_dynamic_shapes(board: Board, files: dict[str, Path]) -> None:
    """The largest shape is assumed, and another one can be chosen; a shape that the file lacks is
    refused.
    """
    if board.is_mini:
        with pytest.raises(UnusableModel, match="incompatible model version"):
            _model(board, files["mini_dynamic"])
        return
    model = _model(board, files["dynamic"])
    assert model.name == "dynamic 1x96x96x3"
    assert model.inputs == (InputData("image", "uint8", (1, 96, 96, 3), assumed=(1, 2)),)
    copies = [_first_inference(_walked(board, model, "internal_reuse")).copies]
    model = _model(board, files["dynamic"], InputShape("image", (1, 3, 64, 64)))
    assert model.inputs == (InputData("image", "uint8", (1, 64, 64, 3)),)
    copies.append(_first_inference(_walked(board, model, "in_turn")).copies)
    _walked(board, model, "external_memory")
    # One output element of float16 in 8 channels for each pixel.
    pixels = [96 * 96, 64 * 64]
    assert [(known(one).input_bytes, known(one).output_bytes) for one in copies] == [
        (3 * count, 2 * 8 * count) for count in pixels
    ]
    with pytest.raises(
        UnusableModel,
        match="allows these shapes alone: image=1x96x96x3, image=1x64x64x3, image=1x32x",
    ):
        _model(board, files["dynamic"], InputShape("image", (1, 50, 50, 3)))
