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
    conditions,
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
    where = conditions(plan, indices)
    files, paths = own_files_of(plan, ".onnx")

    prepared = []
    source_paths = []
    for i, context in enumerate(plan.contexts):
        if plan.needs_prepared(i) and _LEVEL in plan.options_of(i):
            raise NotSupported("onnx_level_of_prepared", option=_LEVEL)
        prepared.append(plan.needs_prepared(i) and context.mechanism != SHARED_CONTEXT)
        source_paths.append(None if context.source is None else paths[context.source])
    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "one arena of the process"),
        "files": files,
        "path": indices.value("path_of", paths),
        "source_path": indices.value("source_path_of", source_paths),
        "options": [(_OPTIONS[option], has_it) for option, has_it in options_of(plan, indices)],
        "prepared": indices.flagged("is_prepared", prepared),
        "shared_contexts": where(
            "shares_session", lambda context: context.mechanism == SHARED_CONTEXT
        ),
        "shared_weights": where(
            "shares_weights", lambda context: context.mechanism == SHARED_WEIGHTS
        ),
        "internal": where("in_arena", lambda context: context.internal is not None),
        "given_weights": where("has_weights", lambda context: WEIGHTS in context.outside),
        "bound": where("is_bound", lambda context: bool(context.zero_copy)),
        "bound_inputs": where("binds_input", lambda context: INPUT in context.zero_copy),
        "bound_outputs": where("binds_output", lambda context: OUTPUT in context.zero_copy),
    }
