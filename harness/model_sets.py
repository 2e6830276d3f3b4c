"""Which model files a session measures: the user's, or the built-in ones in the form that the runtime reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import models
from harness.errors import ModelFileEmpty, ModelFileMissing, ModelNotBuilt, ResolutionsMissing
from scenarios.catalogue import IN_TURN, RESOLUTIONS
from scenarios.plan import Model

__all__ = ["BuiltIn", "ModelSets", "Resolution"]

#: The runtime whose models rknn-toolkit2 makes, for one chip.
_RKNN = "rknn"


@dataclass(frozen=True)
class BuiltIn:
    """The built-in models, as pairs of a network's name and its input size."""

    #: One network for all streams; each stream has a seed of its own.
    stream: tuple[str, int]
    in_turn: tuple[tuple[str, int], ...]
    #: One network; the first size has the weights of all.
    resolutions: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Resolution:
    """One resolution of the user's network: --resolution FILE[,WEIGHTLESS]."""

    file: Path
    weightless: Path | None


@dataclass
class ModelSets:
    """The models of each set, built or read once."""

    built_in: BuiltIn
    streams: int
    #: The user's --model and --resolution; empty: the built-in ones.
    files: Sequence[Path] = ()
    resolutions: Sequence[Resolution] = ()
    #: The chip that RKNN models are for; None: not known.
    chip: str | None = None
    _found: dict[tuple[str, str], tuple[Model, ...]] = field(default_factory=dict)

    def of(self, runtime: str, model_set: str) -> tuple[Model, ...]:
        """Return the models of a set for a runtime; raise UserError where they cannot be had."""
        key = (runtime, model_set)
        if key not in self._found:
            self._found[key] = self._find(runtime, model_set)
        return self._found[key]

    def _find(self, runtime: str, model_set: str) -> tuple[Model, ...]:
        if model_set == RESOLUTIONS:
            return self._resolutions(runtime)
        if self.files:
            return tuple(_model(path) for path in self.files)
        if model_set == IN_TURN:
            return tuple(_model(self._build(runtime, name, size, 1)) for name, size in self.built_in.in_turn)
        name, size = self.built_in.stream
        return tuple(_model(self._build(runtime, name, size, seed)) for seed in range(1, self.streams + 1))

    def _resolutions(self, runtime: str) -> tuple[Model, ...]:
        if self.resolutions:
            return tuple(_model(each.file, each.weightless) for each in self.resolutions)
        if self.files:
            raise ResolutionsMissing
        found: list[Model] = []
        for name, size in self.built_in.resolutions:
            # The first has the weights that the others share.
            weightless = self._weightless(runtime, name, size) if found else None
            found.append(_model(self._build(runtime, name, size, 1), weightless))
        return tuple(found)

    def _build(self, runtime: str, name: str, size: int, seed: int) -> Path:
        try:
            if runtime == _RKNN:
                return models.ensure_rknn(name, size, seed, self.chip)
            return models.ensure(name, size, seed)
        except models.ModelError as error:
            raise ModelNotBuilt(error) from None

    def _weightless(self, runtime: str, name: str, size: int) -> Path | None:
        if runtime != _RKNN or not models.can_remove_weights(self.chip):
            return None
        try:
            return models.ensure_rknn(name, size, 1, self.chip, weightless=True)
        except models.ModelError as error:
            raise ModelNotBuilt(error) from None


def _model(path: Path, weightless: Path | None = None) -> Model:
    path = _checked(path)
    return Model(path.stem, str(path), _digest(path), weightless=str(_checked(weightless)) if weightless else None)


def _checked(path: Path) -> Path:
    path = path.resolve()
    if not path.is_file():
        raise ModelFileMissing(path)
    if path.stat().st_size == 0:
        raise ModelFileEmpty(path)
    return path


def _digest(path: Path) -> str:
    """Return the SHA-256 of the file and of every file beside it that it names: ONNX keeps large weights there."""
    content = path.read_bytes()
    digest = hashlib.sha256(content)
    for sibling in sorted(path.parent.iterdir()):
        if sibling != path and sibling.is_file() and len(sibling.name) > 3 and sibling.name.encode() in content:
            digest.update(sibling.read_bytes())
    return digest.hexdigest()
