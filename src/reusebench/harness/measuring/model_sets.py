"""Which model files a session measures: the user's, or the built-in ones in the form that the
runtime reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reusebench.harness.errors import NoModels, UserError
from reusebench.harness.measuring.model_files import (
    InputShape,
    ModelFile,
    built_in_model,
    is_unchanged,
)
from reusebench.harness.measuring.model_remarks import assumptions, conversion_text
from reusebench.harness.measuring.user_models import UserModels
from reusebench.harness.plans.plan_file import PlanFile, PlanModel
from reusebench.measured.plan import Model
from reusebench.measured.runtimes import RuntimeEntry, find_runtime
from reusebench.models import ModelError, Recipe, can_be_weightless, ensure_all
from reusebench.scenarios.catalogue import (
    CYCLES,
    FRAMES_4K,
    FRAMES_1080P,
    IN_TURN,
    RESOLUTIONS,
    STREAMS,
)
from reusebench.system.cache import CacheError
from reusebench.system.user_files import Pins

__all__ = ["BuiltIn", "ModelSets"]

#: What the user may give instead of built-in models.
_INSTEAD = {
    **dict.fromkeys((STREAMS, IN_TURN, CYCLES), "--model FILE"),
    RESOLUTIONS: "--resolution FILE[,WEIGHTLESS]",
}
#: The network that takes a camera frame and gives one, and its rows.
_FRAMES = {FRAMES_1080P: ("frame", 1080), FRAMES_4K: ("frame", 2160)}
#: What is made and run again and again: small, so that there are many cycles in little time.
_OF_CYCLES = ("mobilenet_v2", 96)


@dataclass(frozen=True)
class BuiltIn:
    """The built-in models, as pairs of a network's name and its input size."""

    #: One network for all streams; each stream has a seed of its own.
    stream: tuple[str, int]
    in_turn: tuple[tuple[str, int], ...]
    #: One network; the first size has the weights of all.
    resolutions: tuple[tuple[str, int], ...]

    def recipes(self, model_set: str, streams: int) -> list[Recipe]:
        """Return what the models of a set are made from."""
        if model_set in _FRAMES:
            return [Recipe(*_FRAMES[model_set], seed=1)]
        if model_set == CYCLES:
            return [Recipe(*_OF_CYCLES, seed=1)]
        if model_set == STREAMS:
            name, size = self.stream
            return [Recipe(name, size, seed) for seed in range(1, streams + 1)]
        networks = self.in_turn if model_set == IN_TURN else self.resolutions
        return [Recipe(name, size, seed=1) for name, size in networks]


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
    #: By runtime and set: the models, or why there are none, since a conversion that fails takes
    #: its time too.
    _known: dict[tuple[str, str], tuple[Model, ...] | NoModels] = field(default_factory=dict)

    def of(self, runtime: str, model_set: str) -> tuple[Model, ...]:
        """Return the models of a set for a runtime; raise UserError if they cannot be had."""
        key = (runtime, model_set)
        if key not in self._known:
            try:
                self._known[key] = self._models(find_runtime(runtime), model_set)
            except NoModels as error:
                self._known[key] = error
            except (CacheError, ModelError) as error:
                instead = (
                    f". Give your own with {_INSTEAD[model_set]}" if model_set in _INSTEAD else ""
                )
                self._known[key] = NoModels(
                    f"a built-in model could not be built: {error}{instead}"
                )
        models = self._known[key]
        if isinstance(models, NoModels):
            raise models
        return models

    def changed(self, files: Sequence[ModelFile], streams: int) -> ModelSets:
        """Return the models with other files, or of another number of streams; files are still read
        once.
        """
        return replace(self, files=files, streams=streams, _known={})

    def assumptions(self) -> list[str]:
        """Return what was assumed of the models that were asked for, made of them and left out, a
        line each.
        """
        models = [
            model
            for of_set in self._known.values()
            if not isinstance(of_set, NoModels)
            for model in of_set
        ]
        lines = [text(model) for model in models for text in (assumptions, conversion_text)]
        return list(dict.fromkeys(filter(None, lines + self.user.left_out)))

    def _models(self, runtime: RuntimeEntry, model_set: str) -> tuple[Model, ...]:
        if model_set == RESOLUTIONS:
            return self._resolutions(runtime)
        if self.files:
            if model_set in _FRAMES:
                raise NoModels(
                    "--model is given, and this scenario needs the built-in network that takes and"
                    " returns a camera frame. Leave --model out to measure it"
                )
            return self.user.of(runtime, self.files)
        recipes = self.built_in.recipes(model_set, self.streams)
        return tuple(map(self._built_in, recipes, self._built(runtime, recipes)))

    def _resolutions(self, runtime: RuntimeEntry) -> tuple[Model, ...]:
        if self.resolutions:
            return self.user.of(runtime, self.resolutions, slaves=self.resolutions[1:])
        if self.files:
            raise NoModels(
                "--model is given without --resolution: weights are shared between resolutions of"
                " one network. Give each with --resolution FILE[,WEIGHTLESS], the one with the"
                " weights first"
            )
        recipes = self.built_in.recipes(RESOLUTIONS, self.streams)
        files = self._built(runtime, recipes)
        # The first has the weights that the others share.
        return tuple(
            map(self._built_in, recipes, files, [None, *self._weightless(runtime, recipes[1:])])
        )

    def of_plan(self, runtime: str, plan: PlanFile) -> tuple[Model, ...]:
        """Return the models of a user's plan for a runtime; raise UserError if they cannot be
        had.
        """
        key = (runtime, plan.scenarios[0])
        if key not in self._known:
            try:
                self._known[key] = self._of_plan(find_runtime(runtime), plan)
            except NoModels as error:
                self._known[key] = error
            except (CacheError, ModelError) as error:
                self._known[key] = NoModels(
                    f"{plan.document.title}: a network could not be built: {error}"
                )
        models = self._known[key]
        if isinstance(models, NoModels):
            raise models
        return models

    def _of_plan(self, runtime: RuntimeEntry, plan: PlanFile) -> tuple[Model, ...]:
        if plan.runtime not in (None, runtime.name):
            raise NoModels(
                f"{plan.document.title} was measured on {plan.runtime}: add --runtime"
                f" {plan.runtime}"
            )
        networks = [model for model in plan.models if isinstance(model.source, Recipe)]
        # Those that have the weights of another one need none of their own.
        slaves = [model for model in networks if model in plan.slaves]
        files = dict(zip(networks, self._built(runtime, [model.recipe for model in networks])))
        weightless = dict(
            zip(slaves, self._weightless(runtime, [model.recipe for model in slaves]))
        )
        models = []
        for model in plan.models:
            if model in files:
                made = self._built_in(model.recipe, files[model], weightless.get(model))
                models.append(replace(made, name=model.name))
            elif isinstance(model.source, Model):
                models.append(_stored(model.source, plan, self.user.pins))
            else:
                models.append(self._user_model(runtime, plan, model))
        return tuple(models)

    def _user_model(self, runtime: RuntimeEntry, plan: PlanFile, model: PlanModel) -> Model:
        """Return the model of a file, with the inputs that the plan gives it."""
        shapes = [InputShape(name, sizes) for name, sizes in model.shape]
        of_session = self.user
        user = UserModels(
            of_session.targets,
            of_session.time_limit_s,
            shapes,
            model.inputs,
            of_session.quantised,
            of_session.pins,
        )
        path = Path(str(model.source))
        file = ModelFile(path, "file", model.weightless)
        try:
            (read,) = user.of(runtime, [file], slaves=[file] if model in plan.slaves else ())
        except UserError as error:
            raise type(error)(
                str(plan.document.error(("models", model.name), str(error)))
            ) from None
        # Behind the file's name stand shapes that the file leaves free, and the precision of a
        # conversion.
        return replace(read, name=model.name + read.name[len(path.stem) :])

    def _built_in(self, recipe: Recipe, path: Path, weightless: Path | None = None) -> Model:
        return built_in_model(self.user.pins, recipe, path, weightless)

    def _built(self, runtime: RuntimeEntry, recipes: Sequence[Recipe]) -> list[Path]:
        return (
            ensure_all(runtime.suffix, recipes, self.chip, quantised=self.user.quantised)
            if recipes
            else []
        )

    def _weightless(self, runtime: RuntimeEntry, recipes: Sequence[Recipe]) -> list[Path | None]:
        """Return files of these networks without weights; None for each if there are no such
        files.
        """
        if not recipes or not can_be_weightless(runtime.suffix, self.chip):
            return [None] * len(recipes)
        files = ensure_all(
            runtime.suffix, recipes, self.chip, weightless=True, quantised=self.user.quantised
        )
        return list(files)


def _stored(model: Model, plan: PlanFile, pins: Pins) -> Model:
    """Return a model as a plan was stored with it; raise UserError if its file is another one
    now.
    """
    if not is_unchanged(model, pins):
        raise UserError(
            f"{plan.document.title}: {model.path} has changed since the plan was stored. Put the"
            " old file back, or write a plan file with the new one (docs/plans.md)"
        )
    return model
