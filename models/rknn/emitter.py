"""Makes `.rknn` files from the ONNX files of the same networks, with rknn-toolkit2.

They are INT8, as such models are deployed, and as the smaller chips demand; calibrated with one image of noise.
Standard library only: the harness imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models.built_files import ensure
from models.conversion.converter import Converter
from models.recipe import RknnRecipe
from models.rknn.toolkit import TOOLKIT

__all__ = ["RknnConverter"]

_PROGRAM = Path(__file__).resolve().with_name("converter.py")


class RknnConverter(Converter[RknnRecipe]):
    """Has rknn-toolkit2 make `.rknn` files of ONNX files."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__(TOOLKIT, _PROGRAM)

    def source(self, recipe: RknnRecipe) -> Path:
        """Return the ONNX file from the cache."""
        return ensure(recipe.source)

    def job(self, recipe: RknnRecipe, source: Path) -> dict[str, Any]:
        """Return what converter.py reads."""
        return {
            "onnx": str(source.absolute()),
            "shape": recipe.source.network().input_shape,
            "platform": recipe.platform,
            "remove_weight": recipe.weightless,
        }
