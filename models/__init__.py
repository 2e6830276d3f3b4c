"""Model files made from code: one description of each network, emitted for the runtimes that read it.

networks/ describes the networks, onnx/ writes them as ONNX files; rknn/ has rknn-toolkit2 convert these for Rockchip's
NPUs, megengine/ has MegEngine build them, both in environments of their own (conversion/).
Importing this package imports neither numpy nor onnx: the harness must not map the libraries of the measured process,
since shared pages would count for half there. Files are made in other processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.built_files import ensure
from models.errors import ConversionError, ModelError
from models.megengine.environment import MegEngineConverter
from models.platforms import find_platform
from models.recipe import MegEngineRecipe, OnnxFile, Recipe, RknnRecipe
from models.rknn.toolkit import RknnConverter

__all__ = [
    "ConversionError",
    "ModelError",
    "OnnxFile",
    "Recipe",
    "RknnConverter",
    "can_be_weightless",
    "ensure_all",
    "rknn_recipe",
]


def ensure_all(
    kind: str, recipes: Sequence[Recipe], chip: str | None = None, weightless: bool = False, quantised: bool = True
) -> list[Path]:
    """Return files of this kind from the cache, in order, made first where they are missing or damaged.

    `kind` is how their names end: .onnx, .mge, or .rknn, which is for one chip, may be without weights, and is INT8 if
    it is quantised. Those that are missing are made in one process: to start a converter takes as long as half a
    conversion. Raises ModelError for an invalid recipe, where the converter is not installed (only where something is
    to be made), and if it fails; CacheError where a file cannot be written.
    """
    if kind == ".rknn":
        with RknnConverter() as rknn:
            return rknn.ensure_all([rknn_recipe(recipe, chip, weightless, quantised) for recipe in recipes])
    if kind == ".mge":
        with MegEngineConverter() as megengine:
            return megengine.ensure_all([MegEngineRecipe(recipe) for recipe in recipes])
    return [ensure(recipe) for recipe in recipes]


def rknn_recipe(source: Recipe | OnnxFile, chip: str | None, weightless: bool, quantised: bool) -> RknnRecipe:
    """Return what makes a .rknn file of the source; raise ModelError where there can be none for the chip."""
    if chip is None:
        raise ModelError(
            "a .rknn file is made for one chip, and this machine's is not known; name one with --target vboard:CHIP"
        )
    return RknnRecipe(source, chip, weightless, quantised)


def can_be_weightless(kind: str, chip: str | None) -> bool:
    """Whether there are files without weights, for contexts that share those of another one."""
    return kind == ".rknn" and chip is not None and find_platform(chip).removes_weights
