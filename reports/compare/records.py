"""A comparison for scripts: its rows as CSV and JSON, with the outcome of each limit."""

from __future__ import annotations

from typing import Any

from reusebench.reports.base.table import csv
from reusebench.reports.compare.changes import Change, Changes, Subject
from reusebench.reports.compare.gate import GateResult
from reusebench.reports.compare.gate_words import limit_words, lost_words

#: Columns of the records; new ones come at the end.
COMPARISON_COLUMNS = (
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
    "board",
)


def as_csv(changes: Changes, _result: GateResult | None, _shows_all: bool = False) -> str:
    """Return the rows as CSV in COMPARISON_COLUMNS."""
    return csv(COMPARISON_COLUMNS, map(_record, changes.rows)).rstrip("\n")


def comparison_document(changes: Changes, result: GateResult | None) -> dict[str, Any]:
    """Return the runs of both sides, the rows, configurations that were not compared, the gate."""
    not_compared = []
    for differing in changes.differing:
        not_compared.append({**_names(differing.subject), "differs": differing.conditions})
    on_one_side = []
    for unmeasured in changes.unmeasured:
        on_one_side.append(
            {
                **_names(unmeasured.subject),
                "base": unmeasured.base,
                "head": unmeasured.head,
            }
        )
    return {
        "base": [str(run) for run in changes.base],
        "head": [str(run) for run in changes.head],
        "remark": changes.remark,
        "changes": [_record(change) for change in changes.rows],
        "not_compared": not_compared,
        "on_one_side": on_one_side,
        "gate": None if result is None else _gate(result),
    }


def _gate(result: GateResult) -> dict[str, Any]:
    limits = [
        {
            "limit": words.limit.text,
            "metric": words.limit.metric.name,
            "outcome": words.outcome,
            "sentences": words.sentences,
        }
        for words in limit_words(result)
    ]
    lost = [{**_names(each.subject), "sentence": lost_words(each)} for each in result.lost]
    return {
        "exit_code": result.exit_code,
        "strict": result.strict,
        "limits": limits,
        "lost": lost,
    }


def _names(subject: Subject) -> dict[str, str]:
    return {"configuration": str(subject), "board": subject.board}


def _record(change: Change) -> dict[str, Any]:
    configuration = change.subject.configuration
    difference = change.difference
    error = difference.error
    return {
        "runtime": configuration.runtime,
        "target": configuration.target,
        "name": configuration.name,
        "detail": configuration.detail,
        "models": " ".join(configuration.models),
        "metric": change.metric.name,
        "unit": change.metric.unit,
        "base_median": difference.base_median,
        "base_repeats": difference.base_count,
        "head_median": difference.head_median,
        "head_repeats": difference.head_count,
        "change": difference.change,
        "change_low": None if error is None else difference.change - error,
        "change_high": None if error is None else difference.change + error,
        "change_percent": difference.percent,
        "smallest_change": error,
        "verdict": change.verdict,
        "noise_runs": difference.noise.runs,
        "board": change.subject.board,
    }
