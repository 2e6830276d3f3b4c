"""A plan in Python, for ONNX Runtime on the CPU: the sessions that runtimes/onnxruntime makes, in their order."""

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

_TITLE = "ONNX Runtime"
_WORDS = {
    DUP: "a further session over the same mapped weights",
    SHARED_CONTEXT: "run() of one session from several threads",
    SHARED_WEIGHTS: "a session of another resolution over the same mapped weights",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported where it cannot be."""
    for context in plan.contexts:
        _check(context, plan)
    indices = Indices(len(plan.contexts), divide="//")
    return Snippet("python", render("onnxruntime.py.j2", indices, _values(plan, indices)))


def _check(context: Context, plan: Plan) -> None:
    """Raise NotSupported for what the adapter refuses too, and for what was never run."""
    if context.device is not None:
        raise NotSupported("no_code_of_device", device=context.device)
    if context.device_io:
        raise NotSupported("onnx_cpu_device_io")
    if context.mechanism == SHARED_WEIGHT_MEMORY:
        raise NotSupported("no_weight_memory", runtime=_TITLE)
    if NATIVE_OUTPUT in context.zero_copy:
        raise NotSupported("no_native_output", runtime=_TITLE)
    if MODEL in context.zero_copy:
        raise NotSupported("no_model_in_place", runtime=_TITLE)
    if INTERNAL in context.outside:
        raise NotSupported("onnx_no_allocator")
    if context.allocator != CREATE_MEM:
        raise NotSupported("onnx_any_memory", allocator=context.allocator)
    maps = context.mechanism in (DUP, SHARED_WEIGHTS)
    if maps and context.source is not None and WEIGHTS in plan.contexts[context.source].outside:
        raise NotSupported("onnx_source_not_prepared")


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return what the template is filled in with."""
    contexts = plan.contexts
    turns = turns_of(plan)
    files, paths = files_of(plan, ".onnx")

    def where(name: str, belongs: list[bool]) -> Any:
        return indices.where(name, [i for i, does in enumerate(belongs) if does])

    sessions = [context.mechanism != SHARED_CONTEXT for context in contexts]
    prepared = [plan.needs_prepared(i) and sessions[i] for i in range(len(contexts))]
    bound_inputs = [INPUT in context.zero_copy for context in contexts]
    bound_outputs = [OUTPUT in context.zero_copy for context in contexts]
    sources = [context.source for context in contexts]
    return {
        **common_values(plan, indices, _TITLE, _WORDS, "one arena of the process"),
        "threads": len(turns.rows),
        "turns": python_turns(turns),
        "files": files,
        "path": indices.value("path_of", paths),
        "shapes": python_shapes(plan),
        "source": indices.value("source_of", sources),
        "source_path": indices.value(
            "source_path_of", [None if source is None else paths[source] for source in sources]
        ),
        "prepared": where("is_prepared", prepared),
        "shared_contexts": where("shares_session", [not session for session in sessions]),
        "shared_weights": where("shares_weights", [context.mechanism == SHARED_WEIGHTS for context in contexts]),
        "internal": where("in_arena", [context.internal is not None for context in contexts]),
        "given_weights": where("has_weights", [WEIGHTS in context.outside for context in contexts]),
        "bound": where("is_bound", [bool(context.zero_copy) for context in contexts]),
        "bound_inputs": where("binds_input", bound_inputs),
        "bound_outputs": where("binds_output", bound_outputs),
    }
