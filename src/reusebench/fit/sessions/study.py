"""The plans of conversations that were measured for a prediction, and their results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from reusebench.fit.conditions import MeasuredConditions
from reusebench.fit.sessions.layouts import (
    CONTEXTS,
    SEQUENCES,
    SessionDemand,
    SessionLayout,
    layouts_of,
    plan_of,
)
from reusebench.fit.sessions.sample import Sample, sample_of
from reusebench.measured.plan import Conversation, Plan
from reusebench.storage.result import Failure, Result
from reusebench.storage.trace import Trace, read_trace

__all__ = ["DEFAULT", "Case", "SessionStudy", "has_ended"]

#: The layout that others are compared with.
DEFAULT = SessionLayout()
#: Prompts that plans are measured with, if the wished one is longer: memory and time then grow with
#: every token. The first fills a micro-batch of llama.cpp, which is as much scratch as it takes.
_PROMPT = 512
_LONGER_PROMPT = 1024
#: Tokens that are generated in measured plans: enough for a speed.
_GENERATED = 8
#: Prompt of the plan that has all conversations: it is measured for its speed alone.
_SHORT_PROMPT = 32
#: Conversations of plans that tell what one more takes. A second context uses heap that loading the
#: model has left; a third one does not.
_SEVERAL = 2
_SEVERAL_CONTEXTS = 3
#: Caches have whole blocks of this many tokens in llama.cpp; a conversation of them fills its own.
_BLOCK = 256


@dataclass(frozen=True)
class Case:
    """A layout to measure with some conversations, which need not be those of the demand."""

    layout: SessionLayout
    sessions: int
    conversation: Conversation

    @property
    def depth(self) -> int:
        """The tokens of a conversation at the end of its turn."""
        return self.conversation.prompt + self.conversation.generated


@dataclass
class SessionStudy(MeasuredConditions):
    """Results of measured plans; equal plans have one result, whatever their names."""

    demand: SessionDemand
    results: dict[Plan, Result] = field(default_factory=dict)
    samples: dict[Plan, Sample] = field(default_factory=dict)

    @cached_property
    def conversation(self) -> Conversation:
        """The conversation of the demand as it is measured: shorter, if it is long."""
        prompt = min(self.demand.conversation.prompt, _PROMPT)
        return self._of_prompt(prompt)

    @cached_property
    def other_conversation(self) -> Conversation:
        """One with another prompt: its difference tells what a token adds."""
        prompt = self.demand.conversation.prompt
        if prompt > _PROMPT:
            return self._of_prompt(min(prompt, _LONGER_PROMPT))
        return self._of_prompt(max(1, prompt // 2))

    @cached_property
    def short_conversation(self) -> Conversation:
        """The one of the plan that has all conversations at once."""
        return self._of_prompt(min(self.demand.conversation.prompt, _SHORT_PROMPT))

    def _of_prompt(self, prompt: int) -> Conversation:
        wished = self.demand.conversation
        generated = min(wished.generated, _GENERATED)
        tokens = -(-(prompt + generated) // _BLOCK) * _BLOCK
        return Conversation(
            tokens=min(tokens, wished.tokens),
            prompt=prompt,
            generated=generated,
            common=min(wished.common * prompt // wished.prompt, prompt - 1),
        )

    def plain_cases(self) -> list[Case]:
        """Return the cases of the default options, alone and with one option or kind changed."""
        cases = [
            Case(DEFAULT, 1, self.conversation),
            Case(DEFAULT, 1, self.other_conversation),
        ]
        if self.demand.sessions > 1:
            cases.append(self.several(DEFAULT))
        for layout in layouts_of(self.demand):
            if layout.kind == CONTEXTS and len(layout.options) == 1:
                cases.append(Case(layout, 1, self.conversation))
            elif layout.kind != CONTEXTS and not layout.options:
                cases.append(self.several(layout))
        if self.demand.sessions > 1:
            together = SessionLayout(SEQUENCES)
            cases.append(Case(together, self.demand.sessions, self.short_conversation))
        return list(dict.fromkeys(case for case in cases if self._is_possible(case)))

    def several(self, layout: SessionLayout) -> Case:
        """Return the case of a layout with several conversations, of which there may be one."""
        sessions = _SEVERAL_CONTEXTS if layout.kind == CONTEXTS else _SEVERAL
        return Case(layout, min(sessions, self.demand.sessions), self.conversation)

    def _is_possible(self, case: Case) -> bool:
        shares_prompt = case.layout.kind == "shared_prompt"
        return case.conversation.common > 0 or not shares_prompt

    def cases_of(self, layout: SessionLayout) -> list[Case]:
        """Return the cases that have all of a layout: its kind with its options."""
        alone = SessionLayout(CONTEXTS, layout.options)
        return [
            self.several(layout),
            Case(alone, 1, self.conversation),
            Case(alone, 1, self.other_conversation),
        ]

    def missing(self, cases: Iterable[Case]) -> list[Case]:
        """Return the cases that were not measured yet."""
        return [case for case in cases if self._key(case) not in self.results]

    def add(self, results: Iterable[Result], storage: Path) -> None:
        """Add results of a storage; the last of equal plans counts."""
        for result in results:
            plan = _nameless(result.plan)
            self.results[plan] = result
            if not has_ended(result):
                continue
            trace = read_trace(storage, result.repeats[0].trace, Trace)
            if trace is not None:
                self.samples[plan] = sample_of(trace.barriers)

    def plan(self, case: Case, name: str = "fit") -> Plan:
        """Return the plan of a case."""
        return plan_of(case.layout, self.demand, case.sessions, case.conversation, name)

    def sample(self, case: Case) -> Sample | None:
        """Return the figures of a case; None if it was not measured, or failed."""
        return self.samples.get(self._key(case))

    def failure(self, case: Case) -> Failure | None:
        """Return the failure of a measured case; None if it has none."""
        result = self.results.get(self._key(case))
        return result.failure if result and not has_ended(result) else None

    def _key(self, case: Case) -> Plan:
        return _nameless(self.plan(case))


def has_ended(result: Result) -> bool:
    """Whether the processes of a result came to their end: other tokens refuse no layout."""
    return result.outcome in ("ok", "outputs_differ")


def _nameless(plan: Plan) -> Plan:
    return replace(plan, scenario="", baseline=None)
