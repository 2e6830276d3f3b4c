"""The contents of .rknn files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reusebench import models
from reusebench.models.errors import ModelError
from reusebench.models.inspection import inspect, rknn_file
from reusebench.models.inspection.contents import Inspection, Operator, RknnFacts, Tensor, Weights
from reusebench.models.recipe import Recipe
from reusebench.models.rknn.toolkit import TOOLKIT
from tests.models.inspection.rknn_files import MINI, STATIC, save_rknn

_PICTURE = {"images": (1, 3, 32, 32)}
_TOOLKIT_IS_HERE = TOOLKIT.installed()


def _facts(inspection: Inspection) -> RknnFacts:
    assert isinstance(inspection.facts, RknnFacts)
    return inspection.facts


def test_what_the_file_shows(tmp_path: Path) -> None:
    """Inputs and outputs with type and layout, weights by type, operators, chip, versions; inputs
    are no weights.
    """
    path = save_rknn(tmp_path / "net.rknn", {**_PICTURE, "mask": (1, 4)})
    assert inspect(path) == Inspection(
        file=str(path),
        size_bytes=path.stat().st_size,
        inputs=(
            Tensor("images", "int8", (1, 3, 32, 32), "NHWC"),
            Tensor("mask", "int8", (1, 4), "NHWC"),
        ),
        outputs=(Tensor("y", "float16", (1, 10), "NCHW"),),
        weights=(Weights("int8", 1, 100), Weights("float16", 1, 8)),
        operators=(Operator("", "Conv", 2), Operator("", "Reshape", 1)),
        facts=RknnFacts(("rk3588",), "2.3.2", "2.3.1", "ONNX", False, False, None),
    )


def test_dynamic_shapes(tmp_path: Path) -> None:
    """All dynamic shapes are shown; files of older toolkits do not say whether there are any."""
    shapes = ((1, 3, 64, 64), (1, 3, 32, 32))
    dynamic = inspect(
        save_rknn(tmp_path / "dynamic.rknn", _PICTURE, dynamic_shapes={"images": shapes})
    )
    assert _facts(dynamic).has_dynamic_shapes
    assert [tensor.shapes for tensor in (*dynamic.inputs, *dynamic.outputs)] == [shapes, ()]
    old = inspect(save_rknn(tmp_path / "old.rknn", _PICTURE, generator="{'attrs': {}}"))
    assert _facts(old).has_dynamic_shapes is None


def test_weights_that_were_left_out(tmp_path: Path) -> None:
    """A file too small for its weights lacks them; otherwise that is unknown."""
    assert _facts(
        inspect(save_rknn(tmp_path / "less.rknn", _PICTURE, weight_bytes=10**6))
    ).lacks_weights
    assert _facts(inspect(save_rknn(tmp_path / "net.rknn", _PICTURE))).lacks_weights is None


def test_the_form_of_the_mini_runtime(tmp_path: Path) -> None:
    """The file shows inputs, outputs and the chip; weights, operators and types are unknown."""
    inspection = inspect(save_rknn(tmp_path / "mini.rknn", _PICTURE, version=MINI))
    assert inspection.inputs == (Tensor("images", "int8", (1, 3, 32, 32)),)
    assert inspection.outputs == (Tensor("y", None, (1, 10)),)
    assert (inspection.weights, inspection.weight_bytes, inspection.operators) == (None, None, None)
    assert inspection.facts == RknnFacts(("rk3588",), "2.3.2", None, "ONNX", True, None, None)


def test_damaged_files(tmp_path: Path) -> None:
    """A file with wrong bytes, or cut short, is read or refused with a message."""
    content = save_rknn(tmp_path / "net.rknn", _PICTURE).read_bytes()
    path = tmp_path / "damaged.rknn"
    refused = 0
    generator = random.Random(1)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[generator.randrange(len(content))] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            inspect(path)
        except ModelError:
            refused += 1
    assert refused > 100
    for length in range(1, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(
            ModelError, match=r"is not an RKNN model, or is cut short\. Convert or copy it again"
        ):
            inspect(path)


@pytest.mark.parametrize(
    ("begin", "kind"),
    [(b"CYPTRKNN", "is encrypted"), (b"RKNX\0", "is of RKNN3"), (b"VPMN", "is of RKNN-Toolkit 1")],
)
def test_other_files_of_rockchip(tmp_path: Path, begin: bytes, kind: str) -> None:
    """The message names the kind of file."""
    path = tmp_path / "other.rknn"
    path.write_bytes(begin + bytes(100))
    with pytest.raises(ModelError, match=kind):
        inspect(path)


@pytest.mark.skipif(
    not _TOOLKIT_IS_HERE, reason="run `reusebench models install rknn-toolkit` to test it"
)
def test_files_of_the_toolkit() -> None:
    """A network that the toolkit converted keeps its interface and the size of its weights."""
    recipe = Recipe("tiny", 64, 1)
    network = recipe.network()
    (path,) = models.ensure_all(".rknn", [recipe], "rk3588")
    inspection = inspect(path)
    assert inspection.inputs == (Tensor("images", "int8", network.input_shape, "NHWC"),)
    assert [tensor.name for tensor in inspection.outputs] == list(network.outputs)
    # INT8 and padded, with biases of four bytes.
    assert (
        network.parameter_count() < (inspection.weight_bytes or 0) < 1.5 * network.parameter_count()
    )
    facts = _facts(inspection)
    assert (facts.platforms, facts.toolkit_version) == (("rk3588",), TOOLKIT.version)
    assert (facts.is_mini, facts.has_dynamic_shapes, facts.lacks_weights) == (False, False, None)
    (mini,) = models.ensure_all(".rknn", [recipe], "rv1106")
    assert _facts(inspect(mini)).is_mini


@pytest.mark.parametrize("version", [STATIC, MINI])
def test_who_made_a_file(tmp_path: Path, version: int) -> None:
    """Both forms have chip and toolkit; a file without its last byte is cut short."""
    path = save_rknn(tmp_path / "net.rknn", _PICTURE, version=version, platform="rk3566")
    assert rknn_file.origin(path) == rknn_file.RknnOrigin(("rk3566",), "2.3.2")
    size = path.stat().st_size
    for kept in (size - 1, size // 2, 100):
        path.write_bytes(path.read_bytes()[:kept])
        with pytest.raises(
            ModelError,
            match=rf"net.rknn is cut short: it has {kept} bytes, and its header tells of",
        ):
            rknn_file.origin(path)


@pytest.mark.parametrize(
    "content", [b"RKNN", b"<!DOCTYPE html>", b"CYPTRKNN" + bytes(100), b"RKNN" + bytes(100)]
)
def test_what_the_library_is_left_to_judge(tmp_path: Path, content: bytes) -> None:
    """A file without readable contents has no origin; the library may still read it."""
    path = tmp_path / "net.rknn"
    path.write_bytes(content)
    assert rknn_file.origin(path) is None


@pytest.mark.parametrize(
    ("magic", "words"), [(b"VPMN", "is of RKNN-Toolkit 1"), (b"RKNX", "is of RKNN3")]
)
def test_files_of_other_software(tmp_path: Path, magic: bytes, words: str) -> None:
    """No library of these chips reads such files."""
    path = tmp_path / "net.rknn"
    path.write_bytes(magic + bytes(100))
    with pytest.raises(ModelError, match=words):
        rknn_file.origin(path)
