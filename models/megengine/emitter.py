"""Makes `.mge` files from the descriptions of the same networks, with MegEngine: fp32, with the ONNX files' weights.

Standard library only: the harness imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cache import run_in_another_process
from models.conversion.converter import Converter
from models.megengine.environment import MEGENGINE
from models.recipe import MegEngineRecipe

__all__ = ["MegEngineConverter"]

_PROGRAM = Path(__file__).resolve().with_name("converter.py")


class MegEngineConverter(Converter[MegEngineRecipe]):
    """Has MegEngine make `.mge` files of descriptions."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__(MEGENGINE, _PROGRAM)

    def source(self, recipe: MegEngineRecipe) -> Path:
        """Return the folder with the network's description, in place of the one before."""
        folder = self.folder() / "description"
        folder.mkdir(exist_ok=True)
        name, size, seed = recipe.source.name, recipe.source.size, recipe.source.seed
        run_in_another_process("models.conversion.description", name, str(size), str(seed), str(folder))
        return folder

    def job(self, recipe: MegEngineRecipe, source: Path) -> dict[str, Any]:  # noqa: ARG002 - the description says all
        """Return what converter.py reads."""
        return {"description": str(source.absolute())}
