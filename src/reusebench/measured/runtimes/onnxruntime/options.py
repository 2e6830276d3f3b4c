"""The options of sessions."""

from __future__ import annotations

from typing import Any, Callable, Dict

import onnxruntime as ort

__all__ = ["OPTIONS", "PREPARED_WITHOUT", "as_prepared", "plain_options"]

#: Severity of errors (OrtLoggingLevel).
_LOG_ERRORS_ONLY = 3

#: Option that a prepared model cannot have: it was prepared at full optimisation.
PREPARED_WITHOUT = "graph_optimization_level=ORT_ENABLE_BASIC"
#: Options that an application may set, with the calls that set them: no layouts for the CPU's
#: vectors, no weights packed once more, no arena, so that every tensor goes back to the heap.
OPTIONS: Dict[str, Callable[[Any], object]] = {
    PREPARED_WITHOUT: lambda options: setattr(
        options, "graph_optimization_level", ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    ),
    "session.disable_prepacking=1": lambda options: options.add_session_config_entry(
        "session.disable_prepacking", "1"
    ),
    "enable_cpu_mem_arena=0": lambda options: setattr(options, "enable_cpu_mem_arena", False),
}


def plain_options() -> Any:
    """Return the options that every session has."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS_ONLY
    return options


def as_prepared(options: Any) -> Any:
    """Set these options for a prepared model, and return them.

    It is optimised already, and its nodes run in the order of the file.
    """
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    return options
