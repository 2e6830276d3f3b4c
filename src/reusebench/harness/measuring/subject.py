"""The subjects of measuring: built-in scenarios, options of a runtime, and plans of the user's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reusebench.harness.errors import NoModels
from reusebench.harness.measuring.models.model_sets import ModelSets
from reusebench.harness.measuring.videos import Videos
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.settings import Settings, has_conversations
from reusebench.measured.plan import Conversation, Plan, Streams
from reusebench.measured.runtimes import find_runtime
from reusebench.models.inspection.summary import summary_of
from reusebench.scenarios.catalogue import (
    NoBaseline,
    Scenario,
    TooFewModels,
    TooFewTokens,
    suits,
    without_reuse,
)
from reusebench.scenarios.titles import title_of
from reusebench.targets.target import Target

__all__ = ["Extent", "Job", "PlanSubject", "ScenarioSubject", "Subject", "Supplies"]

#: Width of a runtime's name in the terminal.
_RUNTIME_WIDTH = len("onnxruntime")


@dataclass(frozen=True)
class Supplies:
    """The settings, models, videos and targets of a session, from which plans are made."""

    settings: Settings
    models: ModelSets
    videos: Videos
    #: Key: runtime.
    targets: dict[str, Target]


@dataclass(frozen=True)
class Extent:
    """The size of a configuration, as results store it."""

    streams: int
    #: Number of contexts per stream.
    contexts: int
    #: Number of models that the user gave, equal ones once, or that the built-in set has.
    model_files: int


class Subject(ABC):
    """A scenario, an option or a plan, which any runtime may be measured with."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The scenario of its results."""

    @property
    @abstractmethod
    def has_streams(self) -> bool:
        """Whether its contexts take the frames of streams."""

    @property
    def runs_once(self) -> bool:
        """Whether one process answers it, whatever --repeats says."""
        return False

    @abstractmethod
    def plans(self, runtime: str, supplies: Supplies) -> list[Plan]:
        """Return its plans on a runtime, the best first.

        Raises NoModels if this runtime has no models for it, UserError for the user's mistakes.
        """

    @abstractmethod
    def extent(self, runtime: str, supplies: Supplies) -> Extent:
        """Return its size on a runtime."""

    def fewest_repeats(self, settings: Settings) -> int:
        """Return the number of processes that measure it at least."""
        return 1 if self.runs_once else settings.repeats

    def most_repeats(self, settings: Settings) -> int:
        """Return the number of processes that measure it at most."""
        fewest = self.fewest_repeats(settings)
        if self.runs_once or settings.most_repeats is None:
            return fewest
        return max(fewest, settings.most_repeats)

    def expected_s(self, settings: Settings) -> float:
        """Return the time that its processes are expected to take, in seconds."""
        process_s = settings.process_s
        if self.has_streams:
            process_s += settings.pace.warm_up_s + settings.pace.duration_s
        return self.fewest_repeats(settings) * process_s


@dataclass(frozen=True)
class ScenarioSubject(Subject):
    """A scenario of the catalogue; an option of a runtime is one, too."""

    scenario: Scenario

    @property
    def name(self) -> str:
        """The scenario's name, or the option as NAME=VALUE."""
        return self.scenario.name

    @property
    def has_streams(self) -> bool:
        """Whether its contexts take the frames of streams."""
        return self.scenario.has_streams

    @property
    def runs_once(self) -> bool:
        """True if cycles are the repeats, or contexts are counted."""
        return self.scenario.runs_once

    def plans(self, runtime: str, supplies: Supplies) -> list[Plan]:
        """Return one plan for each way to lay the scenario out."""
        if self.scenario.fills and find_runtime(runtime).device == "cpu":
            raise NoModels(
                "contexts on a CPU are limited by the system's memory, which is not filled: how"
                " many fit follows from what each adds. bench/test_limit.py is for an NPU"
            )
        entry = find_runtime(runtime)
        if not suits(self.name, entry.has_conversations):
            kind = "language models" if entry.has_conversations else "models without conversations"
            raise NoModels(f"{self.name} is no scenario of {kind}, which {entry.title} runs")
        models = supplies.models.of(runtime, self.scenario.model_set)
        schedule: Streams | None = None
        if self.has_streams:
            schedule = supplies.settings.schedule(supplies.videos.of(runtime))
        parameters = supplies.settings.parameters(runtime, models, schedule)
        try:
            plans = self.scenario.plans(parameters)
        except (TooFewModels, TooFewTokens) as error:
            raise NoModels(str(error)) from None
        only_decodes = not plans[0].contexts
        if schedule and schedule.video is None and only_decodes:
            raise NoModels("video is not decoded there, so there is no decoder memory to measure")
        if entry.has_conversations:
            _check_room(plans[0])
            return [_with_options(plan, supplies.settings.session_options) for plan in plans]
        return plans

    def extent(self, runtime: str, supplies: Supplies) -> Extent:
        """Return the streams and contexts of the options."""
        settings = supplies.settings
        models = supplies.models.of(runtime, self.scenario.model_set)
        parameters = settings.parameters(runtime, models)
        return Extent(parameters.streams, parameters.contexts, len(set(models)))


