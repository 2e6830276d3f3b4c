"""The real rknn-toolkit2, if it is installed in the user's cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from reusebench.measured.runtimes.base import InputData
from reusebench.models.errors import ModelError
from reusebench.models.recipe import OnnxFile, Recipe, RknnRecipe
from reusebench.models.rknn.toolkit import TOOLKIT, RknnConverter

#: The user's own, looked up before a test has a cache of its own.
_FOLDER = TOOLKIT.folder()

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not TOOLKIT.installed(),
        reason=f"{_FOLDER} is not there: run `reusebench models install rknn-toolkit` to test it",
    ),
]

_TINY = Recipe("tiny", 64, 1)
_MASTER = RknnRecipe(_TINY, "rk3588")
_SLAVE = RknnRecipe(_TINY, "rk3588", weightless=True)
_MINI = RknnRecipe(_TINY, "rv1106")


def _make(cache: Path) -> dict[RknnRecipe, bytes]:
    """Return every file, made in a new cache by a new process of the toolkit, which then fails to
    make another.
    """
    recipes = (_MASTER, _SLAVE, _MINI)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        TOOLKIT.folder().parent.mkdir(parents=True)
        TOOLKIT.folder().symlink_to(_FOLDER)
        no_model = cache / "no.onnx"
        output = cache / "out.rknn"
        no_model.write_bytes(b"no model")
        with RknnConverter() as converter:
            paths = converter.ensure_all(recipes)
            with pytest.raises(
                ModelError, match=r"load_onnx failed: .*DecodeError: Error parsing message$"
            ):
                converter.convert(_MASTER, no_model, output)
        assert not output.exists()
    return {recipe: path.read_bytes() for recipe, path in zip(recipes, paths)}


def test_files_of_the_toolkit(tmp_path: Path) -> None:
    """They are Rockchip's and INT8, a slave lacks its weights, and repeated conversions give equal
    sizes.
    """
    first, second = (_make(tmp_path / name) for name in "ab")
    for content in first.values():
        assert content.startswith(b"RKNN")
        assert len(content) < _TINY.network().weight_bytes()
    # A slave keeps biases and commands.
    weights = sum(
        parameters.count - parameters.bias[0]
        for parameters in _TINY.network().parameters().values()
    )
    assert len(first[_MASTER]) - len(first[_SLAVE]) >= weights
    # The toolkit leaves uninitialised memory in its files, on rv1106 some lengths too.
    assert len(first[_MASTER]) == len(second[_MASTER])
    assert len(first[_SLAVE]) == len(second[_SLAVE])
    assert len(first[_MINI]) == pytest.approx(len(second[_MINI]), abs=128)


def _users_network(path: Path) -> None:
    """Write a convolution with free sizes except the channels; a vector is added to its output."""
    weights = onnx.numpy_helper.from_array(
        np.linspace(-1, 1, 216, dtype=np.float32).reshape(8, 3, 3, 3), "w"
    )
    nodes = [
        helper.make_node("Conv", ["picture", "w"], ["z"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["z"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Add", ["flat", "features"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["n", 3, "h", "w"]),
        helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 8]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializer=[weights])
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]),
        str(path),
    )


def test_a_users_network_of_free_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes INT8 and floating point, with a picture and a vector as inputs, whose names the
    files keep.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    TOOLKIT.folder().parent.mkdir(parents=True)
    TOOLKIT.folder().symlink_to(_FOLDER)
    path = tmp_path / "network.onnx"
    _users_network(path)
    inputs = (
        InputData("picture", "float32", (1, 3, 32, 32)),
        InputData("features", "float32", (1, 8)),
    )
    source = OnnxFile(str(path), "0" * 64, inputs, has_free_sizes=True)
    with RknnConverter() as converter:
        made = converter.ensure_all(
            [
                RknnRecipe(source, "rk3588"),
                RknnRecipe(source, "rk3588", quantised=False),
                RknnRecipe(source, "rv1106"),
            ]
        )
    for file in made:
        content = file.read_bytes()
        assert content.startswith(b"RKNN")
        assert b"picture" in content
        assert b"features" in content
