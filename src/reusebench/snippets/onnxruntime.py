"""Plans in Python for ONNX Runtime on the CPU, with the calls of the adapter in their order."""

from __future__ import annotations

import json
import re
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
from reusebench.measured.runtimes.onnxruntime.option_names import (
    ARENA_KEYS,
    LEVEL,
    STRATEGIES,
    STRATEGY,
    is_of_run,
    run_entry,
)
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
#: Enumerations by the attributes of SessionOptions that have their members.
_ENUMERATIONS = {
    LEVEL: "GraphOptimizationLevel",
    "execution_mode": "ExecutionMode",
    "execution_order": "ExecutionOrder",
}
_SWITCH = re.compile("(?:enable|use)_\\w+")
_NUMBER = re.compile(r"(?:log|int(?:er|ra)_op)_\w+")


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
        for option in plan.options_of(i):
            if plan.needs_prepared(i) and option.startswith(f"{LEVEL}="):
                raise NotSupported("onnx_level_of_prepared", option=option)
        prepared.append(plan.needs_prepared(i) and context.mechanism != SHARED_CONTEXT)
        source_paths.append(None if context.source is None else paths[context.source])
    in_arena = []
    statements = []
    run_entries = []
    for option, has_it in options_of(plan, indices):
        if is_of_run(option):
            name, _, value = option.partition("=")
            run_entries.append((run_entry(name), value, has_it))
        elif not _is_of_arena(option):
            statements.append((_statement(option), has_it))
    for i, context in enumerate(plan.contexts):
        has_arena = any(map(_is_of_arena, plan.options_of(i)))
        in_arena.append(context.internal is not None or has_arena)
    return {
        **common_python_values(plan, indices, _TITLE, _WORDS, "one arena of the process"),
        "files": files,
        "path": indices.value("path_of", paths),
        "source_path": indices.value("source_path_of", source_paths),
        "options": statements,
        "run_entries": run_entries,
        "arena": _arena(plan),
        "prepared": indices.flagged("is_prepared", prepared),
        "shared_contexts": where(
            "shares_session", lambda context: context.mechanism == SHARED_CONTEXT
        ),
        "shared_weights": where(
            "shares_weights", lambda context: context.mechanism == SHARED_WEIGHTS
        ),
        "internal": indices.flagged("in_arena", in_arena),
        "given_weights": where("has_weights", lambda context: WEIGHTS in context.outside),
        "bound": where("is_bound", lambda context: bool(context.zero_copy)),
        "bound_inputs": where("binds_input", lambda context: INPUT in context.zero_copy),
        "bound_outputs": where("binds_output", lambda context: OUTPUT in context.zero_copy),
    }


def _is_of_arena(option: str) -> bool:
    return option.partition("=")[0] in ARENA_KEYS


def _statement(option: str) -> str:
    """Return the statement that sets an option of a session as the adapter does."""
    name, _, value = option.partition("=")
    if "." in name:
        return f"options.add_session_config_entry({json.dumps(name)}, {json.dumps(value)})"
    if name in _ENUMERATIONS:
        return f"options.{name} = ort.{_ENUMERATIONS[name]}.{value}"
    if _SWITCH.fullmatch(name):
        return f"options.{name} = {value.lower() in ('1', 'true')}"
    if _NUMBER.fullmatch(name):
        return f"options.{name} = {value}"
    valid = [*_ENUMERATIONS, *ARENA_KEYS, "session.NAME", "memory.NAME"]
    raise NotSupported("unknown_option", runtime=_TITLE, option=option, valid=", ".join(valid))


def _arena(plan: Plan) -> str:
    """Return the keys of the process's arena as Python code; empty for the usual ones."""
    chosen = set()
    for index, context in enumerate(plan.contexts):
        keys = tuple(filter(_is_of_arena, plan.options_of(index)))
        if keys or context.internal is not None:
            chosen.add(keys)
    if len(chosen) > 1:
        texts = [", ".join(keys) or "-" for keys in sorted(chosen)]
        raise NotSupported("onnx_one_arena", given=texts[0], others=texts[1])
    if not any(chosen):
        return ""
    settings = {}
    if any(context.internal is not None for context in plan.contexts):
        settings[STRATEGY] = str(STRATEGIES["kSameAsRequested"])
    for option in chosen.pop():
        name, _, value = option.partition("=")
        settings[name] = str(STRATEGIES.get(value, value))
    return ", ".join(f"{json.dumps(name)}: {value}" for name, value in settings.items())
