"""The long form, for databases and pandas: a record for each repeat, as CSV or JSON Lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from reusebench.reports.base.table import csv_cell
from reusebench.reports.compare.exports.figures import number
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import CONDITIONS, Measured, Run

__all__ = ["CONDITION_COLUMNS", "LONG_COLUMNS", "comma_separated", "json_lines", "long_form"]

#: Columns of the long form; new ones come at the end.
LONG_COLUMNS = (
    "run_number",
    "run_name",
    "recorded_at",
    "board",
    "commit",
    "dirty",
    "runtime",
    "target",
    "name",
    "detail",
    "models",
    "chip",
    "runtime_version",
    "driver_version",
    "python_version",
    "models_digest",
    "plan_digest",
    "metric",
    "unit",
    "repeat",
    "value",
    "npu_memory_limit_bytes",
    "memory_short",
)
#: Key: condition whose name is taken; value: its column in the long form.
CONDITION_COLUMNS = {"models": "models_digest", "plan": "plan_digest"}


def comma_separated(runs: Sequence[Run], metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield the long form as CSV, a run at a time."""
    # pandas would do, but only reports need it: this command works without.
    text = io.StringIO()
    writer = csv.DictWriter(text, LONG_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        for record in long_form([run], metrics):
            writer.writerow({column: csv_cell(value) for column, value in record.items()})
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def json_lines(runs: Sequence[Run], metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield the long form as JSON Lines, a run at a time."""
    for run in runs:
        records = long_form([run], metrics)
        yield "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def long_form(runs: Sequence[Run], metrics: Sequence[Metric]) -> Iterator[dict[str, Any]]:
    """Yield a record in LONG_COLUMNS for each run, configuration, metric and repeat."""
    for run in runs:
        for measured in run.measured:
            common = _common_columns(run, measured)
            for metric in metrics:
                is_short = measured.is_short(metric)
                for repeat, value in enumerate(measured.values.get(metric.name, ()), start=1):
                    record = {
                        **common,
                        "metric": metric.name,
                        "unit": metric.unit,
                        "repeat": repeat,
                        "value": number(value),
                        "memory_short": is_short,
                    }
                    yield {column: record[column] for column in LONG_COLUMNS}


def _common_columns(run: Run, measured: Measured) -> dict[str, Any]:
    """Return the columns that all records of a configuration have in common."""
    configuration = measured.configuration
    conditions = {
        CONDITION_COLUMNS.get(name, name): measured.conditions[name] for name in CONDITIONS
    }
    return {
        **conditions,
        "run_number": run.number,
        "run_name": run.name,
        "recorded_at": run.recorded_at,
        "board": run.board,
        "commit": run.commit,
        "dirty": run.is_dirty,
        "runtime": configuration.runtime,
        "target": configuration.target,
        "name": configuration.name,
        "detail": configuration.detail,
        "models": ";".join(configuration.models),
    }
