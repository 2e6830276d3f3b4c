"""The real converter of MNN, if MNN is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from reusebench.measured.runtimes.base import InputData
from reusebench.models import converter_of
from reusebench.models.errors import ConversionError, ModelError
from reusebench.models.inspection import inspect
from reusebench.models.mnn.environment import PACKAGE, MnnConverter
from reusebench.models.recipe import OnnxFile, Recipe

pytestmark = pytest.mark.process

_INSTALLED = pytest.mark.skipif(not PACKAGE.installed(), reason="MNN is not installed")


def _onnx_file(path: Path, operator: str, **attributes: Any) -> OnnxFile:
    """Return a file of one operator."""
    helper = onnx.helper
    tensors = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("x", "y")
    ]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **attributes)], "one", tensors[:1], tensors[1:]
    )
    opsets = [helper.make_opsetid(attributes.get("domain", ""), 13)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), path)
    return OnnxFile(str(path), "0" * 64, (), has_free_sizes=False)


@_INSTALLED
def test_files_are_named_by_the_version() -> None:
    """So that another version of MNN converts anew."""
    assert converter_of(".mnn") is MnnConverter
    recipe = MnnConverter.recipe(Recipe("tiny", 64, seed=1))
    assert recipe.file_name == f"tiny-64-seed1-mnn{PACKAGE.version}-v1.1.mnn"
    assert recipe.precision == "FP32"


@_INSTALLED
def test_a_process_converts_one_file_after_the_other(tmp_path: Path) -> None:
    """Each keeps its names; a failure has MNN's words, leaves no file, and the next conversion
    succeeds.
    """
    good = _onnx_file(tmp_path / "good.onnx", "Relu")
    bad = _onnx_file(tmp_path / "bad.onnx", "Nonesuch", domain="some.maker")
    text = tmp_path / "text.onnx"
    text.write_text("This is no model.")
    with MnnConverter() as converter:
        for number in range(2):
            path = tmp_path / f"good-{number}.mnn"
            converter.write(converter.recipe(good), path)
            inspection = inspect(path)
            assert [tensor.name for tensor in (*inspection.inputs, *inspection.outputs)] == [
                "x",
                "y",
            ]
            with pytest.raises(ConversionError, match=r"mnnconvert failed: .*Nonesuch"):
                converter.write(converter.recipe(bad), tmp_path / "bad.mnn")
        with pytest.raises(
            ConversionError, match=r"mnnconvert failed: .*please check your file format"
        ):
            converter.write(
                converter.recipe(OnnxFile(str(text), "0" * 64, (), False)), tmp_path / "text.mnn"
            )
    assert not (tmp_path / "bad.mnn").exists()
    assert not (tmp_path / "text.mnn").exists()


@_INSTALLED
def test_free_sizes_are_fixed(tmp_path: Path) -> None:
    """The file has the sizes of what is fed, so that it runs with them as it is."""
    helper = onnx.helper
    shape: list[Any] = ["batch", 3, "height", "width"]
    tensors = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")
    ]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "free", tensors[:1], tensors[1:]
    )
    source = tmp_path / "free.onnx"
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), source
    )
    with MnnConverter() as converter:
        for size in (32, 48):
            fed = (InputData("x", "float32", (2, 3, size, size)),)
            path = tmp_path / f"{size}.mnn"
            converter.write(
                converter.recipe(OnnxFile(str(source), "0" * 64, fed, has_free_sizes=True)), path
            )
            assert inspect(path).inputs[0].dimensions == (2, 3, size, size)


def test_without_mnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the package to install."""
    monkeypatch.setattr(type(PACKAGE), "installed", lambda _: False)
    with pytest.raises(
        ModelError, match=r"\.mnn files are made by MNN, which is not installed: pip install MNN"
    ):
        MnnConverter.recipe(Recipe("tiny", 64, seed=1))
