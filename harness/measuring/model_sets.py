"""Which model files a session measures: the user's, or the built-in ones in the form that the runtime reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cache import CacheError
from harness.errors import NoModels
from harness.measuring.user_models import ModelFile, UserModels, assumptions, built_in_model
from models import ModelError, Recipe, can_be_weightless, ensure_all
from runtimes import RuntimeEntry, find_runtime
from scenarios.catalogue import FRAMES_4K, FRAMES_1080P, IN_TURN, RESOLUTIONS, STREAMS
from scenarios.plan import Model

__all__ = ["BuiltIn", "ModelSets"]

#: What the user may give instead of built-in models.
_INSTEAD = {STREAMS: "--model FILE", IN_TURN: "--model FILE", RESOLUTIONS: "--resolution FILE[,WEIGHTLESS]"}
#: The network that takes a camera frame and gives one, and its rows.
_FRAMES = {FRAMES_1080P: ("frame", 1080), FRAMES_4K: ("frame", 2160)}


@dataclass(frozen=True)
class BuiltIn:
    """The built-in models, as pairs of a network's name and its input size."""

    #: One network for all streams; each stream has a seed of its own.
    stream: tuple[str, int]
    in_turn: tuple[tuple[str, int], ...]
    #: One network; the first size has the weights of all.
    resolutions: tuple[tuple[str, int], ...]


@dataclass
class ModelSets:
    """The models of each set, built or read once."""

    built_in: BuiltIn
    streams: int
    user: UserModels
    #: The user's --model and --resolution; empty: the built-in ones.
    files: Sequence[ModelFile] = ()
    resolutions: Sequence[ModelFile] = ()
    #: The chip that RKNN models are for; None: not known.
    chip: str | None = None
    #: By runtime and set: the models, or why there are none, since a conversion that fails takes its time too.
    _known: dict[tuple[str, str], tuple[Model, ...] | NoModels] = field(default_factory=dict)

    def of(self, runtime: str, model_set: str) -> tuple[Model, ...]:
        """Return the models of a set for a runtime; raise UserError where they cannot be had."""
        key = (runtime, model_set)
        if key not in self._known:
            try:
                self._known[key] = self._models(find_runtime(runtime), model_set)
            except NoModels as error:
                self._known[key] = error
            except (CacheError, ModelError) as error:
                instead = f". Give your own with {_INSTEAD[model_set]}" if model_set in _INSTEAD else ""
                self._known[key] = NoModels(f"a built-in model could not be built: {error}{instead}")
        models = self._known[key]
        if isinstance(models, NoModels):
            raise models
        return models

    def assumptions(self) -> list[str]:
        """Return what was assumed of the inputs of the models that were asked for, a line for each model."""
        models = [model for of_set in self._known.values() if not isinstance(of_set, NoModels) for model in of_set]
        return list(dict.fromkeys(filter(None, map(assumptions, models))))

    def _models(self, runtime: RuntimeEntry, model_set: str) -> tuple[Model, ...]:
        if model_set == RESOLUTIONS:
            return self._resolutions(runtime)
        if self.files:
            if model_set in _FRAMES:
                raise NoModels(
                    "--model is given, and this scenario needs the built-in network that takes and returns a camera "
                    "frame. Leave --model out to measure it"
                )
            return self.user.of(runtime, self.files)
        return tuple(map(built_in_model, ensure_all(runtime.suffix, self._recipes(model_set), self.chip)))

    def _recipes(self, model_set: str) -> list[Recipe]:
        """Return what the built-in models of a set are made from."""
        if model_set in _FRAMES:
            return [Recipe(*_FRAMES[model_set], seed=1)]
        if model_set == IN_TURN:
            return [Recipe(name, size, seed=1) for name, size in self.built_in.in_turn]
        name, size = self.built_in.stream
        return [Recipe(name, size, seed) for seed in range(1, self.streams + 1)]

    def _resolutions(self, runtime: RuntimeEntry) -> tuple[Model, ...]:
        if self.resolutions:
            return self.user.of(runtime, self.resolutions)
        if self.files:
            raise NoModels(
                "--model is given without --resolution: weights are shared between resolutions of one network. Give "
                "each with --resolution FILE[,WEIGHTLESS], the one with the weights first"
            )
        recipes = [Recipe(name, size, seed=1) for name, size in self.built_in.resolutions]
        files = ensure_all(runtime.suffix, recipes, self.chip)
        weightless: list[Path | None] = [None] * len(files)
        if can_be_weightless(runtime.suffix, self.chip):
            # The first has the weights that the others share.
            weightless[1:] = ensure_all(runtime.suffix, recipes[1:], self.chip, weightless=True)
        return tuple(map(built_in_model, files, weightless))
