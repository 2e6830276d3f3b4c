"""The table of the explanation: claim, prediction, measurement and error of each scenario."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.reports.base.formatting import MIB, mib, mib_decimals, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explanation import Explanation, explain
from reusebench.reports.results.rows import Row

_HEADS = (
    "column_scenario",
    "column_claim",
    "column_predicted_saved",
    "column_predicted_percent",
    "column_measured_saved",
    "column_measured_percent",
    "column_error",
    "column_error_percent",
    "column_error_components",
    "column_basis",
)


def explanation_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return a row for each scenario that is explained; None if none is."""
    lines = []
    for row in rows:
        explanation = explain(row)
        if explanation is None:
            continue
        is_npu = explanation.measured.is_npu
        cells = [
            texts.scenario(row.scenario),
            percent(explanation.naive_percent),
            mib(explanation.predicted_saved, is_npu, spread=False),
            percent(explanation.percent(explanation.predicted_saved)),
            mib(explanation.measured_saved, is_npu),
            percent(explanation.percent(explanation.measured_saved)),
            mib(explanation.error, is_npu),
            percent(explanation.percent(explanation.error)),
            texts.joined(_component_errors(explanation, texts)),
            texts(f"basis_{explanation.basis}"),
        ]
        lines.append((row.outcome, cells))
    if not lines:
        return None
    return Table(heads_of(_HEADS, texts), lines, words=(0, -2, -1), exported="explanations")


def _component_errors(explanation: Explanation, texts: Texts) -> list[str]:
    """Return the components whose error shows, with the error."""
    is_npu = explanation.measured.is_npu
    errors = []
    for name, error in explanation.error_by_component.items():
        rounded = rounded_mib(error, is_npu) if error else 0
        if rounded:
            size = f"{rounded:+,.{mib_decimals(is_npu)}f}"
            errors.append(texts("error_part", component=component_name(name, texts), error=size))
    return errors


def component_name(name: str, texts: Texts) -> str:
    """Return a component's name as it is written within a sentence."""
    return texts(f"component_{name}").lower()


def rounded_mib(figure: Figure, is_npu: bool) -> float:
    """Return MiB as rounded for the reader: zero is not worth mentioning."""
    return round(figure.median / MIB, mib_decimals(is_npu))
