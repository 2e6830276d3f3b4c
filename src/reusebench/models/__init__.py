"""Model files made from code: each network is described once and written for every runtime.

networks/ describes the networks and onnx/ writes them as ONNX files. The other folders convert the
ONNX files, or build the networks, with the libraries of the runtimes (conversion/).

Importing this package imports neither numpy nor onnx. The harness must not map the libraries of the
measured process: pages that both share would count for half there. Other processes make the files.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reusebench.measured.runtimes import RUNTIMES
from reusebench.models.built_files import ensure
from reusebench.models.conversion.converter import Converter
from reusebench.models.errors import ConversionError, ModelError
from reusebench.models.recipe import OnnxFile, Recipe

__all__ = [
    "ConversionError",
    "Converter",
    "ModelError",
    "OnnxFile",
    "Recipe",
    "can_be_weightless",
    "converter_of",
    "converters",
    "ensure_all",
]


def converters() -> list[type[Converter[Any]]]:
    """Return the converters into the runtimes' own formats, in the order of the runtimes."""
    candidates = [converter_of(entry.kind) for entry in RUNTIMES]
    return [converter for converter in candidates if converter]


def converter_of(kind: str) -> type[Converter[Any]] | None:
    """Return the converter into files of the kind; None if ONNX files are read as is."""
    for entry in RUNTIMES:
        if entry.kind == kind and entry.converter:
            converter: type[Converter[Any]] = importlib.import_module(entry.converter).CONVERTER
            return converter
    return None


def ensure_all(
    kind: str,
    recipes: Sequence[Recipe],
    chip: str | None = None,
    weightless: bool = False,
    quantised: bool = True,
) -> list[Path]:
    """Return the recipes' files from the cache, in order; make the missing and the damaged ones.

    `kind` is RuntimeEntry.kind. Only .rknn files are made for one chip, can lack weights, and
    are INT8 if `quantised`. Without a converter for `kind` the files are ONNX files. One process
    makes all files, since starting a converter takes half as long as a conversion.

    Raises ModelError if a recipe is invalid, the converter fails, or files are to be made and it is
    not installed; CacheError if a file cannot be written.
    """
    converter_class = converter_of(kind)
    if converter_class is None:
        return [ensure(recipe) for recipe in recipes]

    with converter_class() as converter:
        conversions = [converter.recipe(recipe, chip, weightless, quantised) for recipe in recipes]
        return converter.ensure_all(conversions)


def can_be_weightless(kind: str, chip: str | None) -> bool:
    """Whether files without weights can be made, for contexts that share another one's weights."""
    converter = converter_of(kind)
    return converter is not None and converter.can_be_weightless(chip)
