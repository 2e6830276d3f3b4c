"""Making `.rknn` files: early refusals, and the calls of the (scripted) toolkit."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from reusebench.measured.runtimes.base import InputData
from reusebench.models.built_files import cached_path, fill
from reusebench.models.errors import ConversionError, ModelError
from reusebench.models.platforms import RKNN_PLATFORMS
from reusebench.models.recipe import OnnxFile, Recipe, RknnRecipe
from reusebench.models.rknn.toolkit import RknnConverter
from tests.models.rknn.scripted_toolkit import install_scripted_toolkit

pytestmark = pytest.mark.process

_YOLO = Recipe("yolov5s", 640, 7)
_TINY = Recipe("tiny", 64, 1)
_WIDE = Recipe("frame", 36, 1)


def test_every_recipe_has_a_name_of_its_own() -> None:
    """It has network, size, seed, chip, and the versions of toolkit, emitter and conversion."""
    assert (
        RknnRecipe(_YOLO, "rk3588").file_name == "yolov5s-640-seed7-rk3588-toolkit2.5.0-v1.1.rknn"
    )
    slaves = [
        RknnRecipe(_YOLO, chip.name, weightless=True)
        for chip in RKNN_PLATFORMS
        if chip.removes_weights
    ]
    assert slaves[0].file_name == "yolov5s-640-seed7-rk3588-weightless-toolkit2.5.0-v1.1.rknn"
    masters = [RknnRecipe(_YOLO, chip.name) for chip in RKNN_PLATFORMS]
    assert len({recipe.file_name for recipe in masters + slaves}) == len(RKNN_PLATFORMS) + len(
        slaves
    )


@pytest.mark.parametrize("name", ["rk9999", "RK3588", "rk2118", ""])
def test_an_unknown_chip_is_refused_with_the_valid_ones(name: str) -> None:
    """The error names every chip that the toolkit makes files for."""
    with pytest.raises(
        ModelError, match=r"valid: rk3588, rk3576, rk3568, rk3566, rk3562, rv1126b, rv1106"
    ):
        RknnRecipe(_YOLO, name)


@pytest.mark.parametrize("name", [chip.name for chip in RKNN_PLATFORMS if not chip.removes_weights])
def test_weights_are_not_removed_where_the_toolkit_ignores_it(name: str) -> None:
    """A slave for these chips would be a master: it is refused, with the valid chips."""
    with pytest.raises(
        ModelError, match=f"made for {name}: the toolkit ignores .* valid: rk3588, "
    ) as error:
        RknnRecipe(_YOLO, name, weightless=True)
    assert name not in str(error.value).partition("valid: ")[2].split(", ")


@pytest.mark.usefixtures("model_cache")
def test_the_toolkit_gets_what_the_recipe_has() -> None:
    """Chip, weights, the scale of uint8 pixels, INT8, the ONNX file and an image of its shape,
    equal for one shape.
    """
    install_scripted_toolkit()
    other_seed = Recipe("tiny", 64, 2)
    for source in (_TINY, other_seed, _WIDE):
        fill(source, lambda path: path.write_bytes(b"onnx"))
    recipes = [
        RknnRecipe(_TINY, "rk3588", weightless=True),
        RknnRecipe(_TINY, "rv1106"),
        RknnRecipe(other_seed, "rk3588"),
        RknnRecipe(_WIDE, "rk3588"),
    ]
    with RknnConverter() as converter:
        paths = converter.ensure_all(recipes)
    assert paths == [cached_path(recipe) for recipe in recipes]
    weightless, mini, other, wide = (_read(path) for path in paths)
    calibration = weightless.pop("calibration")
    ((kind, count, _),) = calibration
    assert (kind, count) == ("|u1", 3 * 64 * 64)
    assert weightless == {
        "target_platform": "rk3588",
        "remove_weight": True,
        "mean_values": [[0, 0, 0]],
        "std_values": [[255, 255, 255]],
        "do_quantization": True,
        "onnx": cached_path(_TINY).name,
    }
    assert (mini["target_platform"], mini["remove_weight"]) == ("rv1106", False)
    # Models of one size see equal noise, whatever their seed and chip: it is no difference between
    # them.
    assert mini["calibration"] == other["calibration"] == calibration
    assert wide["calibration"][0][1] == 3 * 36 * 64


def _user_file(
    folder: Path, *inputs: InputData, content: bytes = b"onnx", free: bool = True
) -> OnnxFile:
    path = folder / "a [model].onnx"
    path.write_bytes(content)
    return OnnxFile(str(path), "5a" * 32, inputs, free)


@pytest.fixture
def toolkit(model_cache: Path) -> Path:  # noqa: ARG001 - where its files go
    """Install the scripted toolkit; return its folder."""
    return install_scripted_toolkit()


def _made(*recipes: RknnRecipe) -> list[Any]:
    with RknnConverter() as converter:
        return [_read(path) for path in converter.ensure_all(recipes)]


def test_the_name_of_what_is_made_of_a_users_file(tmp_path: Path) -> None:
    """It has the file's name in safe characters, the digest, the chip and the precision."""
    source = _user_file(tmp_path)
    assert (
        RknnRecipe(source, "rk3588").file_name
        == f"a__model_-{'5a' * 12}-rk3588-toolkit2.5.0-v1.1.rknn"
    )
    forms = {
        RknnRecipe(source, "rk3588", *form).form
        for form in ((), (True,), (False, False), (True, False))
    }
    assert len(forms) == 4


