"""Plans in Python for ncnn on the CPU, with the calls of measured/runtimes/ncnn in their order."""

from __future__ import annotations

from typing import Any, Optional, Union

from reusebench.measured.plan import (
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
from reusebench.measured.runtimes.base import NotSupported
from reusebench.snippets.base import (
    Snippet,
    common_python_values,
    conditions,
    own_files_of,
    python_snippet,
)
from reusebench.snippets.indices import Indices

__all__ = ["write"]

_TITLE = "ncnn"
#: Fields of ncnn.Option that are numbers; the others are switches.
_NUMBERS = ("num_threads", "openmp_blocktime", "kvcache_max_seqlen_hint")
_WORDS = {
    DUP: "another extractor over the same net",
    SHARED_CONTEXT: "extractors over one net from several threads",
    SHARED_WEIGHTS: "an extractor over the same net, with inputs of another size",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    return python_snippet(plan, "ncnn.py.j2", _check, _values)


def _check(context: Context) -> None:
    """Raise NotSupported for contexts that the adapter refuses too."""
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
    """Return the values for the template."""
    where = conditions(plan, indices)
    files, paths = own_files_of(plan, ".param")
    first_users = _first_users_of_arenas(plan)

    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "an arena for internal memory"),
        "files": files,
        "path": indices.value("path_of", paths),
        "over_net": where("borrows", lambda context: context.mechanism != LOAD),
        "options": _options(plan),
        "arena": indices.flagged("has_arena", [first is not None for first in first_users]),
        "in_turn": where("is_in_turn", lambda context: context.internal is not None),
        "first_user": indices.value("first_user_of", first_users),
        "bound_inputs": where("reads_in_place", lambda context: INPUT in context.zero_copy),
        "bound_outputs": where("places_output", lambda context: OUTPUT in context.zero_copy),
    }


def _first_users_of_arenas(plan: Plan) -> list[Optional[int]]:
    """Return, per context, the first one with the same arena; None if it uses ncnn's pools."""
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
    """Return the options of the contexts' nets as Python code; empty if there are none."""
    chosen: list[dict[str, Union[bool, int]]] = []
    for index in range(len(plan.contexts)):
        options: dict[str, Union[bool, int]] = {}
        for option in plan.options_of(index):
            name, _, value = option.partition("=")
            if name in _NUMBERS:
                options[name] = int(value)
            else:
                options[name] = value.lower() in ("1", "true")
        chosen.append(options)
    if not any(chosen):
        return ""
    if all(options == chosen[0] for options in chosen):
        return f"OPTIONS = [{chosen[0]}] * CONTEXTS"
    return f"OPTIONS = {chosen}"
