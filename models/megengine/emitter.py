"""Makes `.mge` files from the descriptions of the same networks, with MegEngine: fp32, with the ONNX files' weights.

Standard library only: the harness calls ensure_mge_all().
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.cache import run_in_another_process
from models.conversion.converter import Converter
from models.megengine.environment import MEGENGINE
from models.recipe import MegEngineRecipe, Recipe

__all__ = ["MegEngineConverter", "ensure_mge", "ensure_mge_all"]

_PROGRAM = Path(__file__).resolve().with_name("converter.py")


def ensure_mge(recipe: Recipe) -> Path:
    """Return the `.mge` file from the cache, made first where it is missing or damaged.

    Raises ModelError if MegEngine is not installed (only where something is to be made), and if it fails.
    """
    (path,) = ensure_mge_all([recipe])
    return path


def ensure_mge_all(recipes: Sequence[Recipe]) -> list[Path]:
    """Return the files of all recipes, in order, as ensure_mge() does; those that are missing made in one process."""
    with MegEngineConverter() as converter:
        return converter.ensure_all([MegEngineRecipe(recipe) for recipe in recipes])


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
