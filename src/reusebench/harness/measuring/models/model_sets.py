"""The models of a session: the user's, or built-in ones in the form that each runtime reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reusebench.harness.errors import NoModels, UserError
from reusebench.harness.measuring.models.model_files import (
    AdapterFile,
    InputShape,
    ModelFile,
    built_in_model,
    is_unchanged,
    model_digest,
)
from reusebench.harness.measuring.models.model_remarks import assumptions, conversion_text
from reusebench.harness.measuring.models.user_models import UserModels
from reusebench.harness.plans.plan_file import PlanFile, PlanModel
from reusebench.measured.plan import Model
from reusebench.measured.runtimes import RuntimeEntry, find_runtime
from reusebench.models import ModelError, Recipe, can_be_weightless, ensure_all
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.models.model_kinds import built_in_kind, model_name
from reusebench.scenarios.catalogue import (
    ADAPTERS,
    CYCLES,
    FRAMES_4K,
    FRAMES_1080P,
    IN_TURN,
    MERGED,
    RESOLUTIONS,
    SESSIONS,
    STREAMS,
)
from reusebench.system.cache import CacheError
from reusebench.system.user_files import Pins

__all__ = ["MOBILE", "BuiltIn", "ModelSets"]

#: Options that replace the built-in models of a set.
_INSTEAD = {
    **dict.fromkeys((STREAMS, IN_TURN, CYCLES, SESSIONS), "--model FILE"),
    **dict.fromkeys((ADAPTERS, MERGED), "--model FILE and --adapter FILE,MERGED"),
    RESOLUTIONS: "--resolution FILE[,WEIGHTLESS]",
}
#: The network that takes and returns a camera frame, and its number of rows.
_FRAMES = {FRAMES_1080P: ("frame", 1080), FRAMES_4K: ("frame", 2160)}
#: The network of scenarios with cycles: small, for many cycles in little time.
_CYCLES_MODEL = ("mobilenet_v2", 96)
_CYCLES_LANGUAGE_MODEL = "tiny_decoder"
#: Numbers of the built-in adapters, and the part of a recipe that each is in a set.
_ADAPTERS = (1, 2, 3)
_PARTS = {ADAPTERS: "adapter", MERGED: "merged"}


@dataclass(frozen=True)
class BuiltIn:
    """The built-in models, as pairs of a network's name and its input size."""

    #: One network for all streams; each stream has a seed of its own.
    stream: tuple[str, int]
    in_turn: tuple[tuple[str, int], ...]
    #: One network; the first size has the weights of all.
    resolutions: tuple[tuple[str, int], ...]

    def suiting(self, runtime: RuntimeEntry) -> BuiltIn:
        """Return these models, or those in place of them that the runtime can run."""
        return MOBILE if runtime.needs_mobile_networks else self

    def recipes(self, model_set: str, streams: int) -> list[Recipe]:
        """Return the recipes of a set's models."""
        if model_set in _FRAMES:
            return [Recipe(*_FRAMES[model_set], seed=1)]
        if model_set == CYCLES:
            return [Recipe(*_CYCLES_MODEL, seed=1)]
        if model_set == STREAMS:
            name, size = self.stream
            return [Recipe(name, size, seed) for seed in range(1, streams + 1)]
        networks = self.in_turn if model_set == IN_TURN else self.resolutions
        return [Recipe(name, size, seed=1) for name, size in networks]

    def language_recipes(self, model_set: str) -> list[LanguageRecipe]:
        """Return the recipes of the language models and adapters of a set."""
        if model_set == CYCLES:
            return [LanguageRecipe(_CYCLES_LANGUAGE_MODEL)]
        recipes = [LanguageRecipe()]
        part = _PARTS.get(model_set)
        if part:
            recipes += [LanguageRecipe(part=part, number=number) for number in _ADAPTERS]
        return recipes


#: Small networks, for a first look.
MOBILE = BuiltIn(
    stream=("mobilenet_v2", 224),
    in_turn=(("mobilenet_v2", 224), ("mobilenet_v2", 160)),
    resolutions=(("mobilenet_v2", 224), ("mobilenet_v2", 160), ("mobilenet_v2", 96)),
)


