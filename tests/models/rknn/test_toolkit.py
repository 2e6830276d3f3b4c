"""What makes a `.rknn` file: what is refused before anything runs, and what reaches the (scripted) toolkit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.built_files import cached_path, fill
from models.errors import ModelError
from models.platforms import RKNN_PLATFORMS
from models.recipe import Recipe, RknnRecipe
from models.rknn.toolkit import RknnConverter
from tests.models.rknn.scripted_toolkit import install_scripted_toolkit

_YOLO = Recipe("yolov5s", 640, 7)
_TINY = Recipe("tiny", 64, 1)
_WIDE = Recipe("frame", 36, 1)


def test_every_recipe_has_a_name_of_its_own() -> None:
    """Network, size, seed, chip, the toolkit's version and those of emitter and conversion; weightless files too."""
    assert RknnRecipe(_YOLO, "rk3588").file_name == "yolov5s-640-seed7-rk3588-toolkit2.5.0-v1.1.rknn"
    slaves = [RknnRecipe(_YOLO, chip.name, weightless=True) for chip in RKNN_PLATFORMS if chip.removes_weights]
    assert slaves[0].file_name == "yolov5s-640-seed7-rk3588-weightless-toolkit2.5.0-v1.1.rknn"
    masters = [RknnRecipe(_YOLO, chip.name) for chip in RKNN_PLATFORMS]
    assert len({recipe.file_name for recipe in masters + slaves}) == len(RKNN_PLATFORMS) + len(slaves)


@pytest.mark.parametrize("name", ["rk9999", "RK3588", "rk2118", ""])
def test_an_unknown_chip_is_refused_with_the_valid_ones(name: str) -> None:
    """The error names every chip that the toolkit makes files for."""
    with pytest.raises(ModelError, match=r"valid: rk3588, rk3576, rk3568, rk3566, rk3562, rv1126b, rv1106"):
        RknnRecipe(_YOLO, name)


@pytest.mark.parametrize("name", [chip.name for chip in RKNN_PLATFORMS if not chip.removes_weights])
def test_weights_are_not_removed_where_the_toolkit_ignores_it(name: str) -> None:
    """A slave for these chips would be a master: it is refused, with the chips where it works."""
    with pytest.raises(ModelError, match=f"made for {name}: the toolkit ignores .* valid: rk3588, ") as error:
        RknnRecipe(_YOLO, name, weightless=True)
    assert name not in str(error.value).partition("valid: ")[2].split(", ")


@pytest.mark.usefixtures("model_cache")
def test_the_toolkit_gets_what_the_recipe_has() -> None:
    """Chip, weights, the scale of uint8 pixels, INT8, the ONNX file and an image of its shape, equal for one shape."""
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
    assert weightless == {
        "pixels": 3 * 64 * 64,
        "target_platform": "rk3588",
        "remove_weight": True,
        "mean_values": [[0, 0, 0]],
        "std_values": [[255, 255, 255]],
        "do_quantization": True,
        "onnx": str(cached_path(_TINY)),
    }
    assert (mini["target_platform"], mini["remove_weight"]) == ("rv1106", False)
    # Models of one size see equal noise, whatever their seed and chip: it is no difference between them.
    assert mini["calibration"] == other["calibration"] == calibration
    assert wide["pixels"] == 3 * 36 * 64


def _read(path: Path) -> Any:
    return json.loads(path.read_text())
