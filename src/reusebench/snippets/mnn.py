"""Plans in Python for MNN on the CPU, with the calls of measured/runtimes/mnn in their order."""

from __future__ import annotations

from typing import Any, Optional

from reusebench.measured.plan import (
    CREATE_MEM,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    MODEL,
    NATIVE_OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Plan,
)
from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.mnn.options import HINTS, MnnSettings, settings_of
from reusebench.snippets.base import (
    Snippet,
    common_python_values,
    conditions,
    own_files_of,
    python_snippet,
)
from reusebench.snippets.indices import Indices

__all__ = ["write"]

_TITLE = "MNN"
_WORDS = {
    DUP: "clone()",
    SHARED_CONTEXT: "forward() of one module from several threads",
    SHARED_WEIGHTS: "clone(), and inputs of other sizes",
}
#: Names of the hints, which MNN's Python does not have, by their numbers.
_HINT_NAMES = {number: name for name, number in HINTS.items()}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    return python_snippet(plan, "mnn.py.j2", _check, _values)


def _check(context: Context) -> None:
    """Raise NotSupported for contexts that the adapter refuses too or the template lacks."""
    if context.device is not None or context.device_io:
        raise NotSupported("mnn_cpu_alone")
    if context.mechanism == SHARED_WEIGHT_MEMORY:
        raise NotSupported("no_weight_memory", runtime=_TITLE)
    if NATIVE_OUTPUT in context.zero_copy:
        raise NotSupported("no_native_output", runtime=_TITLE)
    if MODEL in context.zero_copy:
        raise NotSupported("mnn_no_external_path")
    if INTERNAL in context.outside:
        raise NotSupported("mnn_no_allocator")
    if WEIGHTS in context.outside:
        raise NotSupported("mnn_keeps_weights")
    if context.allocator != CREATE_MEM:
        raise NotSupported("mnn_own_memory", allocator=context.allocator)


def _settings(plan: Plan) -> MnnSettings:
    """Return the plan's settings; all contexts have the same, the options of the process."""
    options = {context.options for context in plan.contexts if context.mechanism == LOAD}
    settings = {settings_of(chosen) for chosen in options}
    if len(settings) > 1 or any(setting.is_interpreter for setting in settings):
        words = ", ".join(sorted({word for chosen in options for word in chosen}))
        raise NotSupported("mnn_no_code_of_options", options=words)
    return settings.pop()


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return the values for the template."""
    where = conditions(plan, indices)
    settings = _settings(plan)
    files, paths = own_files_of(plan, ".mnn")
    return {
        **common_python_values(
            plan,
            indices,
            _TITLE,
            _WORDS,
            "the intermediate tensors, as all modules of a process do",
        ),
        "files": files,
        "path": indices.value("path_of", paths),
        "clones": where("is_clone", lambda context: context.mechanism in (DUP, SHARED_WEIGHTS)),
        "shared_weights": where(
            "shares_weights", lambda context: context.mechanism == SHARED_WEIGHTS
        ),
        "shared_contexts": where(
            "shares_module", lambda context: context.mechanism == SHARED_CONTEXT
        ),
        "bound_inputs": where("is_in_place", lambda context: INPUT in context.zero_copy),
        "cores_per_inference": settings.threads,
        "backend": dict(settings.backend),
        "hints": {
            _HINT_NAMES[number]: (number, value)
            for number, value in settings.hints
            if (number, value) not in MnnSettings.usual_hints()
        },
        "rearrange": settings.rearrange,
    }
