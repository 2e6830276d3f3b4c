"""The options of sessions."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort

__all__ = ["as_prepared", "plain_options"]

#: ONNX Runtime's severity scale (OrtLoggingLevel): 3 is error.
_LOG_ERRORS_ONLY = 3


def plain_options() -> Any:
    """Return the options of any session."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS_ONLY
    return options


def as_prepared(options: Any) -> Any:
    """Return these options, set for a prepared model: it is optimised, and its nodes run in the order of the file."""
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    return options
