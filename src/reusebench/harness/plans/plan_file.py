"""A plan file as it was read, and the Plan that it gives on a runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional, Union

from reusebench.harness.conversations import ConversationRequest
from reusebench.harness.errors import UserError
from reusebench.harness.plans.document import Document
from reusebench.harness.settings import StreamPace, excess
from reusebench.measured.plan import (
    ADAPTER,
    SHARED_WEIGHTS,
    Context,
    Conversation,
    InvalidPlan,
    Model,
    Plan,
    Streams,
    Video,
)
from reusebench.measured.runtimes import find_runtime
from reusebench.models import Recipe
from reusebench.models.language import LanguageRecipe
from reusebench.models.model_kinds import is_language_model
from reusebench.scenarios.catalogue import name_without_reuse

__all__ = ["AnyRecipe", "PlanFile", "PlanModel", "PlanPace", "PlanStreams"]


#: The recipe of a built-in network or language model.
AnyRecipe = Union[Recipe, LanguageRecipe]


@dataclass(frozen=True)
class PlanModel:
    """A model of a plan file."""

    #: Its name in contexts and in tables.
    name: str
    #: A file, the recipe of a built-in network, or the model of a stored plan.
    source: Union[Path, AnyRecipe, Model]
    #: The file without its weights, for contexts that share the weights of another context.
    weightless: Optional[Path] = None
    #: Pairs of an input's name and its sizes; the name None means the only input.
    shape: tuple[tuple[Optional[str], tuple[int, ...]], ...] = ()
    #: Arrays for the inputs, by their names (.npz).
    inputs: Optional[Path] = None

    @property
    def recipe(self) -> Recipe:
        """The recipe of a built-in network; no other model has one."""
        assert isinstance(self.source, Recipe)
        return self.source

    @property
    def language_recipe(self) -> LanguageRecipe:
        """The recipe of a built-in language model; no other model has one."""
        assert isinstance(self.source, LanguageRecipe)
        return self.source


@dataclass(frozen=True)
class PlanPace:
    """The fields of StreamPace that a plan file sets; None: the option's value."""

    fps: Optional[float] = None
    queue: Optional[int] = None
    duration_s: Optional[float] = None
    warm_up_s: Optional[float] = None


@dataclass(frozen=True)
class PlanStreams:
    """The streams of a plan file."""

    count: int
    pace: PlanPace
    #: SHA-256 of the video when the plan was stored; None: any video.
    video_digest: Optional[str] = None


