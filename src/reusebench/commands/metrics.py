"""`reusebench metrics`: every figure that runs are compared by, with its unit and meaning."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import click

from reusebench.commands.compare import DEFAULT_METRICS
from reusebench.commands.options import MetricType, language
from reusebench.commands.reply import give, json_option
from reusebench.commands.results import MetricRow
from reusebench.reports.base.texts import Texts, texts_of
from reusebench.reports.history.series import HISTORY_METRICS
from reusebench.reports.page.exported_tables import TABLES
from reusebench.storage.metrics import METRICS, Metric

__all__ = ["metrics"]

_WIDTH = 100
_INDENT = "    "
#: Commands that show a metric without --metric.
_SHOWN_BY = {"compare": DEFAULT_METRICS, "history": HISTORY_METRICS}


@click.command()
@click.argument("chosen", metavar="[METRIC]...", nargs=-1, type=MetricType())
@language
@json_option
def metrics(chosen: Sequence[Metric], language: str) -> None:
    """List every metric: its unit, which direction is better, where it is shown, its meaning.

    `--metric` of compare, history and export, and the limits of `--fail`, take these names.
    """
    texts = texts_of(language)
    rows = [_row(metric, texts) for metric in chosen or METRICS]
    give(rows, _lines(rows))


def _row(metric: Metric, texts: Texts) -> MetricRow:
    return MetricRow(
        name=metric.name,
        unit=metric.unit,
        less_is_better=metric.less_is_better,
        shown_by=[command for command, names in _SHOWN_BY.items() if metric.name in names],
        tables=[table.name for table in TABLES if metric.column in table.columns],
        title=texts(f"metric_{metric.name}"),
        meaning=texts(f"meaning_{metric.name}"),
    )


def _lines(rows: Sequence[MetricRow]) -> Iterator[str]:
    for row in rows:
        parts = [f"{row.name}: {row.unit}, {'less' if row.less_is_better else 'more'} is better"]
        if row.shown_by:
            parts.append(f"in {' and '.join(row.shown_by)}")
        if row.tables:
            parts.append(f"tables: {', '.join(row.tables)}")
        yield "; ".join(parts)
        yield textwrap.fill(row.meaning, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