def _check_room(plan: Plan) -> None:
    """Raise NoModels if the conversation has more tokens than a model was made for."""
    assert plan.conversation is not None
    tokens = plan.conversation.tokens
    for model in plan.models:
        most = summary_of(Path(model.path)).context
        if most is not None and tokens > most:
            raise NoModels(
                f"{tokens:,} tokens are more than the {most:,} that {model.name} was trained for:"
                f" give --tokens {most} or fewer"
            )


def _with_options(plan: Plan, options: Sequence[str]) -> Plan:
    """Return the plan with options for every context that has no other value of their names."""
    contexts = []
    for context in plan.contexts:
        own = {option.partition("=")[0] for option in context.options}
        others = [option for option in options if option.partition("=")[0] not in own]
        if context.source is None:
            context = replace(context, options=(*context.options, *others))
        contexts.append(context)
    return replace(plan, contexts=tuple(contexts))


@dataclass(frozen=True)
class PlanSubject(Subject):
    """A plan of the user's, or its baseline: the same plan without reuse."""

    file: PlanFile
    #: False: the baseline.
    reuses: bool = True

    @property
    def name(self) -> str:
        """The plan's name, with a suffix if it is the baseline."""
        without, name = self.file.scenarios
        return name if self.reuses else without

    @property
    def has_streams(self) -> bool:
        """Whether the file has streams."""
        return self.file.streams is not None

    def plans(self, runtime: str, supplies: Supplies) -> list[Plan]:
        """Return the one plan of the file; raise UserError if the runtime or the machine does not
        suit it.
        """
        file = self.file
        settings = supplies.settings
        target = supplies.targets[runtime]
        knows_cores = find_runtime(runtime).device == "cpu" or target.chip is not None
        conversation: Conversation | None = None
        if has_conversations(runtime):
            conversation = file.checked_conversation(settings.conversation)
        cores = file.checked_cores(settings.cores(runtime), knows_cores)
        models = supplies.models.of_plan(runtime, file)
        schedule: Streams | None = None
        if self.has_streams:
            schedule = file.schedule(settings.pace, supplies.videos.of(runtime))
        rounds = settings.parameters(runtime, models).rounds
        plan = file.plan(runtime, models, cores, file.rounds or rounds, schedule, conversation)
        if conversation:
            _check_room(plan)
        if self.reuses:
            return [plan]
        try:
            return [without_reuse(plan)]
        except NoBaseline as error:
            raise NoModels(f"{file.document.title}: {error}") from None

    def extent(self, runtime: str, supplies: Supplies) -> Extent:  # noqa: ARG002
        """Return the streams and contexts of the file."""
        file = self.file
        return Extent(file.stream_count, file.contexts_per_stream, len(file.models))


@dataclass(frozen=True)
class Job:
    """One configuration to measure: a subject on a runtime."""

    runtime: str
    subject: Subject

    @property
    def title(self) -> str:
        """Its name in the terminal, which no other configuration has."""
        return f"{self.runtime:<{_RUNTIME_WIDTH}}  {title_of(self.subject.name)}"

    def plans(self, supplies: Supplies) -> list[Plan]:
        """Return the subject's plans on the runtime, the best first."""
        return self.subject.plans(self.runtime, supplies)
