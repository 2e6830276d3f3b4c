"""Makes `.rknn` files from the ONNX files of the same networks, with rknn-toolkit2.

They are INT8, as such models are deployed, and as the smaller chips demand; calibrated with one image of noise.
Standard library only: the harness calls ensure_rknn().
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.cache import ensure
from models.conversion.converter import Converter
from models.recipe import Recipe, RknnRecipe
from models.rknn.toolkit import TOOLKIT

__all__ = ["RknnConverter", "ensure_rknn", "ensure_rknn_all"]

_PROGRAM = Path(__file__).resolve().with_name("converter.py")


def ensure_rknn(name: str, size: int, seed: int, platform: str, weightless: bool = False) -> Path:
    """Return the `.rknn` file from the cache, made first where it is missing or damaged.

    weightless makes the slave of weight sharing: the same file without its weights. Raises ModelError for an
    invalid recipe, if the toolkit is not installed (only where something is to be made), and if it fails.
    """
    (path,) = ensure_rknn_all([RknnRecipe(Recipe(name, size, seed), platform, weightless)])
    return path


def ensure_rknn_all(recipes: Sequence[RknnRecipe]) -> list[Path]:
    """Return the files of all recipes, in order, as ensure_rknn() does.

    Those that are missing are made in one process: to start the toolkit takes as long as half a conversion.
    """
    with RknnConverter() as converter:
        return converter.ensure_all(recipes)


class RknnConverter(Converter[RknnRecipe]):
    """Has rknn-toolkit2 make `.rknn` files of ONNX files."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__(TOOLKIT, _PROGRAM)

    def source(self, recipe: RknnRecipe) -> Path:
        """Return the ONNX file from the cache."""
        return ensure(recipe.source.name, recipe.source.size, recipe.source.seed)

    def job(self, recipe: RknnRecipe, source: Path) -> dict[str, Any]:
        """Return what converter.py reads."""
        return {
            "onnx": str(source.absolute()),
            "shape": recipe.source.network().input_shape,
            "platform": recipe.platform,
            "remove_weight": recipe.weightless,
        }
