"""Layouts of contexts, as pure functions of the user's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Optional

from reusebench.measured.plan import (
    ADAPTER,
    DUP,
    INFERENCES_PER_CYCLE,
    INPUT,
    INTERNAL,
    LOAD,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Conversation,
    InvalidPlan,
    Model,
    Streams,
)

__all__ = [
    "LEAN_INTERNAL_LAYOUTS",
    "LEAN_LAYOUTS",
    "LEAN_WEIGHTS_LAYOUTS",
    "LayoutFunction",
    "Parameters",
    "ScenarioLayout",
    "TooFewModels",
    "TooFewTokens",
    "bound",
    "combined",
    "contexts_of",
    "decode_only",
    "exactly",
    "external",
    "full_dup",
    "full_dup_internal_reuse",
    "full_dup_per_core",
    "in_turn",
    "internal_reuse",
    "internal_reuse_last_first",
    "no_reuse",
    "no_reuse_one_model",
    "one_context_with",
    "one_model_with",
    "partial_dup",
    "resolutions",
    "sessions",
    "sessions_with_adapters",
    "sessions_with_merged_models",
    "shared_context",
    "shared_weights",
    "shorter_session",
    "tensors_in_place",
    "tensors_per_core",
    "weight_memory",
]


class TooFewModels(InvalidPlan):
    """The set has no more models than another scenario takes."""


class TooFewTokens(InvalidPlan):
    """The conversation has no room for a scenario with fewer tokens."""


@dataclass(frozen=True)
class Parameters:
    """The user's options, from which alone every scenario makes its plan."""

    runtime: str
    #: The models of the scenario's set. If there are fewer than streams, streams use them in turn.
    models: tuple[Model, ...]
    streams: int
    #: Contexts per stream.
    contexts: int
    cores: int
    rounds: int
    #: Whether contexts can be bound to cores, as on an NPU.
    binds: bool = False
    #: The streams of scenarios that have them.
    schedule: Optional[Streams] = None
    #: Number of cycles of scenarios that have them.
    cycles: int = 1
    #: Number of inferences in a cycle of them.
    cycle_inferences: int = INFERENCES_PER_CYCLE
    #: Upper bound of contexts in a scenario that fills. There are six such scenarios, and on the
    #: virtual board a context takes 0.2 s on a slow machine.
    most_contexts: int = 24
    #: The conversation of each context; None unless the models are language models.
    conversation: Optional[Conversation] = None


@dataclass(frozen=True)
class ScenarioLayout:
    """The part of a plan that differs between scenarios."""

    models: tuple[Model, ...]
    contexts: tuple[Context, ...]
    #: Another conversation than that of Parameters; None: the same.
    conversation: Optional[Conversation] = None


LayoutFunction = Callable[[Parameters], ScenarioLayout]


def contexts_of(
    first: int, streams: Sequence[Optional[int]], model: int, reuse: str
) -> list[Context]:
    """Return a context of one model per stream: the first is loaded, the others reuse it."""
    contexts = [Context(streams[0], model)]
    for stream in streams[1:]:
        contexts.append(Context(stream, model, reuse, None if reuse == LOAD else first))
    return contexts


def _one_model_per_stream(parameters: Parameters, reuse: str) -> ScenarioLayout:
    """Each stream has its own model; the first of its contexts is loaded, the others reuse it."""
    stream_models = []
    for stream in range(parameters.streams):
        stream_models.append(parameters.models[stream % len(parameters.models)])
    models = tuple(dict.fromkeys(stream_models))
    contexts: list[Context] = []
    for stream, model in enumerate(stream_models):
        streams = [stream] * parameters.contexts
        contexts += contexts_of(len(contexts), streams, models.index(model), reuse)
    return ScenarioLayout(models, tuple(contexts))


def _one_model(parameters: Parameters, reuse: str) -> ScenarioLayout:
    """One model serves all streams; the very first context is loaded, the others reuse it."""
    streams: list[int] = []
    for stream in range(parameters.streams):
        streams += [stream] * parameters.contexts
    return ScenarioLayout(parameters.models[:1], tuple(contexts_of(0, streams, 0, reuse)))


def _all_with(layout: ScenarioLayout, **changes: Any) -> ScenarioLayout:
    return replace(
        layout, contexts=tuple(replace(context, **changes) for context in layout.contexts)
    )


def _internal_per_core(layout: ScenarioLayout, cores: int) -> ScenarioLayout:
    """Bind the contexts to the cores in turn; contexts of a core share one internal memory."""
    bound = []
    for index, context in enumerate(layout.contexts):
        bound.append(replace(context, core=index % cores, internal=index % cores))
    return replace(layout, contexts=tuple(bound))


