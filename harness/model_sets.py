"""Which model files a session measures: the user's, or the built-in ones in the form that the runtime reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from harness.errors import ChipUnknown, ModelFileEmpty, ModelFileMissing, ModelNotBuilt, ResolutionsMissing
from models import ModelError, Recipe, RknnRecipe, ensure, ensure_rknn_all
from models.rknn_platforms import find_platform
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
            recipes = [Recipe(name, size, seed=1) for name, size in self.built_in.in_turn]
        else:
            name, size = self.built_in.stream
            recipes = [Recipe(name, size, seed) for seed in range(1, self.streams + 1)]
        return tuple(map(_model, self._build(runtime, recipes)))

    def _resolutions(self, runtime: str) -> tuple[Model, ...]:
        if self.resolutions:
            return tuple(_model(each.file, each.weightless, option="--resolution") for each in self.resolutions)
        if self.files:
            raise ResolutionsMissing
        recipes = [Recipe(name, size, seed=1) for name, size in self.built_in.resolutions]
        files = self._build(runtime, recipes)
        # The first has the weights that the others share.
        weightless = [None, *self._build(runtime, recipes[1:], weightless=True)] if self._removes(runtime) else []
        return tuple(_model(*each) for each in zip_longest(files, weightless))

    def _build(self, runtime: str, recipes: Sequence[Recipe], weightless: bool = False) -> list[Path]:
        try:
            if runtime == _RKNN:
                return ensure_rknn_all([RknnRecipe(each, self._known_chip(), weightless) for each in recipes])
            return [ensure(each.name, each.size, each.seed) for each in recipes]
        except ModelError as error:
            raise ModelNotBuilt(error) from None

    def _removes(self, runtime: str) -> bool:
        """Whether there are files without weights for the runtime."""
        try:
            return runtime == _RKNN and find_platform(self._known_chip()).removes_weights
        except ModelError as error:
            raise ModelNotBuilt(error) from None

    def _known_chip(self) -> str:
        if self.chip is None:
            raise ChipUnknown
        return self.chip


def _model(path: Path, weightless: Path | None = None, option: str = "--model") -> Model:
    """Return the model; `option` is the one that gave it, which an error names."""
    path = _checked(path, option)
    without_weights = str(_checked(weightless, option)) if weightless else None
    return Model(path.stem, str(path), _digest(path), weightless=without_weights)


def _checked(path: Path, option: str) -> Path:
    path = path.resolve()
    if not path.is_file():
        raise ModelFileMissing(option, path)
    if path.stat().st_size == 0:
        raise ModelFileEmpty(option, path)
    return path


def _digest(path: Path) -> str:
    """Return the SHA-256 of the file and of every file beside it that it names: ONNX keeps large weights there."""
    content = path.read_bytes()
    digest = hashlib.sha256(content)
    for sibling in sorted(path.parent.iterdir()):
        if sibling != path and sibling.is_file() and len(sibling.name) > 3 and sibling.name.encode() in content:
            digest.update(sibling.read_bytes())
    return digest.hexdigest()
