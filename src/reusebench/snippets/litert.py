"""Plans in Python for LiteRT on the CPU, with the calls of measured/runtimes/litert in their order.

The programs use the wheel's own classes. These accept no shared delegate, no descriptor of a weight
cache, and no array in place as an input: TensorBuffer.create_from_host_memory turns it into one
dimension, which the model refuses (2.3).
"""

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
from reusebench.measured.runtimes.litert.options import options_of as settings_of
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

_TITLE = "LiteRT"
_FLAGS = "xnnpack_flags="
_WORDS = {
    DUP: "another compiled model over the same mapped weights",
    SHARED_CONTEXT: "one compiled model from several threads",
    SHARED_WEIGHTS: "a compiled model of another resolution over the same mapped weights",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    return python_snippet(plan, "litert.py.j2", _check, _values)


def _statement(option: str) -> str:
    """Return the statement that sets an option; raise NotSupported for one that LiteRT lacks."""
    options = settings_of((option,), shares_internal=False)
    name, _, value = option.partition("=")
    if name == "api":
        raise NotSupported("litert_no_code_of_options", options=option)
    if name == "kernel_mode":
        return f"cpu.kernel_mode = CpuKernelMode.{value.upper()}"
    if name == "xnnpack_flags":
        return f"cpu.xnnpack_flags = {options.flags:#x}"
    if name == "num_threads":
        return f"cpu.num_threads = {options.threads}"
    return f"cpu.{name} = {value == 'true'}"


def _check(context: Context) -> None:
    """Raise NotSupported for contexts that the adapter refuses too or the wheel's classes lack."""
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
    for option in context.options:
        _statement(option)
    if sum(option.startswith(_FLAGS) for option in context.options) > 1:
        raise NotSupported("litert_no_code_of_options", options=", ".join(context.options))


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return the values for the template."""
    needed = [option for model in plan.models for option in model.options]
    if needed:
        raise NotSupported("litert_no_code_of_options", options=", ".join(dict.fromkeys(needed)))
    where = conditions(plan, indices)
    files, paths = own_files_of(plan, ".tflite")

    options = options_of(plan, indices)
    prepared = []
    cache_paths = []
    for i, context in enumerate(plan.contexts):
        if plan.needs_prepared(i) and any(
            option.startswith(_FLAGS) for option in plan.options_of(i)
        ):
            # A weight cache is good for one choice of flags.
            raise NotSupported("litert_no_code_of_options", options=", ".join(plan.options_of(i)))
        prepared.append(plan.needs_prepared(i) and context.mechanism != SHARED_CONTEXT)
        lender = context.source if context.mechanism == SHARED_WEIGHTS else i
        cache_paths.append(paths[lender or 0])
    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "internal memory"),
        "files": files,
        "path": indices.value("path_of", paths),
        "options": [(_statement(option), has_it) for option, has_it in options],
        "has_mode": any(option.startswith("kernel_mode=") for option, _ in options),
        "prepared": indices.flagged("maps_weights", prepared),
        "cache_path": indices.value("cache_of", cache_paths),
        "shared_contexts": where(
            "shares_model", lambda context: context.mechanism == SHARED_CONTEXT
        ),
        "bound_outputs": where("binds_output", lambda context: OUTPUT in context.zero_copy),
    }
