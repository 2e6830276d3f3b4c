"""Model files made from code: one description of each network, emitted for the runtimes that read
it.

networks/ describes the networks, onnx/ writes them as ONNX files; rknn/ has rknn-toolkit2 convert
these for Rockchip's NPUs, megengine/ has MegEngine build them, both in environments of their own
(conversion/). Importing this package imports neither numpy nor onnx: the harness must not map the
libraries of the measured process, since shared pages would count for half there. Files are made in
other processes.
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
    """Return what makes files of the runtimes' own kinds, in the order of the runtimes."""
    return [converter for entry in RUNTIMES if (converter := converter_of(entry.suffix))]


def converter_of(kind: str) -> type[Converter[Any]] | None:
    """Return what makes files whose names end so; None if nothing does, and ONNX files are read
    as they are.
    """
    for entry in RUNTIMES:
        if entry.suffix == kind and entry.converter:
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
    """Return files of this kind from the cache, in order, made first where they are missing or
    damaged.

    `kind` is how their names end: .onnx, .mge, or .rknn, which is for one chip, may be without
    weights, and is INT8 if it is quantised. Where nothing makes files of the kind, they are ONNX
    files. Those that are missing are made in one process: to start a converter takes as long as
    half a conversion. Raises ModelError for an invalid recipe, where the converter is not installed
    (only where something is to be made), and if it fails; CacheError if a file cannot be
    written.
    """
    kind_of_converter = converter_of(kind)
    if kind_of_converter is None:
        return [ensure(recipe) for recipe in recipes]
    with kind_of_converter() as converter:
        return converter.ensure_all(
            [converter.recipe(recipe, chip, weightless, quantised) for recipe in recipes]
        )


def can_be_weightless(kind: str, chip: str | None) -> bool:
    """Whether there are files without weights, for contexts that share those of another one."""
    converter = converter_of(kind)
    return converter is not None and converter.can_be_weightless(chip)