no_reuse = partial(_one_model_per_stream, reuse=LOAD)
partial_dup = partial(_one_model_per_stream, reuse=DUP)
no_reuse_one_model = partial(_one_model, reuse=LOAD)
full_dup = partial(_one_model, reuse=DUP)
#: One context serves all streams from as many threads as there would be contexts.
shared_context = partial(_one_model, reuse=SHARED_CONTEXT)


def full_dup_internal_reuse(parameters: Parameters) -> ScenarioLayout:
    """Full dup; the contexts of a core, which run in turn, share one internal memory."""
    return _internal_per_core(full_dup(parameters), parameters.cores)


def in_turn(parameters: Parameters) -> ScenarioLayout:
    """Each model has one context; all run in turn, each in internal memory of its own."""
    contexts = [Context(stream=0, model=index, core=0) for index in range(len(parameters.models))]
    return ScenarioLayout(parameters.models, tuple(contexts))


def internal_reuse(parameters: Parameters) -> ScenarioLayout:
    """Each model has one context; all run in turn, in one internal memory of the largest."""
    return _all_with(in_turn(parameters), internal=0)


def internal_reuse_last_first(parameters: Parameters) -> ScenarioLayout:
    """Internal reuse with the contexts made in reverse order: the largest comes last."""
    layout = internal_reuse(parameters)
    return replace(layout, contexts=tuple(reversed(layout.contexts)))


def resolutions(count: Optional[int] = None) -> LayoutFunction:
    """Each of the first `count` resolutions, or of all, has one context with its own weights."""

    def layout_of(parameters: Parameters) -> ScenarioLayout:
        models = parameters.models[:count]
        given = len(parameters.models)
        if count is not None and given <= count:
            raise TooFewModels(
                f"it needs more than {count} resolutions and there are {given}, which the scenario"
                " of all resolutions measures. Give more with --resolution"
            )
        return ScenarioLayout(
            models, tuple(Context(stream=0, model=index) for index in range(len(models)))
        )

    return layout_of


def shared_weights(count: Optional[int] = None) -> LayoutFunction:
    """The contexts of resolutions; all have the weights of the first."""

    def layout_of(parameters: Parameters) -> ScenarioLayout:
        layout = resolutions(count)(parameters)
        first, *others = layout.contexts
        sharing = [replace(context, mechanism=SHARED_WEIGHTS, source=0) for context in others]
        return replace(layout, contexts=(first, *sharing))

    return layout_of


def one_model_with(**changes: Any) -> LayoutFunction:
    """One model for all streams; every context is loaded with these fields changed."""
    return lambda parameters: _all_with(no_reuse_one_model(parameters), **changes)


def external(allocator: str) -> LayoutFunction:
    """One model; the application allocates all memory: weights, internal, input and output."""
    return one_model_with(
        outside=(WEIGHTS, INTERNAL), zero_copy=(INPUT, OUTPUT), allocator=allocator
    )


def one_context_with(**changes: Any) -> LayoutFunction:
    """One context of one model, with these fields changed."""
    return lambda parameters: ScenarioLayout(
        parameters.models[:1], (Context(stream=0, model=0, **changes),)
    )


def weight_memory(parameters: Parameters) -> ScenarioLayout:
    """One model; the application allocates all memory, and all contexts share one of weights."""
    layout = _one_model(parameters, reuse=SHARED_WEIGHT_MEMORY)
    first, *others = layout.contexts
    outside = [replace(context, outside=(INTERNAL,)) for context in others]
    return replace(layout, contexts=(replace(first, outside=(WEIGHTS, INTERNAL)), *outside))


def tensors_in_place(layout: ScenarioLayout) -> ScenarioLayout:
    """Have input and output used in place."""
    return _all_with(layout, zero_copy=(INPUT, OUTPUT))


def tensors_per_core(output: str) -> Callable[[ScenarioLayout], ScenarioLayout]:
    """Have input and `output` used in place; the contexts of a core share their tensors."""

    def share(layout: ScenarioLayout) -> ScenarioLayout:
        shared = []
        for context in layout.contexts:
            shared.append(replace(context, zero_copy=(INPUT, output), io=context.core))
        return replace(layout, contexts=tuple(shared))

    return share


def combined(
    weights: LayoutFunction,
    internal: bool,
    tensors: Optional[Callable[[ScenarioLayout], ScenarioLayout]] = None,
) -> LayoutFunction:
    """One model for all streams, with these mechanisms together.

    With `internal`, the contexts of a core share internal memory.
    """

    def layout_of(parameters: Parameters) -> ScenarioLayout:
        layout = weights(parameters)
        if internal:
            contexts = []
            for context in layout.contexts:
                outside = tuple(kind for kind in context.outside if kind != INTERNAL)
                contexts.append(replace(context, outside=outside))
            layout = replace(layout, contexts=tuple(contexts))
            layout = _internal_per_core(layout, parameters.cores)
        if tensors:
            layout = tensors(layout)
        return layout

    return layout_of


