"""The meaning of a stored scenario's name, which the report resolves in this one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Optional

from reusebench.scenarios.catalogue import (
    PLANS,
    SCENARIOS,
    STREAMS,
    Scenario,
    name_of_plan,
    question_of,
)

__all__ = ["StoredScenario"]

_BUILT_IN = {scenario.name: scenario for scenario in SCENARIOS}
_POSITIONS = {name: position for position, name in enumerate(_BUILT_IN)}


@dataclass(frozen=True)
class StoredScenario:
    """A scenario as results name it: of this version, of another one, an option or a plan."""

    name: str
    #: Name of its baseline, as the result stores it.
    baseline: Optional[str] = None

    @property
    def built_in(self) -> Scenario | None:
        """The scenario of this version's catalogue."""
        return _BUILT_IN.get(self.name)

    @cached_property
    def question(self) -> str:
        """The question that it answers, a key of QUESTIONS or OTHER_QUESTION."""
        return question_of(self.name, self.baseline)

    @property
    def is_plan(self) -> bool:
        """Whether it is a plan of the user's, or the baseline of one."""
        return self.question == PLANS

    @property
    def plan_without_reuse(self) -> str | None:
        """Name of the user's plan whose baseline it is; None if it is no such baseline."""
        return name_of_plan(self.name)

    @property
    def is_variant(self) -> bool:
        """Whether another scenario of the catalogue shows the same mechanism."""
        return self.built_in is not None and self.built_in.is_variant

    @property
    def model_set(self) -> str:
        """The set of models, one of MODEL_SETS; a user's plan is a set of its own."""
        if self.built_in:
            return self.built_in.model_set
        own_set = self.baseline or self.name
        return own_set if name_of_plan(own_set) else STREAMS

    @property
    def sort_key(self) -> tuple[int, str, bool]:
        """Scenarios as they run, then plans by name; baselines first."""
        position = _POSITIONS.get(self.name, len(_POSITIONS))
        plan = name_of_plan(self.baseline or self.name)
        return position, plan or "", self.baseline is not None
