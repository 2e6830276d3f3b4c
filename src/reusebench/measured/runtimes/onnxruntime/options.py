"""The options of sessions."""

from __future__ import annotations

from typing import Any, Callable, Dict

import onnxruntime as ort

__all__ = ["OPTIONS", "PREPARED_WITHOUT", "as_prepared", "plain_options"]

#: ONNX Runtime's severity scale (OrtLoggingLevel): 3 is error.
_LOG_ERRORS_ONLY = 3

#: Of a model that is prepared at full optimisation, which says nothing of this one.
PREPARED_WITHOUT = "graph_optimization_level=ORT_ENABLE_BASIC"
#: What an application may set of a session, and what sets it: no layouts that are made for the
#: CPU's vectors, weights not packed once more, and no arena, so that every tensor is given back to
#: the heap.
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
    """Return the options of any session."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS_ONLY
    return options


def as_prepared(options: Any) -> Any:
    """Return these options, set for a prepared model: it is optimised, and its nodes run in the
    order of the file.
    """
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    return options