#: Layouts of the steps to the smallest footprint: weights, with internal memory, with tensors. The
#: first that the runtime has all mechanisms for is measured, so more mechanisms come first.
LEAN_WEIGHTS_LAYOUTS: tuple[LayoutFunction, ...] = (full_dup, weight_memory)
LEAN_INTERNAL_LAYOUTS: tuple[LayoutFunction, ...] = (
    combined(full_dup, internal=True),
    combined(weight_memory, internal=True),
    combined(no_reuse_one_model, internal=True),
    *LEAN_WEIGHTS_LAYOUTS,
)
LEAN_LAYOUTS: tuple[LayoutFunction, ...] = (
    combined(full_dup, internal=True, tensors=tensors_per_core(NATIVE_OUTPUT)),
    combined(full_dup, internal=True, tensors=tensors_per_core(OUTPUT)),
    combined(weight_memory, internal=True, tensors=tensors_per_core(NATIVE_OUTPUT)),
    combined(weight_memory, internal=True, tensors=tensors_per_core(OUTPUT)),
    combined(full_dup, internal=True),
    combined(full_dup, internal=False, tensors=tensors_in_place),
    combined(no_reuse_one_model, internal=True, tensors=tensors_per_core(NATIVE_OUTPUT)),
    combined(no_reuse_one_model, internal=True, tensors=tensors_per_core(OUTPUT)),
    full_dup,
    combined(no_reuse_one_model, internal=True),
    combined(no_reuse_one_model, internal=False, tensors=tensors_in_place),
)


def exactly(*contexts: Context) -> LayoutFunction:
    """Exactly these contexts, of the first model."""
    return lambda parameters: ScenarioLayout(parameters.models[:1], contexts)


def decode_only(parameters: Parameters) -> ScenarioLayout:
    """No context: frames are decoded and dropped."""
    return ScenarioLayout(parameters.models, ())


def bound(layout_of: LayoutFunction) -> LayoutFunction:
    """The layout with its contexts bound to the cores in turn, if cores can be chosen."""

    def bound_layout(parameters: Parameters) -> ScenarioLayout:
        layout = layout_of(parameters)
        if not parameters.binds:
            return layout
        contexts = [
            replace(context, core=index % parameters.cores)
            for index, context in enumerate(layout.contexts)
        ]
        return replace(layout, contexts=tuple(contexts))

    return bound_layout


def full_dup_per_core(parameters: Parameters) -> ScenarioLayout:
    """One model, and a context for each core, each the dup of the first; they take the frames of
    all streams.
    """
    return ScenarioLayout(
        parameters.models[:1], tuple(contexts_of(0, [None] * parameters.cores, 0, DUP))
    )


# Language models: each context holds one conversation


def sessions(reuse: str, unified_cache: bool = False) -> LayoutFunction:
    """One model; the first conversation has a context of its own, the others reuse it."""

    def layout_of(parameters: Parameters) -> ScenarioLayout:
        first, *others = contexts_of(0, [0] * parameters.contexts, 0, reuse)
        first = replace(first, unified_cache=unified_cache)
        return ScenarioLayout(parameters.models[:1], (first, *others))

    return layout_of


def shorter_session(parameters: Parameters) -> ScenarioLayout:
    """One conversation with half of the room: what a token costs follows from the difference."""
    conversation = parameters.conversation
    assert conversation is not None
    needed = conversation.prompt + conversation.generated
    tokens = max(conversation.tokens // 2, needed)
    if tokens >= conversation.tokens:
        raise TooFewTokens(
            f"half of {conversation.tokens} tokens is less than the {needed} of a prompt and an"
            " answer, so that the cost of a token is not measured. Give more with --tokens"
        )
    layout = one_context_with()(parameters)
    return replace(layout, conversation=replace(conversation, tokens=tokens))


def sessions_with_adapters(parameters: Parameters) -> ScenarioLayout:
    """The base's weights once; each further conversation has an adapter of its own over them."""
    base, *adapters = range(len(parameters.models))
    contexts = [Context(stream=0, model=base)]
    contexts += [Context(stream=0, model=index, mechanism=ADAPTER, source=0) for index in adapters]
    return ScenarioLayout(parameters.models, tuple(contexts))


def sessions_with_merged_models(parameters: Parameters) -> ScenarioLayout:
    """Each conversation has a model of its own: the base, and it merged with each adapter."""
    contexts = [Context(stream=0, model=index) for index in range(len(parameters.models))]
    return ScenarioLayout(parameters.models, tuple(contexts))
