"""A plan in Python, for OpenVINO on the CPU: what the adapter compiles and runs, in its order."""

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
    options_of,
    own_files_of,
    python_snippet,
    turns_of,
)
from reusebench.snippets.indices import Indices

__all__ = ["write"]

_TITLE = "OpenVINO"
#: Mechanisms that make a further request of a compiled model.
_REQUESTS = (DUP, SHARED_CONTEXT, SHARED_WEIGHTS)
_WORDS = {
    DUP: "a further infer request of the same compiled model",
    SHARED_CONTEXT: "a further infer request of a compiled model with one stream",
    SHARED_WEIGHTS: "a request of the same compiled model, whose sizes are free",
    SHARED_WEIGHT_MEMORY: "compiling the same weights in memory once more",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported where it cannot be."""
    return python_snippet(plan, "openvino.py.j2", _check, _values)


def _check(context: Context) -> None:
    """Raise NotSupported for what the adapter refuses too, and for what is not written here."""
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
    """Return what the template is filled in with."""
    contexts = plan.contexts
    turns = turns_of(plan)
    files, paths = own_files_of(plan, ".onnx")

    def of_mechanism(name: str, *mechanisms: str) -> Any:
        return indices.flagged(name, [context.mechanism in mechanisms for context in contexts])

    groups = [context.internal for context in contexts]
    given_back = _given_back(plan)
    several = {context.source for context in contexts if context.mechanism in (DUP, SHARED_WEIGHTS)}
    # Requests compile nothing: what is said of the others holds for them too.
    has_streams = [
        bool(several) and (i in several or context.mechanism in _REQUESTS)
        for i, context in enumerate(contexts)
    ]
    options = [(*option.split("="), has_it) for option, has_it in options_of(plan, indices)]
    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "internal tensors"),
        "files": files,
        "path": indices.value("path_of", paths),
        "requests": of_mechanism("is_request", *_REQUESTS),
        "weight_memory": of_mechanism("shares_memory", SHARED_WEIGHT_MEMORY),
        "streams": min(plan.cores, len(turns.rows)),
        "several_streams": indices.flagged("has_streams", has_streams),
        "resolutions": of_mechanism("is_resolution", SHARED_WEIGHTS),
        "prepared": indices.flagged("is_prepared", map(plan.needs_prepared, range(len(contexts)))),
        "given_weights": indices.flagged(
            "has_weights", [WEIGHTS in context.outside for context in contexts]
        ),
        "group": indices.value("group_of", groups) if any(given_back) else "",
        "given_back": indices.flagged("is_given_back", given_back),
        "grouped": indices.flagged("takes_turns", [group is not None for group in groups]),
        "bound_inputs": indices.flagged(
            "binds_input", [INPUT in context.zero_copy for context in contexts]
        ),
        "bound_outputs": indices.flagged(
            "binds_output", [OUTPUT in context.zero_copy for context in contexts]
        ),
        "options": options,
        "has_hint": any(name == "PERFORMANCE_HINT" for name, _, _ in options),
    }


def _compiled_by(plan: Plan) -> list[int]:
    """Return for each context the one whose compiled model it has."""
    compiled = []
    for i, context in enumerate(plan.contexts):
        source = context.source if context.mechanism in _REQUESTS else None
        compiled.append(i if source is None else source)
    return compiled


def _given_back(plan: Plan) -> list[bool]:
    """Return for each context whether its internal tensors are given back when the next one of its
    turn runs.

    Those of one compiled model are in its streams, which serve all of its contexts: none of them
    may be inferring. So they are given back if all are of one turn, in which another compiled model
    runs too.
    """
    compiled = _compiled_by(plan)
    given_back = []
    for number, context in zip(compiled, plan.contexts):
        turns = {other.internal for other, own in zip(plan.contexts, compiled) if own == number}
        in_turn = {
            own for other, own in zip(plan.contexts, compiled) if other.internal == context.internal
        }
        is_alone = context.internal is None or len(in_turn) == 1
        given_back.append(len(turns) == 1 and not is_alone)
    return given_back
