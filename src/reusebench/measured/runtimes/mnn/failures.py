"""The reasons of MNN's failures, which it prints and does not return."""

from __future__ import annotations

import re

from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.library_words import last_words

__all__ = ["check_weights", "inference_error"]

#: MNN's sentences about operators that it does not have; the group is the operator.
_MISSING_OPERATORS = (
    re.compile(r"Don't support type \[?(?P<operator>\w+)"),
    re.compile(r"(?P<operator>Plugin) is not supported"),
)
_MISSING_WEIGHTS = re.compile(r"Can't open file:(?P<path>.+\.weight)$", re.MULTILINE)
#: The line that MNN prints about the CPU when it is imported.
_GREETING = re.compile(r"The device supports: .*\n")
_LINES = 4


def check_weights(model: str) -> None:
    """Raise AdapterError if MNN has just loaded a model without the file of its weights."""
    matched = _MISSING_WEIGHTS.search(last_words())
    if matched:
        raise AdapterError("mnn_weights_missing", model=model, path=matched["path"])


def inference_error() -> AdapterError:
    """Return the error of an inference that gave no outputs, with MNN's words."""
    words = _GREETING.sub("", last_words())
    for pattern in _MISSING_OPERATORS:
        matched = pattern.search(words)
        if matched:
            return AdapterError("mnn_operator_missing", operator=matched["operator"])
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    if not lines:
        return AdapterError("mnn_inference_failed")
    return AdapterError("mnn_inference_failed_with_lines", lines=" | ".join(lines[-_LINES:]))
