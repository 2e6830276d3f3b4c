"""The real rknn-toolkit2, where it is installed in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.errors import ModelError
from models.recipe import Recipe, RknnRecipe
from models.rknn.toolkit import TOOLKIT, RknnConverter

#: The user's own, looked up before a test has a cache of its own.
_FOLDER = TOOLKIT.folder()

pytestmark = pytest.mark.skipif(
    not TOOLKIT.installed(), reason=f"{_FOLDER} is not there: run `reusebench models install rknn-toolkit` to test it"
)

_TINY = Recipe("tiny", 64, 1)
_MASTER = RknnRecipe(_TINY, "rk3588")
_SLAVE = RknnRecipe(_TINY, "rk3588", weightless=True)
_MINI = RknnRecipe(_TINY, "rv1106")


def _make(cache: Path) -> dict[RknnRecipe, bytes]:
    """Return every file, made in a new cache by a new process of the toolkit, which then fails to make another."""
    recipes = (_MASTER, _SLAVE, _MINI)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        TOOLKIT.folder().parent.mkdir(parents=True)
        TOOLKIT.folder().symlink_to(_FOLDER)
        no_model, output = cache / "no.onnx", cache / "out.rknn"
        no_model.write_bytes(b"no model")
        with RknnConverter() as converter:
            paths = converter.ensure_all(recipes)
            with pytest.raises(ModelError, match=r"load_onnx failed: .*DecodeError: Error parsing message$"):
                converter.convert(_MASTER, no_model, output)
        assert not output.exists()
    return {recipe: path.read_bytes() for recipe, path in zip(recipes, paths)}


def test_files_of_the_toolkit(tmp_path: Path) -> None:
    """They are Rockchip's and INT8, a slave lacks its weights, and repeated conversions give equal sizes."""
    first, second = (_make(tmp_path / name) for name in "ab")
    for content in first.values():
        assert content.startswith(b"RKNN")
        assert len(content) < _TINY.network().weight_bytes()
    # A slave keeps biases and commands.
    weights = sum(parameters.count - parameters.bias[0] for parameters in _TINY.network().parameters().values())
    assert len(first[_MASTER]) - len(first[_SLAVE]) >= weights
    # The toolkit leaves uninitialised memory in its files, on rv1106 some lengths too.
    assert len(first[_MASTER]) == len(second[_MASTER])
    assert len(first[_SLAVE]) == len(second[_SLAVE])
    assert len(first[_MINI]) == pytest.approx(len(second[_MINI]), abs=128)
