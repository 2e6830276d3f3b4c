"""The table of data frames: the figures of each repeat, also of what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reusebench.storage.configuration_row import (
    ConfigurationRow,
    Figures,
    figures_of_repeats,
    row_of_program,
    row_of_result,
)
from reusebench.storage.index.tables import Table
from reusebench.storage.metrics import METRICS
from reusebench.storage.run_file import StoredRun
from reusebench.storage.runs import Run

__all__ = ["FACTS", "FIGURES"]

#: Columns of a configuration that do not follow from its run.
FACTS = tuple(
    name
    for name in ConfigurationRow._fields
    if name not in ("run_number", "run_name", "recorded_at", "commit", "dirty", "file")
)
#: Types of facts that are no text.
_TYPES = {
    "streams": "BIGINT",
    "contexts": "BIGINT",
    "sessions": "BIGINT",
    "tokens": "BIGINT",
    "prompt_tokens": "BIGINT",
    "generated_tokens": "BIGINT",
    "common_tokens": "BIGINT",
    "npu_memory_limit_bytes": "BIGINT",
    "busy_percent": "DOUBLE",
    "memory_short": "BOOLEAN",
}


def _rows(file: StoredRun, run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each result, and for each phase of a program; for a program one at least."""
    number = 0
    for stored, measured in zip(file.results, run.measured):
        facts = _facts(row_of_result(run, measured, stored.info))
        yield _row(number, facts, None, figures_of_repeats(stored.info, len(stored.info.repeats)))
        number += 1
    for program in file.programs:
        facts = _facts(row_of_program(run, program))
        for phase in program.phases:
            figures = figures_of_repeats(phase, len(program.repeats))
            yield _row(number, facts, phase.name, figures)
        if not program.phases:
            yield _row(number, facts, None, [])
        number += 1


def _facts(row: ConfigurationRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in FACTS)


def _row(
    number: int, facts: tuple[Any, ...], phase: str | None, figures: Sequence[Figures]
) -> tuple[Any, ...]:
    columns = list(zip(*figures)) or [()] * len(METRICS)
    return number, *facts, phase, len(figures), *columns


FIGURES = Table(
    "figures",
    {
        #: Number of the configuration in its run.
        "configuration": "INTEGER",
        **{name: _TYPES.get(name, "VARCHAR") for name in FACTS},
        "phase": "VARCHAR",
        "repeats": "INTEGER",
        **{metric.column: "DOUBLE[]" for metric in METRICS},
    },
    _rows,
)