@pytest.mark.usefixtures("toolkit")
def test_the_sizes_that_a_file_leaves_free(tmp_path: Path) -> None:
    """They reach the toolkit with the inputs' names, unless the file has them all."""
    inputs = (InputData("ids", "int64", (1, 16)), InputData("x", "float32", (1, 3, 8, 8)))
    (free,) = _made(RknnRecipe(_user_file(tmp_path, *inputs), "rk3588"))
    assert (free["inputs"], free["input_size_list"]) == (["ids", "x"], [[1, 16], [1, 3, 8, 8]])
    fixed = _user_file(tmp_path, *inputs, free=False)
    (made,) = _made(RknnRecipe(replace(fixed, digest="00"), "rk3588"))
    assert not {"inputs", "input_size_list"} & made.keys()


@pytest.mark.usefixtures("toolkit")
def test_an_input_that_no_node_reads(tmp_path: Path) -> None:
    """The toolkit gets no size of it, nor of what is not there; a branch reads too."""
    helper = onnx.helper
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])
    branch = helper.make_graph([helper.make_node("Relu", ["read"], ["y"])], "b", [], [result])
    choice = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    inputs = (
        InputData("unread", "float32", (1,)),
        InputData("flag", "bool", ()),
        InputData("read", "float32", (2,)),
    )
    graph = helper.make_graph([choice], "graph", [], [result])
    content = helper.make_model(graph).SerializeToString()
    (made,) = _made(RknnRecipe(_user_file(tmp_path, *inputs, content=content), "rk3588"))
    assert (made["inputs"], made["input_size_list"]) == (["flag", "read"], [[], [2]])
    assert len(made["calibration"]) == 2


@pytest.mark.usefixtures("toolkit")
def test_pictures_are_pixels_and_other_inputs_what_the_file_takes(tmp_path: Path) -> None:
    """Floats of four dimensions have means and deviations that make 0 to 1 of pixels; noise fits
    each type.
    """
    inputs = (
        InputData("picture", "float32", (1, 8, 8, 3)),
        InputData("features", "float32", (1, 80, 4)),
        InputData("ids", "int64", (1, 16)),
        InputData("mask", "int32", (1, 16), value=1),
        InputData("flag", "bool", ()),
    )
    (made,) = _made(RknnRecipe(_user_file(tmp_path, *inputs), "rk3588"))
    # The toolkit takes the second dimension for the channels, whatever the layout.
    assert made["mean_values"] == [[0] * 8, None, None, None, None]
    assert made["std_values"] == [[255] * 8, None, None, None, None]
    kinds = [(kind, count) for kind, count, _ in made["calibration"]]
    assert kinds == [("|u1", 192), ("<f4", 1280), ("<i8", 128), ("<i4", 64), ("|b1", 1)]
    ones = np.ones((1, 16), np.int32)
    assert made["calibration"][3][2] == zlib.crc32(ones.tobytes())


