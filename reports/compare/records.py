"""A comparison of two sides as plain records: a row for each configuration and metric, in the metrics' own units."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from reports.compare.changes import Change, Changes

COLUMNS = (
    "runtime",
    "target",
    "name",
    "detail",
    "models",
    "metric",
    "unit",
    "base_median",
    "base_repeats",
    "head_median",
    "head_repeats",
    "change",
    "change_low",
    "change_high",
    "change_percent",
    "smallest_change",
    "verdict",
    "noise_runs",
)


def as_csv(changes: Changes) -> str:
    """Return the rows as CSV, with COLUMNS as its head."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_record(change) for change in changes.rows)
    return file.getvalue()


def as_json(changes: Changes) -> str:
    """Return both sides' runs, the rows, and what was not compared and why."""
    document = {
        "base": [str(run) for run in changes.base],
        "head": [str(run) for run in changes.head],
        "changes": [_record(change) for change in changes.rows],
        "not_compared": [
            {"configuration": str(each.configuration), "differs": each.conditions} for each in changes.differing
        ],
        "on_one_side": [
            {"configuration": str(each.configuration), "base": each.base, "head": each.head}
            for each in changes.unmeasured
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _record(change: Change) -> dict[str, Any]:
    configuration, found = change.configuration, change.difference
    return {
        "runtime": configuration.runtime,
        "target": configuration.target,
        "name": configuration.name,
        "detail": configuration.detail,
        "models": " ".join(configuration.models),
        "metric": change.metric.name,
        "unit": change.metric.unit,
        "base_median": found.base_median,
        "base_repeats": found.base_count,
        "head_median": found.head_median,
        "head_repeats": found.head_count,
        "change": found.change,
        "change_low": found.change - found.error if found.error is not None else None,
        "change_high": found.change + found.error if found.error is not None else None,
        "change_percent": found.percent,
        "smallest_change": found.error,
        "verdict": change.verdict,
        "noise_runs": found.noise.runs,
    }
