"""Plans in Python for Teflon, with the calls of measured/runtimes/teflon in their order."""

from __future__ import annotations

from typing import Any, Optional

from reusebench.measured.plan import (
    DUP,
    INPUT,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    Context,
    Plan,
)
from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.option_words import split
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

_TITLE = "Teflon"
_WORDS = {
    DUP: "another interpreter with the same delegate",
    SHARED_CONTEXT: "one interpreter from several threads",
}
_THREADS = "num_threads"


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    return python_snippet(plan, "teflon.py.j2", _check, _values)


def _check(context: Context) -> None:
    """Raise NotSupported for contexts that the adapter refuses too."""
    if context.internal is not None:
        raise NotSupported("teflon_own_internal")
    if context.mechanism == SHARED_WEIGHTS:
        raise NotSupported("teflon_own_weights")
    if context.outside or context.mechanism == SHARED_WEIGHT_MEMORY:
        raise NotSupported("teflon_own_buffers")
    if context.io is not None or (context.mechanism == SHARED_CONTEXT and context.zero_copy):
        raise NotSupported("teflon_one_set_of_tensors")
    if context.device is not None or context.device_io or NATIVE_OUTPUT in context.zero_copy:
        raise NotSupported("teflon_copies_tensors")
    if MODEL in context.zero_copy:
        raise NotSupported("no_model_in_place", runtime=_TITLE)


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return the values for the template."""
    where = conditions(plan, indices)
    files, paths = own_files_of(plan, ".tflite")
    threads = []
    for option, members in options_of(plan, indices):
        name, count = split(option)
        if name != _THREADS:
            raise NotSupported("litert_no_code_of_options", options=option)
        threads.append((count, members))
    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "internal memory"),
        "files": files,
        "path": indices.value("path_of", paths),
        "thread_options": threads,
        "dups": where("is_dup", lambda context: context.mechanism == DUP),
        "shared_contexts": where(
            "shares_interpreter", lambda context: context.mechanism == SHARED_CONTEXT
        ),
        "inputs_in_place": where("input_in_place", lambda context: INPUT in context.zero_copy),
        "outputs_in_place": where("output_in_place", lambda context: OUTPUT in context.zero_copy),
    }