@pytest.mark.usefixtures("toolkit")
def test_given_data_calibrate(tmp_path: Path) -> None:
    """Pixels span the range of a picture's data; other data go to the toolkit as they are."""
    picture = np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4)
    features = np.arange(6, dtype=np.float32).reshape(1, 6)
    for name, values in (("picture", picture), ("features", features)):
        np.save(tmp_path / f"{name}.npy", values)
    inputs = (
        InputData("picture", "float32", picture.shape, file=str(tmp_path / "picture.npy")),
        InputData("features", "float32", features.shape, file=str(tmp_path / "features.npy")),
    )
    (made,) = _made(RknnRecipe(_user_file(tmp_path, *inputs), "rk3588"))
    assert (made["mean_values"], made["std_values"]) == ([[127.5] * 3, None], [[127.5] * 3, None])
    pixels = np.rint((picture + 1) * 127.5).astype(np.uint8)
    assert [data for _, _, data in made["calibration"]] == [
        zlib.crc32(values.tobytes()) for values in (pixels, features)
    ]


@pytest.mark.usefixtures("toolkit")
def test_files_that_are_not_quantised(tmp_path: Path) -> None:
    """Floating point and an already quantised file need no quantisation and no calibration."""
    picture = InputData("x", "float32", (1, 3, 8, 8))
    plain = _user_file(tmp_path, picture)
    (made,) = _made(RknnRecipe(plain, "rk3588", quantised=False))
    assert (made["do_quantization"], made["calibration"]) == (False, [])
    quantised = _user_file(tmp_path, picture, content=b"... DequantizeLinear ...")
    (made,) = _made(RknnRecipe(replace(quantised, digest="00"), "rv1106"))
    assert (made["do_quantization"], made["calibration"]) == (False, [])


@pytest.mark.usefixtures("toolkit")
def test_inputs_that_no_array_holds(tmp_path: Path) -> None:
    """They are an error with a message before the toolkit reads the file."""
    with pytest.raises(ConversionError, match=r"reading the inputs failed: .*float8e5") as error:
        _made(RknnRecipe(_user_file(tmp_path, InputData("x", "float8e5", (1,))), "rk3588"))
    assert error.value.words.startswith("reading the inputs failed")


def test_a_process_that_died_is_started_again(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that kills the toolkit does not keep the next one from being made."""
    recipe = RknnRecipe(_user_file(tmp_path, InputData("x", "float32", (1, 3, 8, 8))), "rk3588")
    with RknnConverter() as converter:
        monkeypatch.setenv("SCRIPTED_TOOLKIT", "die")
        with pytest.raises(ConversionError, match="killed by SIGKILL"):
            converter.ensure_all([recipe])
        monkeypatch.delenv("SCRIPTED_TOOLKIT")
        assert converter.ensure_all([recipe])[0].exists()
    assert (toolkit / "starts").read_text() == "started\n" * 2


def test_a_toolkit_that_hangs(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time limit its process is ended, with its last words; the next conversion has
    another one.
    """
    recipe = RknnRecipe(_user_file(tmp_path, InputData("x", "float32", (1, 3, 8, 8))), "rk3588")
    monkeypatch.setattr(RknnConverter, "time_limit_s", 3.0)
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "hang")
    with RknnConverter() as converter:
        with pytest.raises(
            ConversionError, match=r"its process \(not done after 3 s\) failed: I OpFusing 0$"
        ):
            converter.ensure_all([recipe])
        monkeypatch.delenv("SCRIPTED_TOOLKIT")
        monkeypatch.setattr(RknnConverter, "time_limit_s", 600.0)
        assert converter.ensure_all([recipe])[0].exists()
    assert (toolkit / "starts").read_text() == "started\n" * 2


@pytest.mark.parametrize("name", [chip.name for chip in RKNN_PLATFORMS if not chip.has_floats])
def test_chips_without_floating_point(name: str) -> None:
    """The error names the option to leave out and the chips that have it."""
    with pytest.raises(
        ModelError, match=f"can be made for {name}: .* leave --float out.* valid: rk3588, "
    ):
        RknnRecipe(_YOLO, name, quantised=False)


def _read(path: Path) -> Any:
    return json.loads(path.read_text())