@dataclass(frozen=True)
class PlanFile:
    """A plan of the user's, which any runtime may be measured with."""

    document: Document
    name: str
    models: tuple[PlanModel, ...]
    #: The contexts of a Plan, each with a name.
    contexts: tuple[Context, ...]
    #: The chains of a Plan.
    chains: tuple[tuple[int, ...], ...]
    streams: Optional[PlanStreams] = None
    #: The numbers of the conversation that the file has; None: it has no such table.
    conversation: Optional[ConversationRequest] = None
    #: None: all cores of the machine.
    cores: Optional[int] = None
    #: None: the option's value.
    rounds: Optional[int] = None
    #: The runtime that a stored plan was measured on; None: any runtime.
    runtime: Optional[str] = None

    @property
    def scenarios(self) -> tuple[str, str]:
        """The names in results: that of the plan without reuse, then that of the plan."""
        return name_without_reuse(self.name), self.name

    @property
    def slaves(self) -> list[PlanModel]:
        """The models whose contexts have the weights of another context."""
        return self._models_of(SHARED_WEIGHTS)

    @property
    def adapters(self) -> list[PlanModel]:
        """The models that are adapters (LoRA) over the model of another context."""
        return self._models_of(ADAPTER)

    @property
    def has_language_models(self) -> bool:
        """Whether it is for runtimes of language models, and for no others."""
        if self.runtime:
            return find_runtime(self.runtime).has_conversations
        if self.conversation:
            return True
        for model in self.models:
            source = model.source
            if isinstance(source, LanguageRecipe):
                return True
            if isinstance(source, Path) and is_language_model(source):
                return True
        return False

    def _models_of(self, mechanism: str) -> list[PlanModel]:
        """Return the models of the contexts with a mechanism."""
        indices = {context.model for context in self.contexts if context.mechanism == mechanism}
        return [self.models[index] for index in sorted(indices)]

    @property
    def stream_count(self) -> int:
        """Number of streams that it serves."""
        if self.streams:
            return self.streams.count
        served = {context.stream for context in self.contexts}
        return max(1, len(served))

    @property
    def contexts_per_stream(self) -> int:
        """Number of contexts of each stream, rounded down, but 1 at least."""
        return max(1, len(self.contexts) // self.stream_count)

    def plan(
        self,
        runtime: str,
        models: Sequence[Model],
        cores: int,
        rounds: int,
        schedule: Streams | None = None,
        conversation: Conversation | None = None,
    ) -> Plan:
        """Return the plan with the runtime's models; raise PlanFileError if it cannot be walked.

        `conversation` is that of checked_conversation(), for language models only.
        """
        if schedule:
            problem = excess(len(self.contexts), rounds, schedule.count, schedule.fps)
        else:
            problem = excess(len(self.contexts), rounds)
        if problem:
            raise self.document.error((), problem)
        try:
            return Plan(
                scenario=self.name,
                baseline=name_without_reuse(self.name),
                runtime=runtime,
                models=tuple(models),
                contexts=self.contexts,
                cores=cores,
                rounds=rounds,
                schedule=schedule,
                chains=self.chains,
                conversation=conversation,
            )
        except InvalidPlan as error:
            raise self._error(error) from None

    def _error(self, error: InvalidPlan) -> Exception:
        """Return the error with the names of its contexts, and the line of the last of them."""
        names = [self.contexts[index].name or str(index) for index in error.contexts]
        if not names:
            return self.document.error(("contexts",), error.problem)
        others = f"with {', '.join(map(repr, names[:-1]))}: " if len(names) > 1 else ""
        return self.document.error(("contexts", names[-1]), f"{others}{error.problem}")

    def checked_conversation(self, default: Conversation) -> Conversation:
        """Return the conversation of language models; `default` has the numbers that the file
        leaves out.

        Raises PlanFileError if they contradict each other.
        """
        if self.cores not in (None, 1):
            raise self.document.error(
                ("cores",),
                "contexts of a language model take turns, each with all threads of the runtime;"
                " valid: 1, or leave it out",
            )
        try:
            return (self.conversation or ConversationRequest()).conversation(default)
        except UserError as error:
            raise self.document.error(("conversation",), str(error)) from None

    def checked_cores(self, cores: int, is_known: bool) -> int:
        """Return the number of contexts that may infer at once on a machine with `cores` cores.

        Raises PlanFileError if the plan needs a core that the machine lacks. `is_known` is False if
        `cores` is a guess.
        """
        if self.cores and self.cores > cores and is_known:
            problem = (
                f"this machine has {cores}; valid: 1 to {cores}, or leave it out for all that"
                " there are"
            )
            raise self.document.error(("cores",), problem)
        cores = self.cores or cores
        for context in self.contexts:
            if context.core is None or context.core < cores:
                continue
            problem = f"there is no core {context.core}; valid, of {cores}: 0 to {cores - 1}"
            if not is_known and not self.cores:
                problem += ". How many this machine has is not known: say it with `cores`"
            raise self.document.error(("contexts", str(context.name), "core"), problem)
        return cores

    def schedule(self, pace: StreamPace, video: Video | None) -> Streams:
        """Return the streams that play the video; `pace` has the values that the file leaves out.

        Raises PlanFileError if the plan was stored with another video.
        """
        assert self.streams is not None
        stored_digest = self.streams.video_digest
        digest = video.digest if video else None
        if stored_digest is not None and digest != stored_digest:
            raise self.document.error(
                (), "it was stored with another video; give that one with --video FILE"
            )
        values = asdict(pace)
        for name, value in asdict(self.streams.pace).items():
            if value is not None:
                values[name] = value
        return Streams(self.streams.count, video=video, **values)
