"""INT8 files for Teflon: the real converter, if onnx2tf is installed in the user's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reusebench.models.litert.environment import LiteRtConverter
from reusebench.models.recipe import Recipe
from reusebench.models.teflon.environment import TeflonConverter
from tests.models.litert.real_onnx2tf import REAL_ONNX2TF, opened

interpreter = pytest.importorskip("ai_edge_litert.interpreter")

pytestmark = REAL_ONNX2TF


@pytest.fixture(scope="module")
def converter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeflonConverter]:
    """Return the converter with a separate cache; one process serves all tests here."""
    with opened(TeflonConverter, tmp_path_factory) as converter:
        yield converter


def _loaded(path: Path) -> Any:
    loaded = interpreter.Interpreter(str(path), experimental_op_resolver_type=_PLAIN)
    loaded.allocate_tensors()
    return loaded


_PLAIN = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def test_what_a_delegate_of_an_npu_takes(converter: TeflonConverter) -> None:
    """Inputs, outputs and weights are INT8 with one scale each, and nothing pads outside of
    convolutions.
    """
    (path,) = converter.ensure_all([converter.recipe(Recipe("tiny", 64, 1))])
    assert path.name.endswith(".int8.tflite")
    loaded = _loaded(path)
    for tensor in (*loaded.get_input_details(), *loaded.get_output_details()):
        assert tensor["dtype"] == np.int8
    for tensor in loaded.get_tensor_details():
        assert len(tensor["quantization_parameters"]["scales"]) <= 1, tensor["name"]
    operators = [operator["op_name"] for operator in loaded._get_ops_details()]
    assert operators == [
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "CONV_2D",
        "CONV_2D",
        "ADD",
        "MAX_POOL_2D",
        "CONV_2D",
        "MEAN",
        "RESHAPE",
        "FULLY_CONNECTED",
    ]


def test_without_quantisation(converter: TeflonConverter) -> None:
    """The file is the one that LiteRT gets."""
    recipe = converter.recipe(Recipe("tiny", 64, 1), quantised=False)
    assert not recipe.calibrates
    assert recipe == LiteRtConverter.recipe(Recipe("tiny", 64, 1))


def test_equal_bytes(converter: TeflonConverter, tmp_path: Path) -> None:
    """A recipe gives the same bytes each time, and another seed others."""
    for number, seed in enumerate((1, 1, 2)):
        converter.write(converter.recipe(Recipe("tiny", 64, seed)), tmp_path / str(number))
    first, again, other = (tmp_path.joinpath(str(number)).read_bytes() for number in range(3))
    assert first == again
    assert first != other
