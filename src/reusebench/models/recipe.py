"""What makes one model file: network, input size and seed, or a user's ONNX file; and for what it
is converted.
"""

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

#: Part of every cached file's name: raise it whenever a recipe would give other bytes than before,
#: be it by a description, the weights or the emitter, so that no stale file is measured. v1: the
#: first.
EMISSION_VERSION = 1

#: Also part of the name of every cached .rknn file: raise it when the options or the calibration of
#: the conversion change. v1: the first.
CONVERSION_VERSION = 1

#: Seeds are 32 bits wide: enough for any number of models, and file names stay short.
_LARGEST_SEED = 2**32 - 1

#: Of a user's file in the names of what is made of it: file systems allow names of 255 bytes.
_LABEL_CHARACTERS = 40
_DIGEST_DIGITS = 24


@dataclass(frozen=True)
class Recipe:
    """Network, size and seed of a model file; an invalid one raises a ModelError that lists what is
    valid.
    """

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
        """Return the description."""
        return find_network(self.name).make(self.size)

    @property
    def label(self) -> str:
        """What the names of its files begin with."""
        return f"{self.name}-{self.size}-seed{self.seed}"

    @property
    def file_name(self) -> str:
        """Name of the ONNX file in the cache."""
        return f"{self.label}-v{EMISSION_VERSION}.onnx"

    @property
    def inputs(self) -> tuple[InputData, ...]:
        """What the ONNX file takes."""
        return (InputData(INPUT_NAME, "float32", self.network().input_shape),)


#: Operators of quantised ONNX files, as they stand in the file.
_QUANTISED = (b"QuantizeLinear", b"DequantizeLinear", b"QLinear")


@dataclass(frozen=True)
class OnnxFile:
    """A user's ONNX file, with what its inputs are converted for."""

    #: Absolute.
    path: str
    #: SHA-256 of the file with the external data that it names, of the shapes and of the data of
    #: its inputs.
    digest: str
    #: In the file's order.
    inputs: tuple[InputData, ...]
    #: Whether the file leaves sizes free, which the inputs' shapes fix.
    has_free_sizes: bool

    @property
    def is_quantised(self) -> bool:
        """Whether it has scales already: the toolkit keeps them, and refuses to make others."""
        with (
            Path(self.path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return any(content.find(operator) >= 0 for operator in _QUANTISED)

    @property
    def label(self) -> str:
        """What the names of files that are made of it begin with."""
        stem = re.sub(r"[^\w.-]", "_", Path(self.path).stem)
        return f"{stem[:_LABEL_CHARACTERS]}-{self.digest[:_DIGEST_DIGITS]}"


@dataclass(frozen=True)
class RknnRecipe:
    """What makes a `.rknn` file; an invalid one raises a ModelError that lists what is valid."""

    #: The ONNX file that is converted.
    source: Union[Recipe, OnnxFile]
    #: The chip as rknn-toolkit2 names it.
    platform: str
    #: Without weights: a slave, which runs on the weights of a master with equal ones.
    weightless: bool = False
    #: INT8; else floating point. A source that is quantised already stays as it is.
    quantised: bool = True

    @property
    def calibrates(self) -> bool:
        """Whether the toolkit quantises it, calibrated with the data of the source's inputs, or
        with noise.
        """
        return self.quantised and not (
            isinstance(self.source, OnnxFile) and self.source.is_quantised
        )

    def __post_init__(self) -> None:
        """Raise ModelError for an unknown platform, or one that cannot have what is wanted."""
        platform = find_platform(self.platform)
        if self.weightless:
            platform.check_weightless()
        if not self.quantised:
            platform.check_floats()

    @property
    def precision(self) -> str:
        """What the NPU computes with."""
        is_int8 = self.quantised or (isinstance(self.source, OnnxFile) and self.source.is_quantised)
        return "INT8" if is_int8 else "FP16"

    @property
    def form(self) -> str:
        """What distinguishes the files that are made of one source."""
        parts = [self.platform]
        parts += ["weightless"] if self.weightless else []
        parts += [] if self.quantised else ["float"]
        return "-".join(
            [*parts, f"toolkit{TOOLKIT_VERSION}", f"v{EMISSION_VERSION}.{CONVERSION_VERSION}"]
        )

    @property
    def file_name(self) -> str:
        """Name of the `.rknn` file in the cache."""
        return f"{self.source.label}-{self.form}.rknn"


@dataclass(frozen=True)
class NativeForm:
    """The files of one kind that one version of a converter makes: float32, with the weights of
    their source.
    """

    #: How their names end.
    kind: str
    #: The converter with its version, as it stands in their names.
    by: str
    #: Raised whenever the converter is called in another way, so that no stale file is measured.
    revision: int
    #: How the name of the file with the weights ends, which is beside each; None: each is one file.
    weights: str | None = None


@dataclass(frozen=True)
class NativeRecipe:
    """What makes a file of a runtime's own kind."""

    source: Union[Recipe, OnnxFile]
    native: NativeForm

    @property
    def form(self) -> str:
        """What distinguishes the files that are made of one source."""
        return f"{self.native.by}-v{EMISSION_VERSION}.{self.native.revision}"

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return f"{self.source.label}-{self.form}{self.native.kind}"

    @property
    def precision(self) -> str:
        """What it computes with."""
        return "FP32"

    @property
    def calibrates(self) -> bool:
        """Nothing is quantised."""
        return False


#: Of any file that is converted.
ConvertedRecipe = Union[RknnRecipe, NativeRecipe]
#: Of any kind of file.
AnyRecipe = Union[Recipe, ConvertedRecipe]
