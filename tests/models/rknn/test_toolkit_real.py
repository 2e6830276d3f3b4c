"""The real rknn-toolkit2, where it is installed in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.errors import ModelError
from models.recipe import Recipe, RknnRecipe
from models.rknn.emitter import RknnConverter
from models.rknn.toolkit import TOOLKIT

#: The user's own, looked for before a test has a cache of its own.
_FOLDER = TOOLKIT.folder()

pytestmark = pytest.mark.skipif(
    not TOOLKIT.installed(), reason=f"{_FOLDER} is not there: run `reusebench models install rknn-toolkit` to test it"
)

_TINY = Recipe("tiny", 64, 1)
_MASTER = RknnRecipe(_TINY, "rk3588")
_SLAVE = RknnRecipe(_TINY, "rk3588", weightless=True)
_MINI = RknnRecipe(_TINY, "rv1106")
_RECIPES = (_MASTER, _SLAVE, _MINI)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict[RknnRecipe, bytes]]:
    """Make every file twice, each time in a new cache with a new process of the user's toolkit."""
    return [_make(tmp_path_factory.mktemp("cache")) for _ in range(2)]


def _make(cache: Path) -> dict[RknnRecipe, bytes]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        _borrow_toolkit()
        with RknnConverter() as converter:
            paths = converter.ensure_all(_RECIPES)
    return {recipe: path.read_bytes() for recipe, path in zip(_RECIPES, paths)}


def _borrow_toolkit() -> None:
    TOOLKIT.folder().parent.mkdir(parents=True)
    TOOLKIT.folder().symlink_to(_FOLDER)


@pytest.mark.parametrize("recipe", _RECIPES, ids=lambda recipe: recipe.file_name)
def test_the_file_is_one_of_rockchips(recipe: RknnRecipe, made: list[dict[RknnRecipe, bytes]]) -> None:
    """It begins with the format's letters, and is smaller than fp32 weights: it is INT8."""
    assert made[0][recipe].startswith(b"RKNN")
    assert len(made[0][recipe]) < _TINY.network().weight_bytes()


def test_without_weights_it_is_smaller_by_the_weights(made: list[dict[RknnRecipe, bytes]]) -> None:
    """A slave lacks the bytes of every layer's weight; it keeps biases and commands."""
    weights = sum(parameters.count - parameters.bias[0] for parameters in _TINY.network().parameters().values())
    assert len(made[0][_MASTER]) - len(made[0][_SLAVE]) >= weights


def test_repeated_conversions_are_equal_in_size(made: list[dict[RknnRecipe, bytes]]) -> None:
    """Their bytes differ a little: the toolkit leaves uninitialised memory in its files, on rv1106 some lengths too."""
    assert len(made[0][_MASTER]) == len(made[1][_MASTER])
    assert len(made[0][_SLAVE]) == len(made[1][_SLAVE])
    assert len(made[0][_MINI]) == pytest.approx(len(made[1][_MINI]), abs=128)


def test_what_the_toolkit_says_is_handed_on(tmp_path: Path) -> None:
    """For a file that is no ONNX the error has the toolkit's own words."""
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with (
        RknnConverter() as converter,
        pytest.raises(ModelError, match=r"load_onnx failed: .*DecodeError: Error parsing message$"),
    ):
        converter.convert(_MASTER, tmp_path / "no.onnx", tmp_path / "out.rknn")
    assert not (tmp_path / "out.rknn").exists()
