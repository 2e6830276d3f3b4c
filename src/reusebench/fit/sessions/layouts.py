"""Layouts of conversations: how they share a context, its cache type and micro-batch; their plans.

Example::

    layout = SessionLayout(SEQUENCES, ("cache_type=q8_0",))
    plan = plan_of(layout, demand, 8, demand.conversation, "eight")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from reusebench.measured.plan import (
    DUP,
    SEQUENCE,
    SHARED_PROMPT,
    Context,
    Conversation,
    Model,
    Plan,
)

__all__ = [
    "CACHE_TYPE",
    "CONTEXTS",
    "KINDS",
    "SEQUENCES",
    "SHARED",
    "UNIFIED",
    "SessionDemand",
    "SessionLayout",
    "layouts_of",
    "plan_of",
]

#: A context for each conversation, over the weights of the first.
CONTEXTS = "contexts"
#: One context, in which each conversation has a part of the cache.
SEQUENCES = "sequences"
#: One context, in which all conversations share one cache.
UNIFIED = "unified"
#: The same; the tokens that the prompts have in common are kept once.
SHARED = "shared_prompt"
KINDS = (CONTEXTS, SEQUENCES, UNIFIED, SHARED)
_MECHANISMS = {CONTEXTS: DUP, SEQUENCES: SEQUENCE, UNIFIED: SEQUENCE, SHARED: SHARED_PROMPT}

#: Names of a runtime's own options that layouts may differ in; each is tried with the values that
#: its entry lists (RuntimeEntry.options).
CACHE_TYPE = "cache_type"
_MICRO_BATCH = "n_ubatch"
_VARIED = (CACHE_TYPE, _MICRO_BATCH)


@dataclass(frozen=True)
class SessionDemand:
    """The workload to plan for: conversations of one model on one runtime."""

    runtime: str
    model: Model
    #: Number of conversations.
    sessions: int
    conversation: Conversation
    #: The runtime's own options, NAME=VALUE, that layouts may have.
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionLayout:
    """How conversations share contexts, and the runtime's own options of these contexts."""

    #: One of KINDS.
    kind: str = CONTEXTS
    #: NAME=VALUE each; empty: the runtime's defaults.
    options: tuple[str, ...] = ()

    @property
    def cache_type(self) -> str | None:
        """The type of the cache; None: the runtime's default."""
        for option in self.options:
            name, _, value = option.partition("=")
            if name == CACHE_TYPE:
                return value
        return None

    def pool_tokens(self, sessions: int, conversation: Conversation) -> int:
        """Return the tokens that one inference looks over: of one conversation, or of a pool."""
        tokens = conversation.prompt + conversation.generated
        if self.kind == UNIFIED:
            return sessions * tokens
        if self.kind == SHARED:
            return conversation.common + sessions * (tokens - conversation.common)
        return tokens


def layouts_of(demand: SessionDemand) -> Iterator[SessionLayout]:
    """Yield the layouts to choose from, the plainest first."""
    choices: list[Sequence[str]] = []
    for name in _VARIED:
        values = [option for option in demand.options if option.partition("=")[0] == name]
        choices.append(["", *values])
    for kind in KINDS:
        if kind != CONTEXTS and demand.sessions == 1:
            continue
        if kind == SHARED and not demand.conversation.common:
            continue
        for options in product(*choices):
            yield SessionLayout(kind, tuple(filter(None, options)))


def plan_of(
    layout: SessionLayout,
    demand: SessionDemand,
    sessions: int,
    conversation: Conversation,
    name: str,
) -> Plan:
    """Return the plan of a layout with this number of conversations."""
    first = Context(
        stream=0, model=0, options=layout.options, unified_cache=layout.kind in (UNIFIED, SHARED)
    )
    further = Context(stream=0, model=0, mechanism=_MECHANISMS[layout.kind], source=0)
    return Plan(
        scenario=name,
        baseline=None,
        runtime=demand.runtime,
        models=(demand.model,),
        contexts=(first, *[further] * (sessions - 1)),
        cores=1,
        rounds=1,
        conversation=conversation,
    )
