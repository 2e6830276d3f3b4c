"""Plans in Python for ONNX Runtime on the CPU, with the calls of the adapter in their order."""

from __future__ import annotations

from typing import Any, Optional

from reusebench.measured.plan import (
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
from reusebench.measured.runtimes.base import NotSupported
from reusebench.snippets.base import (
    Snippet,
    common_python_values,
    options_of,
    own_files_of,
    python_snippet,
)
from reusebench.snippets.indices import Indices

__all__ = ["write"]

_TITLE = "ONNX Runtime"
_WORDS = {
    DUP: "another session over the same mapped weights",
    SHARED_CONTEXT: "run() of one session from several threads",
    SHARED_WEIGHTS: "a session of another resolution over the same mapped weights",
}
#: Option of models that are not prepared; preparing fixes the level.
_LEVEL = "graph_optimization_level=ORT_ENABLE_BASIC"
#: Statements that set the options as the adapter does.
_OPTIONS = {
    _LEVEL: "options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC",
    "session.disable_prepacking=1": (
        'options.add_session_config_entry("session.disable_prepacking", "1")'
    ),
    "enable_cpu_mem_arena=0": "options.enable_cpu_mem_arena = False",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    return python_snippet(plan, "onnxruntime.py.j2", lambda context: _check(context, plan), _values)


def _check(context: Context, plan: Plan) -> None:
    """Raise NotSupported for contexts that the adapter refuses too or that were never tried."""
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
    unknown = [option for option in context.options if option not in _OPTIONS]
    if unknown:
        raise NotSupported(
            "unknown_option", runtime=_TITLE, option=unknown[0], valid=", ".join(_OPTIONS)
        )
    maps = context.mechanism in (DUP, SHARED_WEIGHTS)
    if maps and context.source is not None and WEIGHTS in plan.contexts[context.source].outside:
        raise NotSupported("onnx_source_not_prepared")


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return the values for the template."""
    contexts = plan.contexts
    files, paths = own_files_of(plan, ".onnx")

    has_session = []
    prepared = []
    source_paths = []
    for i, context in enumerate(contexts):
        if plan.needs_prepared(i) and _LEVEL in plan.options_of(i):
            raise NotSupported("onnx_level_of_prepared", option=_LEVEL)
        has_session.append(context.mechanism != SHARED_CONTEXT)
        prepared.append(plan.needs_prepared(i) and has_session[i])
        source_paths.append(None if context.source is None else paths[context.source])
    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "one arena of the process"),
        "files": files,
        "path": indices.value("path_of", paths),
        "source_path": indices.value("source_path_of", source_paths),
        "options": [(_OPTIONS[option], has_it) for option, has_it in options_of(plan, indices)],
        "prepared": indices.flagged("is_prepared", prepared),
        "shared_contexts": indices.flagged("shares_session", [not has for has in has_session]),
        "shared_weights": indices.flagged(
            "shares_weights", [context.mechanism == SHARED_WEIGHTS for context in contexts]
        ),
        "internal": indices.flagged(
            "in_arena", [context.internal is not None for context in contexts]
        ),
        "given_weights": indices.flagged(
            "has_weights", [WEIGHTS in context.outside for context in contexts]
        ),
        "bound": indices.flagged("is_bound", [bool(context.zero_copy) for context in contexts]),
        "bound_inputs": indices.flagged(
            "binds_input", [INPUT in context.zero_copy for context in contexts]
        ),
        "bound_outputs": indices.flagged(
            "binds_output", [OUTPUT in context.zero_copy for context in contexts]
        ),
    }
