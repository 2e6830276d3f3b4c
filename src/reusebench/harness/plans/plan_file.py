"""A plan file as it was read: what it says of models, streams and contexts, and the Plan that it
gives on a runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional, Union

from reusebench.harness.plans.document import Document
from reusebench.harness.settings import StreamPace, excess
from reusebench.measured.plan import (
    SHARED_WEIGHTS,
    Context,
    InvalidPlan,
    Model,
    Plan,
    Streams,
    Video,
)
from reusebench.models import Recipe
from reusebench.scenarios.catalogue import name_without_reuse

__all__ = ["PlanFile", "PlanModel", "PlanPace", "PlanStreams"]


@dataclass(frozen=True)
class PlanModel:
    """A model of a plan file."""

    #: What contexts, and tables, call it.
    name: str
    #: A file, what a built-in network is made from, or the model of a stored plan.
    source: Union[Path, Recipe, Model]
    #: The file without its weights, for contexts that share those of another one.
    weightless: Optional[Path] = None
    #: The sizes of inputs by their names, None for the only one.
    shape: tuple[tuple[Optional[str], tuple[int, ...]], ...] = ()
    #: Arrays for the inputs, by their names (.npz).
    inputs: Optional[Path] = None

    @property
    def recipe(self) -> Recipe:
        """Of a built-in network."""
        assert isinstance(self.source, Recipe)
        return self.source


@dataclass(frozen=True)
class PlanPace:
    """What a plan file says of how streams run, by the names of StreamPace; what is None follows from the
    options.
    """

    fps: Optional[float] = None
    queue: Optional[int] = None
    duration_s: Optional[float] = None
    warm_up_s: Optional[float] = None


@dataclass(frozen=True)
class PlanStreams:
    """Streams of a plan file."""

    count: int
    pace: PlanPace
    #: SHA-256 of the video when the plan was stored; None: it may be any.
    video_digest: Optional[str] = None


@dataclass(frozen=True)
class PlanFile:
    """A plan of the user's, which any runtime may be measured with."""

    document: Document
    name: str
    models: tuple[PlanModel, ...]
    #: As in a Plan, each with its name.
    contexts: tuple[Context, ...]
    #: As in a Plan.
    chains: tuple[tuple[int, ...], ...]
    streams: Optional[PlanStreams] = None
    #: None: those of the machine.
    cores: Optional[int] = None
    #: None: as many as the options say.
    rounds: Optional[int] = None
    #: That a stored plan was measured on; None: any.
    runtime: Optional[str] = None

    @property
    def scenarios(self) -> tuple[str, str]:
        """What is measured, by the names of results: the plan without reuse, then the plan."""
        return name_without_reuse(self.name), self.name

    @property
    def slaves(self) -> list[PlanModel]:
        """The models whose contexts have the weights of another one."""
        indices = {
            context.model for context in self.contexts if context.mechanism == SHARED_WEIGHTS
        }
        return [self.models[index] for index in sorted(indices)]

    @property
    def stream_count(self) -> int:
        """How many streams it serves."""
        if self.streams:
            return self.streams.count
        return max(1, len({context.stream for context in self.contexts}))

    @property
    def contexts_per_stream(self) -> int:
        """How many contexts each stream has, rounded down; 1 where there are fewer than streams."""
        return max(1, len(self.contexts) // self.stream_count)

    def plan(
        self,
        runtime: str,
        models: Sequence[Model],
        cores: int,
        rounds: int,
        schedule: Streams | None = None,
    ) -> Plan:
        """Return the plan with the models as the runtime reads them; raise PlanFileError if it
        cannot be walked.
        """
        streams, fps = (schedule.count, schedule.fps) if schedule else (0, 0.0)
        problem = excess(len(self.contexts), rounds, streams, fps)
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
            )
        except InvalidPlan as error:
            raise self._error(error) from None

    def _error(self, error: InvalidPlan) -> Exception:
        """Return the error in the file's terms: with the line of the last context that it is of,
        and their names.
        """
        names = [self.contexts[index].name or str(index) for index in error.contexts]
        if not names:
            return self.document.error(("contexts",), error.problem)
        others = f"with {', '.join(map(repr, names[:-1]))}: " if len(names) > 1 else ""
        return self.document.error(("contexts", names[-1]), f"{others}{error.problem}")

    def checked_cores(self, cores: int, is_known: bool) -> int:
        """Return how many contexts may infer at once on a machine with so many cores, if that
        `is_known`.

        Raises PlanFileError if the plan needs a core that is not there.
        """
        if self.cores and self.cores > cores and is_known:
            problem = (
                f"this machine has {cores}; valid: 1 to {cores}, or leave it out for all that"
                " there are"
            )
            raise self.document.error(("cores",), problem)
        cores = self.cores or cores
        for context in self.contexts:
            if context.core is not None and context.core >= cores:
                more = (
                    ""
                    if is_known or self.cores
                    else ". How many this machine has is not known: say it with `cores`"
                )
                problem = (
                    f"there is no core {context.core}; valid, of {cores}: 0 to {cores - 1}{more}"
                )
                raise self.document.error(("contexts", str(context.name), "core"), problem)
        return cores

    def schedule(self, pace: StreamPace, video: Video | None) -> Streams:
        """Return the streams, which play the video; what the file leaves out is the options'.

        Raises PlanFileError if the plan was stored with another video.
        """
        assert self.streams is not None
        count = self.streams.count
        digest = self.streams.video_digest
        if digest is not None and (video is None or video.digest != digest):
            raise self.document.error(
                (), "it was stored with another video; give that one with --video FILE"
            )
        own = {
            name: value for name, value in asdict(self.streams.pace).items() if value is not None
        }
        return Streams(count, video=video, **{**asdict(pace), **own})
