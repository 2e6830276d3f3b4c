"""Recipes of model files: the source, a built-in network or a user's ONNX file, and the target."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from reusebench.measured.runtimes.base import InputData
from reusebench.models.errors import ModelError
from reusebench.models.networks import find_network
from reusebench.models.networks.network import INPUT_NAME, Network
from reusebench.models.platforms import TOOLKIT_VERSION, find_platform

__all__ = [
    "CONVERSION_VERSION",
    "EMISSION_VERSION",
    "AnyRecipe",
    "ConvertedRecipe",
    "NativeForm",
    "NativeRecipe",
    "OnnxFile",
    "Recipe",
    "RknnRecipe",
]

#: Part of every cached file's name. Raise it whenever a recipe gives other bytes than before, so
#: that no stale file is measured: a description, the weights or the emitter changed. v1: the first.
EMISSION_VERSION = 1

#: Additional part of the names of cached .rknn files. Raise it when the options or the calibration
#: of the conversion change. v1: the first.
CONVERSION_VERSION = 1

#: Seeds are 32 bits wide: enough for any number of models, and file names stay short.
_LARGEST_SEED = 2**32 - 1

#: Parts of a user's file in the names of converted files; file systems allow names of 255 bytes.
_LABEL_CHARACTERS = 40
_DIGEST_DIGITS = 24


@dataclass(frozen=True)
class Recipe:
    """Network, size and seed of a model file; ModelError lists the valid values."""

    #: Name of the network.
    name: str
    #: Height of the input in pixels; the width follows from it.
    size: int
    #: Another seed gives other weights in every layer.
    seed: int

    def __post_init__(self) -> None:
        """Raise ModelError for an unknown network, an invalid size or an invalid seed."""
        find_network(self.name).check_size(self.size)
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise ModelError(
                f"seed {self.seed} is not valid; valid: a whole number from 0 to {_LARGEST_SEED}"
            )

    def network(self) -> Network:
        """Return the description of the network at this size."""
        return find_network(self.name).make(self.size)

    @property
    def label(self) -> str:
        """Beginning of the names of all files made from this recipe."""
        return f"{self.name}-{self.size}-seed{self.seed}"

    @property
    def file_name(self) -> str:
        """Name of the ONNX file in the cache."""
        return f"{self.label}-v{EMISSION_VERSION}.onnx"

    @property
    def inputs(self) -> tuple[InputData, ...]:
        """The inputs of the ONNX file."""
        return (InputData(INPUT_NAME, "float32", self.network().input_shape),)


#: Names of operators that only quantised ONNX files have, as bytes of the file.
_QUANTISED = (b"QuantizeLinear", b"DequantizeLinear", b"QLinear")


@dataclass(frozen=True)
class OnnxFile:
    """A user's ONNX file, with the inputs that it is converted for."""

    #: Absolute path.
    path: str
    #: SHA-256 of the file, its external data, and the shapes and the data of its inputs.
    digest: str
    #: Inputs in the file's order.
    inputs: tuple[InputData, ...]
    #: Whether the file leaves sizes free; the shapes of the inputs fix them.
    has_free_sizes: bool

    @property
    def is_quantised(self) -> bool:
        """Whether the file is quantised already; the toolkit keeps its scales."""
        with (
            Path(self.path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return any(content.find(operator) >= 0 for operator in _QUANTISED)

    @property
    def label(self) -> str:
        """Beginning of the names of all files made from this one."""
        stem = re.sub(r"[^\w.-]", "_", Path(self.path).stem)
        return f"{stem[:_LABEL_CHARACTERS]}-{self.digest[:_DIGEST_DIGITS]}"


@dataclass(frozen=True)
class RknnRecipe:
    """Recipe of a `.rknn` file; ModelError lists the valid values."""

    #: The ONNX file to convert.
    source: Union[Recipe, OnnxFile]
    #: The chip as rknn-toolkit2 names it.
    platform: str
    #: Whether weights are left out: such a slave runs on the equal weights of a master.
    weightless: bool = False
    #: INT8 if True, otherwise floating point. An already quantised source stays as it is.
    quantised: bool = True

    @property
    def calibrates(self) -> bool:
        """Whether the toolkit quantises the file, calibrated with the inputs' data or noise."""
        return self.quantised and not self._has_quantised_source

    def __post_init__(self) -> None:
        """Raise ModelError if the platform is unknown or does not support the options."""
        platform = find_platform(self.platform)
        if self.weightless:
            platform.check_weightless()
        if not self.quantised:
            platform.check_floats()

    @property
    def precision(self) -> str:
        """Number format that the NPU computes with."""
        return "INT8" if self.quantised or self._has_quantised_source else "FP16"

    @property
    def form(self) -> str:
        """Part of the file name that distinguishes files made from one source."""
        parts = [self.platform]
        if self.weightless:
            parts.append("weightless")
        if not self.quantised:
            parts.append("float")
        parts.append(f"toolkit{TOOLKIT_VERSION}")
        parts.append(f"v{EMISSION_VERSION}.{CONVERSION_VERSION}")
        return "-".join(parts)

    @property
    def file_name(self) -> str:
        """Name of the `.rknn` file in the cache."""
        return f"{self.source.label}-{self.form}.rknn"

    @property
    def _has_quantised_source(self) -> bool:
        return isinstance(self.source, OnnxFile) and self.source.is_quantised


_FLOATS = "FP32"


@dataclass(frozen=True)
class NativeForm:
    """The format that one version of a converter writes, with the source's weights."""

    #: Suffix of the files.
    kind: str
    #: Converter and version, as part of the file names.
    by: str
    #: Raise it whenever the converter is called in another way, so that no stale file is measured.
    revision: int
    #: Suffix of the separate file with the weights; None if one file has everything.
    weights: str | None = None
    #: Number format that the runtime computes with; FP32 files are not quantised.
    precision: str = _FLOATS


@dataclass(frozen=True)
class NativeRecipe:
    """Recipe of a file in a runtime's own format."""

    source: Union[Recipe, OnnxFile]
    native: NativeForm

    @property
    def form(self) -> str:
        """Part of the file name that distinguishes files made from one source."""
        return f"{self.native.by}-v{EMISSION_VERSION}.{self.native.revision}"

    @property
    def file_name(self) -> str:
        """Name of the file in the cache."""
        return f"{self.source.label}-{self.form}{self.native.kind}"

    @property
    def precision(self) -> str:
        """Number format that the runtime computes with."""
        return self.native.precision

    @property
    def calibrates(self) -> bool:
        """Whether the file is quantised, calibrated with the inputs' data or noise."""
        return self.native.precision != _FLOATS


ConvertedRecipe = Union[RknnRecipe, NativeRecipe]
AnyRecipe = Union[Recipe, ConvertedRecipe]
