"""Plans in Python for OpenVINO on the CPU, with the calls of the adapter in their order."""

from __future__ import annotations

from typing import Any, Optional

from reusebench.measured.plan import (
    CREATE_MEM,
    DUP,
    INPUT,
    INTERNAL,
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
    turns_of,
)
from reusebench.snippets.indices import Indices, Where

__all__ = ["write"]

_TITLE = "OpenVINO"
#: Mechanisms that make another request of a compiled model.
_REQUESTS = (DUP, SHARED_CONTEXT, SHARED_WEIGHTS)
_WORDS = {
    DUP: "another infer request of the same compiled model",
    SHARED_CONTEXT: "another infer request of a compiled model with one stream",
    SHARED_WEIGHTS: "a request of the same compiled model, whose sizes are free",
    SHARED_WEIGHT_MEMORY: "compiling the same weights in memory again",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    return python_snippet(plan, "openvino.py.j2", _check, _values)


def _check(context: Context) -> None:
    """Raise NotSupported for contexts that the adapter refuses too or the template lacks."""
    if context.device is not None:
        raise NotSupported("openvino_cpu_only", device=context.device)
    if context.device_io:
        raise NotSupported("openvino_cpu_device_io")
    if NATIVE_OUTPUT in context.zero_copy:
        raise NotSupported("no_native_output", runtime=_TITLE)
    if INTERNAL in context.outside:
        raise NotSupported("openvino_no_allocator")
    if context.allocator != CREATE_MEM:
        raise NotSupported("openvino_any_memory", allocator=context.allocator)


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return the values for the template."""
    contexts = plan.contexts
    turns = turns_of(plan)
    files, paths = own_files_of(plan, ".onnx")

    where = conditions(plan, indices)
    groups = [context.internal for context in contexts]
    released = _released(plan)
    hints: list[tuple[str, str, Where]] = []
    options: list[tuple[str, str, Where]] = []
    for option, has_it in options_of(plan, indices):
        name, _, value = option.partition("=")
        (hints if name == "PERFORMANCE_HINT" else options).append((name, value, has_it))
    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "internal tensors"),
        "files": files,
        "path": indices.value("path_of", paths),
        "requests": where("is_request", lambda context: context.mechanism in _REQUESTS),
        "weight_memory": where(
            "shares_memory", lambda context: context.mechanism == SHARED_WEIGHT_MEMORY
        ),
        "streams": min(plan.cores, len(turns.rows)),
        "several_streams": indices.flagged("has_streams", _has_streams(plan)),
        "resolutions": where("is_resolution", lambda context: context.mechanism == SHARED_WEIGHTS),
        "prepared": indices.flagged("is_prepared", map(plan.needs_prepared, range(len(contexts)))),
        "given_weights": where("has_weights", lambda context: WEIGHTS in context.outside),
        "group": indices.value("group_of", groups) if any(released) else "",
        "given_back": indices.flagged("is_given_back", released),
        "grouped": where("takes_turns", lambda context: context.internal is not None),
        "bound_inputs": where("binds_input", lambda context: INPUT in context.zero_copy),
        "bound_outputs": where("binds_output", lambda context: OUTPUT in context.zero_copy),
        "hints": hints,
        "options": options,
    }


def _has_streams(plan: Plan) -> list[bool]:
    """Return, per context, whether its compiled model has several streams.

    Requests compile nothing, so any answer fits them; True makes simpler conditions.
    """
    sources = set()
    for context in plan.contexts:
        if context.mechanism in (DUP, SHARED_WEIGHTS):
            sources.add(context.source)
    if not sources:
        return [False] * len(plan.contexts)
    return [
        i in sources or context.mechanism in _REQUESTS for i, context in enumerate(plan.contexts)
    ]


def _released(plan: Plan) -> list[bool]:
    """Return, per context, whether its internal tensors are released when the next context of its
    group runs.

    All contexts of a compiled model use the internal tensors of its streams, and none may infer
    when they are released. So they must all be in one group, with those of another compiled model.
    """
    compilers = []
    for i, context in enumerate(plan.contexts):
        is_request = context.mechanism in _REQUESTS and context.source is not None
        compilers.append(context.source if is_request else i)

    groups_of_model: dict[Optional[int], set[Optional[int]]] = {}
    models_of_group: dict[Optional[int], set[Optional[int]]] = {}
    for compiler, context in zip(compilers, plan.contexts):
        groups_of_model.setdefault(compiler, set()).add(context.internal)
        models_of_group.setdefault(context.internal, set()).add(compiler)

    released = []
    for compiler, context in zip(compilers, plan.contexts):
        is_in_one_group = len(groups_of_model[compiler]) == 1
        is_alone = context.internal is None or len(models_of_group[context.internal]) == 1
        released.append(is_in_one_group and not is_alone)
    return released
