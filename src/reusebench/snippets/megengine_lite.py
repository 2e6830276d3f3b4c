"""Plans in Python for MegEngine Lite on the CPU, with the calls of the adapter in their order."""

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

_TITLE = "MegEngine Lite"
_WORDS = {
    DUP: "share_weights_with",
    SHARED_WEIGHTS: "share_weights_with, and an input of another size",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    return python_snippet(plan, "megengine_lite.py.j2", _check, _values)


def _check(context: Context) -> None:
    """Raise NotSupported for contexts that the adapter refuses too or the template lacks."""
    if context.device is not None:
        raise NotSupported("no_code_of_device", device=context.device)
    if context.device_io:
        raise NotSupported("no_code_of_device_io")
    if context.mechanism == SHARED_CONTEXT:
        raise NotSupported("megengine_one_thread")
    if context.mechanism == SHARED_WEIGHT_MEMORY:
        raise NotSupported("no_weight_memory", runtime=_TITLE)
    if NATIVE_OUTPUT in context.zero_copy:
        raise NotSupported("no_native_output", runtime=_TITLE)
    if MODEL in context.zero_copy:
        raise NotSupported("no_model_in_place", runtime=_TITLE)
    if INTERNAL in context.outside:
        raise NotSupported("megengine_no_allocator")
    if WEIGHTS in context.outside:
        raise NotSupported("megengine_keeps_weights")
    if context.allocator != CREATE_MEM:
        raise NotSupported("megengine_any_array", allocator=context.allocator)


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return the values for the template."""
    where = conditions(plan, indices)
    files, paths = own_files_of(plan, ".mge")
    lenders: dict[int, int] = {}
    for first, *others in plan.internal_memories().values():
        lenders.update(dict.fromkeys(others, first))

    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "runtime memory"),
        "files": files,
        "path": indices.value("path_of", paths),
        "options": [(option.replace("=", " = "), has) for option, has in options_of(plan, indices)],
        "over_weights": where("borrows", lambda context: context.source is not None),
        "internal": indices.where("shares_memory", lenders),
        "first_user": indices.value(
            "first_user_of", [lenders.get(i) for i in range(len(plan.contexts))]
        ),
        "bound_inputs": where("binds_input", lambda context: INPUT in context.zero_copy),
        "bound_outputs": where("binds_output", lambda context: OUTPUT in context.zero_copy),
    }
