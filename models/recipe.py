"""What makes one model file: network, input size, seed; for a `.rknn` also the chip, and whether it has weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from models.errors import ModelError
from models.networks import find_network
from models.networks.network import Network
from models.platforms import TOOLKIT_VERSION, find_platform

__all__ = [
    "CONVERSION_VERSION",
    "EMISSION_VERSION",
    "MEGENGINE_CONVERSION_VERSION",
    "MEGENGINE_VERSION",
    "AnyRecipe",
    "MegEngineRecipe",
    "Recipe",
    "RknnRecipe",
]

#: Part of every cached file's name: raise it whenever a recipe would give other bytes than before, be it
#: by a description, the weights or the emitter, so that no stale file is measured.
#: v1: the first.
EMISSION_VERSION = 1

#: Also part of the name of every cached .rknn file: raise it when the options or the calibration of the
#: conversion change.
#: v1: the first.
CONVERSION_VERSION = 1

#: The one version that makes `.mge` files; it is part of each file's name.
MEGENGINE_VERSION = "1.13.0"

#: Likewise for `.mge` files: raise it when layers are built of other operators, or dumped with other options.
#: v1: the first.
MEGENGINE_CONVERSION_VERSION = 1

#: Seeds are 32 bits wide: enough for any number of models, and file names stay short.
_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Recipe:
    """Network, size and seed of a model file; an invalid one raises a ModelError that lists what is valid."""

    name: str
    #: Height of the input in pixels; the width follows from it.
    size: int
    #: Another seed gives other weights in every layer.
    seed: int

    def __post_init__(self) -> None:
        """Raise ModelError for an unknown network, an invalid size or an invalid seed."""
        find_network(self.name).check_size(self.size)
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise ModelError(f"seed {self.seed} is not valid; valid: a whole number from 0 to {_LARGEST_SEED}")

    def network(self) -> Network:
        """Return the description."""
        return find_network(self.name).make(self.size)

    @property
    def file_name(self) -> str:
        """Name of the ONNX file in the cache."""
        return f"{self.name}-{self.size}-seed{self.seed}-v{EMISSION_VERSION}.onnx"


@dataclass(frozen=True)
class RknnRecipe:
    """What makes a `.rknn` file; an invalid one raises a ModelError that lists what is valid."""

    #: The ONNX file that is converted.
    source: Recipe
    #: The chip as rknn-toolkit2 names it.
    platform: str
    #: Without weights: a slave, which runs on the weights of a master with equal ones.
    weightless: bool = False

    def __post_init__(self) -> None:
        """Raise ModelError for an unknown platform, or one whose weights cannot be left out."""
        platform = find_platform(self.platform)
        if self.weightless:
            platform.check_weightless()

    @property
    def file_name(self) -> str:
        """Name of the `.rknn` file in the cache."""
        parts = [self.source.name, str(self.source.size), f"seed{self.source.seed}", self.platform]
        parts += ["weightless"] if self.weightless else []
        parts += [f"toolkit{TOOLKIT_VERSION}", f"v{EMISSION_VERSION}.{CONVERSION_VERSION}"]
        return "-".join(parts) + ".rknn"


@dataclass(frozen=True)
class MegEngineRecipe:
    """What makes a `.mge` file."""

    #: What is built, with the weights of the ONNX file.
    source: Recipe

    @property
    def file_name(self) -> str:
        """Name of the `.mge` file in the cache."""
        versions = f"megengine{MEGENGINE_VERSION}-v{EMISSION_VERSION}.{MEGENGINE_CONVERSION_VERSION}"
        return f"{self.source.name}-{self.source.size}-seed{self.source.seed}-{versions}.mge"


#: Of any kind of file.
AnyRecipe = Union[Recipe, RknnRecipe, MegEngineRecipe]
