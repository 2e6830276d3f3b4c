"""The table of the index with the summary of every result and program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reusebench.storage.index.tables import Table
from reusebench.storage.result_summary import ResultSummary, summaries_of

__all__ = ["RESULTS", "summary_in"]

_WHOLE = (
    "npu_memory_limit_bytes",
    "streams",
    "contexts",
    "cores",
    "model_files",
    "application_memory_bytes",
    "application_memory_spread_bytes",
    "npu_memory_bytes",
    "latency_ns",
)
_TYPES = {
    **dict.fromkeys(_WHOLE, "BIGINT"),
    "has_machine": "BOOLEAN",
    "throughput_per_s": "DOUBLE",
    "model_digests": "VARCHAR[]",
    "model_names": "VARCHAR[]",
}

RESULTS = Table(
    "results",
    {name: _TYPES.get(name, "VARCHAR") for name in ResultSummary._fields},
    lambda file, _: summaries_of(file),
)


def summary_in(row: Iterable[Any]) -> ResultSummary:
    """Return the summary in a row of the table, without its columns `run` and `position`."""
    return ResultSummary._make(tuple(value) if isinstance(value, list) else value for value in row)
