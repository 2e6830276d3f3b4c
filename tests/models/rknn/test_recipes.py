"""What makes a `.rknn` file: its chip, its name, and what is refused before anything runs."""

from __future__ import annotations

import pytest

from models.errors import ModelError
from models.platforms import RKNN_PLATFORMS, TOOLKIT_VERSION
from models.recipe import CONVERSION_VERSION, EMISSION_VERSION, Recipe, RknnRecipe

_YOLO = Recipe("yolov5s", 640, 7)
_HONOURED = [platform.name for platform in RKNN_PLATFORMS if platform.removes_weights]
_IGNORED = [platform.name for platform in RKNN_PLATFORMS if not platform.removes_weights]


def test_a_file_name_says_what_the_file_is() -> None:
    """Network, size, seed, chip, the toolkit's version and those of emitter and conversion stand in the name."""
    versions = f"toolkit{TOOLKIT_VERSION}-v{EMISSION_VERSION}.{CONVERSION_VERSION}"
    assert RknnRecipe(_YOLO, "rk3588").file_name == f"yolov5s-640-seed7-rk3588-{versions}.rknn"
    assert RknnRecipe(_YOLO, "rk3588", True).file_name == f"yolov5s-640-seed7-rk3588-weightless-{versions}.rknn"


def test_every_recipe_has_a_name_of_its_own() -> None:
    """No two chips, and no master and slave, share a file."""
    recipes = [RknnRecipe(_YOLO, platform.name) for platform in RKNN_PLATFORMS]
    recipes += [RknnRecipe(_YOLO, name, weightless=True) for name in _HONOURED]
    assert len({recipe.file_name for recipe in recipes}) == len(RKNN_PLATFORMS) + len(_HONOURED)


@pytest.mark.parametrize("name", ["rk9999", "RK3588", "rk2118", ""])
def test_an_unknown_chip_is_refused_with_the_valid_ones(name: str) -> None:
    """The error names every chip that the toolkit makes files for."""
    with pytest.raises(ModelError, match=r"valid: rk3588, rk3576, rk3568, rk3566, rk3562, rv1126b, rv1106"):
        RknnRecipe(_YOLO, name)


@pytest.mark.parametrize("name", _IGNORED)
def test_weights_are_not_removed_where_the_toolkit_ignores_the_wish(name: str) -> None:
    """A slave for these chips would be a master: it is refused, with the chips where it works."""
    with pytest.raises(ModelError, match=f"made for {name}: the toolkit ignores .* valid: rk3588, ") as caught:
        RknnRecipe(_YOLO, name, weightless=True)
    assert name not in str(caught.value).partition("valid: ")[2].split(", ")


def test_an_invalid_source_is_refused() -> None:
    """Network, size and seed are checked as for ONNX files."""
    with pytest.raises(ModelError, match="a multiple of 32"):
        RknnRecipe(Recipe("yolov5s", 100, 0), "rk3588")
