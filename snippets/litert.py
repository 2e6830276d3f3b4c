"""A plan in Python, for LiteRT on the CPU: the compiled models that runtimes/litert makes, in their order.

Written with the wheel's own classes. They take no delegate to share, no descriptor of a weight cache, and no array in
place as an input: TensorBuffer.create_from_host_memory makes one dimension of it, and the model refuses that (2.3).
"""

from __future__ import annotations

from typing import Any, Optional

from runtimes.base import NotSupported
from scenarios.plan import (
    CREATE_MEM,
    DUP,
    INPUT,
    INTERNAL,
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

_TITLE = "LiteRT"
_WORDS = {
    DUP: "a further compiled model over the same mapped weights",
    SHARED_CONTEXT: "one compiled model from several threads",
    SHARED_WEIGHTS: "a compiled model of another resolution over the same mapped weights",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported where it cannot be."""
    for context in plan.contexts:
        _check(context)
    indices = Indices(len(plan.contexts), divide="//")
    return Snippet("python", render("litert.py.j2", indices, _values(plan, indices)))


def _check(context: Context) -> None:
    """Raise NotSupported for what the adapter refuses too, and for what the wheel's classes cannot do."""
    if context.device is not None or context.device_io:
        raise NotSupported("litert_cpu_only")
    if NATIVE_OUTPUT in context.zero_copy:
        raise NotSupported("no_native_output", runtime=_TITLE)
    if MODEL in context.zero_copy:
        raise NotSupported("no_model_in_place", runtime=_TITLE)
    if INTERNAL in context.outside:
        raise NotSupported("litert_no_allocator")
    if context.allocator != CREATE_MEM:
        raise NotSupported("litert_any_memory", allocator=context.allocator)
    gives_memory = WEIGHTS in context.outside or context.mechanism == SHARED_WEIGHT_MEMORY
    if context.internal is not None or gives_memory or INPUT in context.zero_copy:
        raise NotSupported("litert_no_code_in_python")
    if context.options:
        raise NotSupported("litert_no_code_of_options", options=", ".join(context.options))


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return what the template is filled in with."""
    contexts, turns = plan.contexts, turns_of(plan)
    files, paths = files_of(plan, ".tflite")
    sources = [context.source for context in contexts]
    # A dup is made of its source's file.
    own_paths = [paths[source or 0] if path is None else path for path, source in zip(paths, sources)]

    def where(name: str, belongs: list[bool]) -> Any:
        return indices.where(name, [i for i, does in enumerate(belongs) if does])

    compiled = [context.mechanism != SHARED_CONTEXT for context in contexts]
    lenders = [
        source if context.mechanism == SHARED_WEIGHTS else i
        for i, (context, source) in enumerate(zip(contexts, sources))
    ]
    return {
        **common_values(plan, indices, _TITLE, _WORDS, "internal memory"),
        "threads": len(turns.rows),
        "turns": python_turns(turns),
        "files": files,
        "path": indices.value("path_of", own_paths),
        "shapes": python_shapes(plan),
        "source": indices.value("source_of", sources),
        "prepared": where("maps_weights", [plan.needs_prepared(i) and compiled[i] for i in range(len(contexts))]),
        "cache_path": indices.value("cache_of", [own_paths[lender or 0] for lender in lenders]),
        "shared_contexts": where("shares_model", [not is_own for is_own in compiled]),
        "bound_outputs": where("binds_output", [OUTPUT in context.zero_copy for context in contexts]),
    }
