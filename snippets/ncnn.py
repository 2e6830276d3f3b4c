"""A plan in Python, for ncnn on the CPU: the nets and extractors that runtimes/ncnn makes, in their order."""

from __future__ import annotations

from typing import Any, Optional

from runtimes.base import NotSupported
from scenarios.plan import (
    CREATE_MEM,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Plan,
)
from snippets.base import Snippet, common_values, files_of, python_shapes, python_turns, render, turns_of
from snippets.indices import Indices

__all__ = ["write"]

_TITLE = "ncnn"
_WORDS = {
    DUP: "a further extractor over the same net",
    SHARED_CONTEXT: "extractors over one net from several threads",
    SHARED_WEIGHTS: "an extractor over the same net, with inputs of another size",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported where it cannot be."""
    for context in plan.contexts:
        _check(context)
    indices = Indices(len(plan.contexts), divide="//")
    return Snippet("python", render("ncnn.py.j2", indices, _values(plan, indices)))


def _check(context: Context) -> None:
    """Raise NotSupported for what the adapter refuses too."""
    if context.device is not None or context.device_io:
        raise NotSupported("ncnn_cpu_only")
    if context.mechanism == SHARED_WEIGHT_MEMORY:
        raise NotSupported("no_weight_memory", runtime=_TITLE)
    if NATIVE_OUTPUT in context.zero_copy:
        raise NotSupported("no_native_output", runtime=_TITLE)
    if MODEL in context.zero_copy or WEIGHTS in context.outside:
        raise NotSupported("ncnn_lays_weights_out")
    if context.allocator != CREATE_MEM:
        raise NotSupported("ncnn_any_memory", allocator=context.allocator)


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return what the template is filled in with."""
    contexts, turns = plan.contexts, turns_of(plan)
    files, paths = files_of(plan, ".param")
    # A dup has the tensors that its source's file declares.
    paths = [paths[context.source or 0] if path is None else path for context, path in zip(contexts, paths)]
    arenas = _first_with_arena(plan)

    def where(name: str, belongs: list[bool]) -> Any:
        return indices.where(name, [i for i, does in enumerate(belongs) if does])

    return {
        **common_values(plan, indices, _TITLE, _WORDS, "an arena for internal memory"),
        "threads": len(turns.rows),
        "turns": python_turns(turns),
        "files": files,
        "path": indices.value("path_of", paths),
        "shapes": python_shapes(plan),
        "source": indices.value("source_of", [context.source for context in contexts]),
        "over_net": where("borrows", [context.mechanism != LOAD for context in contexts]),
        "options": _options(plan),
        "arena": where("has_arena", [first is not None for first in arenas]),
        "in_turn": where("is_in_turn", [context.internal is not None for context in contexts]),
        "first_user": indices.value("first_user_of", arenas),
        "bound_inputs": where("reads_in_place", [INPUT in context.zero_copy for context in contexts]),
        "bound_outputs": where("places_output", [OUTPUT in context.zero_copy for context in contexts]),
    }


def _first_with_arena(plan: Plan) -> list[Optional[int]]:
    """Return for each context the first one that has the same arena; None where ncnn's pools serve it."""
    first_of: dict[tuple[str, int], int] = {}
    firsts: list[Optional[int]] = []
    for i, context in enumerate(plan.contexts):
        if context.internal is not None:
            key = ("memory", context.internal)
        elif INTERNAL in context.outside:
            key = ("context", i)
        elif OUTPUT in context.zero_copy:
            key = ("net", i if context.source is None else context.source)
        else:
            firsts.append(None)
            continue
        firsts.append(first_of.setdefault(key, i))
    return firsts


def _options(plan: Plan) -> str:
    """Return what is set of the nets' options, in Python: of all of them, or by context; empty where nothing is."""
    chosen: list[dict[str, bool]] = []
    for context in plan.contexts:
        options = context.options if context.source is None else plan.contexts[context.source].options
        chosen.append({name: value == "1" for name, _, value in (option.partition("=") for option in options)})
    if not any(chosen):
        return ""
    is_one = all(options == chosen[0] for options in chosen)
    return f"OPTIONS = [{chosen[0]}] * CONTEXTS" if is_one else f"OPTIONS = {chosen}"