@dataclass
class ModelSets:
    """The models of each set, built or read once."""

    built_in: BuiltIn
    streams: int
    user: UserModels
    #: Files of --model and --resolution; empty: the built-in models.
    files: Sequence[ModelFile] = ()
    resolutions: Sequence[ModelFile] = ()
    #: Values of --adapter; empty: the built-in ones, if the model is.
    adapters: Sequence[AdapterFile] = ()
    #: The chip that RKNN models are for; None: not known.
    chip: str | None = None
    #: Key: runtime and set. The models, or why there are none: a conversion that fails takes its
    #: time, too.
    _known: dict[tuple[str, str], tuple[Model, ...] | NoModels] = field(default_factory=dict)

    def of(self, runtime: str, model_set: str) -> tuple[Model, ...]:
        """Return the models of a set for a runtime; raise NoModels or UserError."""

        def make() -> tuple[Model, ...]:
            try:
                return self._models(find_runtime(runtime), model_set)
            except (CacheError, ModelError) as error:
                instead = ""
                if model_set in _INSTEAD:
                    instead = f". Give your own with {_INSTEAD[model_set]}"
                raise NoModels(f"a built-in model could not be built: {error}{instead}") from None

        return self._made_once((runtime, model_set), make)

    def of_plan(self, runtime: str, plan: PlanFile) -> tuple[Model, ...]:
        """Return the models of a user's plan for a runtime; raise NoModels or UserError."""

        def make() -> tuple[Model, ...]:
            try:
                return self._models_of_plan(find_runtime(runtime), plan)
            except (CacheError, ModelError) as error:
                raise NoModels(
                    f"{plan.document.title}: a network could not be built: {error}"
                ) from None

        return self._made_once((runtime, plan.scenarios[0]), make)

    def changed(self, files: Sequence[ModelFile], streams: int) -> ModelSets:
        """Return the models with other files or for another number of streams.

        Files are still read once.
        """
        return replace(self, files=files, streams=streams, _known={})

    def assumptions(self) -> list[str]:
        """Return a line for each assumption about the models that were read or made, for each
        conversion, and for each file that was left out.
        """
        lines = []
        for models in self._known.values():
            if isinstance(models, NoModels):
                continue
            for model in models:
                lines += [assumptions(model), conversion_text(model)]
        lines += self.user.remarks
        return [line for line in dict.fromkeys(lines) if line]

    def _made_once(
        self, key: tuple[str, str], make: Callable[[], tuple[Model, ...]]
    ) -> tuple[Model, ...]:
        if key not in self._known:
            try:
                self._known[key] = make()
            except NoModels as error:
                self._known[key] = error
        models = self._known[key]
        if isinstance(models, NoModels):
            raise models
        return models

    def _models(self, runtime: RuntimeEntry, model_set: str) -> tuple[Model, ...]:
        if runtime.has_conversations:
            return self._language_models(runtime, model_set)
        if model_set == RESOLUTIONS:
            return self._resolutions(runtime)
        if not self.files:
            recipes = self._recipes(runtime, model_set)
            return tuple(map(self._built_in, recipes, self._built(runtime, recipes)))
        if model_set in _FRAMES:
            raise NoModels(
                "--model is given, and this scenario needs the built-in network that takes and"
                " returns a camera frame. Leave --model out to measure it"
            )
        return self.user.of(runtime, self.files)

    def _language_models(self, runtime: RuntimeEntry, model_set: str) -> tuple[Model, ...]:
        """Return a language model, and with it the adapters or merged models of the set."""
        if not self.files:
            return self._language_networks(runtime, self.built_in.language_recipes(model_set))
        models = self.user.of(runtime, self.files)
        if len(models) > 1:
            raise NoModels(
                f"{runtime.name} measures one language model at a time, and --model names"
                f" {' and '.join(model.name for model in models)}: leave all but one out"
            )
        if model_set == ADAPTERS:
            return (*models, *self._adapters())
        if model_set == MERGED:
            return (*models, *self._merged(runtime))
        return models

    def _language_networks(
        self, runtime: RuntimeEntry, recipes: Sequence[LanguageRecipe]
    ) -> tuple[Model, ...]:
        """Return built-in language models and their adapters."""
        if not recipes:
            return ()
        models = []
        for recipe, path in zip(recipes, ensure_language(built_in_kind(runtime), recipes)):
            digest = model_digest(path, self.user.pins)
            models.append(Model(recipe.label, str(path), digest, origin=recipe.label))
        return tuple(models)

    def _adapters(self) -> list[Model]:
        if not self.adapters:
            raise NoModels(
                "--model is given without --adapter: give each adapter (LoRA) with --adapter"
                " FILE[,MERGED]"
            )
        return [self._adapter(adapter.file.path) for adapter in self.adapters]

    def _adapter(self, path: Path, name: str | None = None) -> Model:
        """Return an adapter; the first context over it tells whether it suits the model."""
        path = path.resolve()
        return Model(name or path.stem, str(path), model_digest(path, self.user.pins))

    def _merged(self, runtime: RuntimeEntry) -> tuple[Model, ...]:
        merged = [adapter.merged for adapter in self.adapters if adapter.merged]
        if not merged or len(merged) < len(self.adapters):
            raise NoModels(
                "adapters are compared with models that they are merged into: give both with"
                " --adapter FILE,MERGED"
            )
        return self.user.of(runtime, merged)

    def _resolutions(self, runtime: RuntimeEntry) -> tuple[Model, ...]:
        if self.resolutions:
            return self.user.of(runtime, self.resolutions, slaves=self.resolutions[1:])
        if self.files:
            raise NoModels(
                "--model is given without --resolution: weights are shared between resolutions of"
                " one network. Give each with --resolution FILE[,WEIGHTLESS], the one with the"
                " weights first"
            )
        recipes = self._recipes(runtime, RESOLUTIONS)
        files = self._built(runtime, recipes)
        # The first has the weights that the others share.
        weightless = [None, *self._weightless(runtime, recipes[1:])]
        return tuple(map(self._built_in, recipes, files, weightless))

    def _models_of_plan(self, runtime: RuntimeEntry, plan: PlanFile) -> tuple[Model, ...]:
        if plan.runtime not in (None, runtime.name):
            raise NoModels(
                f"{plan.document.title} was measured on {plan.runtime}: add --runtime"
                f" {plan.runtime}"
            )
        networks = [model for model in plan.models if isinstance(model.source, Recipe)]
        files = dict(zip(networks, self._built(runtime, [model.recipe for model in networks])))
        language = [model for model in plan.models if isinstance(model.source, LanguageRecipe)]
        if language and not runtime.has_conversations:
            raise NoModels(
                f"{plan.document.title}: {language[0].name} is a language model, which"
                f" {runtime.title} does not run"
            )
        recipes = [model.language_recipe for model in language]
        known = dict(zip(language, self._language_networks(runtime, recipes)))
        # Slaves have the weights of another model, and need none of their own.
        slaves = [model for model in networks if model in plan.slaves]
        slave_files = self._weightless(runtime, [model.recipe for model in slaves])
        weightless = dict(zip(slaves, slave_files))
        models = []
        for model in plan.models:
            if model in files:
                built = self._built_in(model.recipe, files[model], weightless.get(model))
                models.append(replace(built, name=model.name))
            elif model in known:
                models.append(replace(known[model], name=model.name))
            elif isinstance(model.source, Model):
                models.append(_stored(model.source, plan, self.user.pins))
            elif model in plan.adapters:
                models.append(self._adapter(Path(str(model.source)), model.name))
            else:
                models.append(self._user_model(runtime, plan, model))
        return tuple(models)

    def _user_model(self, runtime: RuntimeEntry, plan: PlanFile, model: PlanModel) -> Model:
        """Return the model of a file, with the inputs that the plan gives it."""
        user = UserModels(
            self.user.targets,
            self.user.time_limit_s,
            [InputShape(name, sizes) for name, sizes in model.shape],
            model.inputs,
            self.user.quantised,
            self.user.pins,
        )
        path = Path(str(model.source))
        file = ModelFile(path, "file", model.weightless)
        slaves = [file] if model in plan.slaves else []
        try:
            (read,) = user.of(runtime, [file], slaves)
        except UserError as error:
            in_plan = plan.document.error(("models", model.name), str(error))
            raise type(error)(str(in_plan)) from None
        # After the file's name come shapes that the file leaves free, and the precision of a
        # conversion.
        suffix = read.name[len(model_name(path)) :]
        return replace(read, name=model.name + suffix)

    def _recipes(self, runtime: RuntimeEntry, model_set: str) -> list[Recipe]:
        return self.built_in.suiting(runtime).recipes(model_set, self.streams)

    def _built_in(self, recipe: Recipe, path: Path, weightless: Path | None = None) -> Model:
        return built_in_model(self.user.pins, recipe, path, weightless)

    def _built(self, runtime: RuntimeEntry, recipes: Sequence[Recipe]) -> list[Path]:
        if not recipes:
            return []
        return ensure_all(runtime.kind, recipes, self.chip, quantised=self.user.quantised)

    def _weightless(self, runtime: RuntimeEntry, recipes: Sequence[Recipe]) -> list[Path | None]:
        """Return files of these networks without weights; None for each if there are no such
        files.
        """
        if not recipes or not can_be_weightless(runtime.kind, self.chip):
            return [None] * len(recipes)
        files = ensure_all(
            runtime.kind, recipes, self.chip, weightless=True, quantised=self.user.quantised
        )
        return list(files)


def _stored(model: Model, plan: PlanFile, pins: Pins) -> Model:
    """Return a model as a plan was stored with it; raise UserError if its file has changed."""
    if not is_unchanged(model, pins):
        raise UserError(
            f"{plan.document.title}: {model.path} has changed since the plan was stored. Put the"
            " old file back, or write a plan file with the new one (docs/reference/plans.md)"
        )
    return model
