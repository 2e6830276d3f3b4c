"""Model files as the user gives them, and their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from reusebench.measured.plan import Model
from reusebench.measured.runtimes.base import InputData
from reusebench.models import OnnxFile, Recipe
from reusebench.models.model_kinds import language_file
from reusebench.models.weight_files import weight_files
from reusebench.system.user_files import Pins, UserFileError, check_file

__all__ = [
    "AdapterFile",
    "InputShape",
    "ModelFile",
    "built_in_model",
    "digest_with_inputs",
    "is_unchanged",
    "model_digest",
]


@dataclass(frozen=True)
class InputShape:
    """The value of --shape, such as NAME=1x3x320x320."""

    #: Name of the input; None: the only input.
    name: str | None
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelFile:
    """A file as the user gives it."""

    path: Path
    #: The option that gives it, for errors.
    option: str = "--model"
    #: The same model without its weights: --resolution FILE,WEIGHTLESS.
    weightless: Path | None = None

    @classmethod
    def of_path(cls, path: Path, option: str = "--model") -> ModelFile:
        """Return the file of a path; in the folder of a language model, the file that tells it."""
        return cls(language_file(path), option)


@dataclass(frozen=True)
class AdapterFile:
    """The value of --adapter: an adapter (LoRA) over a model."""

    file: ModelFile
    #: The model that the adapter is merged into; None: there is nothing to compare with.
    merged: ModelFile | None = None

    @property
    def files(self) -> list[ModelFile]:
        """Its files."""
        return [self.file, self.merged] if self.merged else [self.file]


def model_digest(path: Path, pins: Pins) -> str:
    """Return the SHA-256 of the file and of its weight files beside it; raise UserFileError."""
    return pins.digest(check_file(path), *weight_files(path))


def digest_with_inputs(digest: str, inputs: Sequence[InputData], arrays_digest: str) -> str:
    """Return the digest of a model with these inputs, whose files it ignores: `arrays_digest` has
    their content.
    """
    values = []
    for tensor in inputs:
        fields = asdict(replace(tensor, file=None, assumed=()))
        del fields["doubtful"]
        values.append(fields)
    has_data = any(tensor.file for tensor in inputs)
    parts = [digest, values, arrays_digest if has_data else ""]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def built_in_model(pins: Pins, recipe: Recipe, path: Path, weightless: Path | None = None) -> Model:
    """Return a model of the built-in set, whose file tells all of its inputs."""
    return Model(
        path.stem,
        str(path),
        model_digest(path, pins),
        weightless=str(weightless) if weightless else None,
        origin=recipe.label,
    )


def is_unchanged(model: Model, pins: Pins) -> bool:
    """Whether a stored model's file still has the content that its digest was taken of."""
    conversion = model.conversion
    path = model.path
    inputs = model.inputs
    if conversion:
        path = conversion.source
        inputs = conversion.inputs
    try:
        digest = model_digest(Path(path), pins)
        model_digest(Path(model.path), pins)
    except UserFileError:
        return False

    # The folder of unpacked arrays has their digest as its name.
    arrays_digest = next((Path(tensor.file).parent.name for tensor in inputs if tensor.file), "")
    digests = (digest, digest_with_inputs(digest, inputs, arrays_digest))
    if conversion is None:
        return model.digest in digests
    labels = [OnnxFile(path, known, inputs, has_free_sizes=False).label for known in digests]
    return Path(model.path).name.startswith(tuple(labels))
