"""The list of exported tables; docs/reference/tables.md explains every column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from reusebench.reports.base.statistics import rounded
from reusebench.reports.boards.boards import compared_boards
from reusebench.reports.boards.table import BOARD_COLUMNS, board_records
from reusebench.reports.claims.claims import CLAIMS_COLUMNS, claims_records
from reusebench.reports.explanation.explanation import EXPLANATION_COLUMNS, explanation_records
from reusebench.reports.material import Material
from reusebench.reports.page.comparison_records import COMPARISON_TABLE, RUNS_TABLE
from reusebench.reports.page.exported_table import (
    IDENTITY_COLUMNS,
    ORIGIN_COLUMNS,
    ExportedTable,
    Record,
    described,
    table_of_groups,
    table_of_rows,
)
from reusebench.reports.results.memory_use import context_components
from reusebench.reports.results.placements import PLACEMENT_COLUMNS, placement_records
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.contexts import (
    CONTEXT_COLUMNS,
    FIT_COLUMNS,
    SLOPE_COLUMNS,
    context_records,
    fit_records,
    slope_records,
)
from reusebench.reports.sections.leaks import LEAK_COLUMNS, leak_records
from reusebench.reports.sections.limit import LIMIT_COLUMNS, limit_records
from reusebench.reports.sections.mechanisms import MECHANISM_COLUMNS, mechanism_records
from reusebench.reports.sections.programs import PROGRAM_COLUMNS, program_records
from reusebench.reports.sections.sessions import SESSION_COLUMNS, session_records
from reusebench.reports.sections.speed import (
    LATENCY_COLUMNS,
    SPEED_COLUMNS,
    latency_records,
    speed_records,
)
from reusebench.reports.side_by_side.stacks import side_by_side
from reusebench.reports.side_by_side.table import SIDE_BY_SIDE_COLUMNS, side_by_side_records
from reusebench.reports.streams.records import STREAM_COLUMNS, stream_records


def _npu_components(row: Row) -> Iterable[Record]:
    """Yield each component of each context's NPU memory; no context: made in no context's step."""
    for context, component, size in context_components(row):
        yield {"context": context, "component": component, "bytes": rounded(size)}


def _streams(material: Material) -> Iterable[Record]:
    """Yield the records of all streams together, then of each, for each configuration."""
    for group in material.groups:
        for row, record in stream_records(group):
            yield described(row, record)


def _sessions(material: Material) -> Iterable[Record]:
    """Yield the record of each configuration of a language model."""
    for group in material.groups:
        for row in group.rows:
            for record in session_records(row, group.rows):
                yield described(row, record)


def _programs(material: Material) -> Iterable[Record]:
    return program_records(material.results.programs())


def _boards(material: Material) -> Iterable[Record]:
    """Yield the records of each configuration that several boards have measured."""
    for row, record in board_records(compared_boards(material.groups)):
        yield described(row, record)


def _side_by_side(material: Material) -> Iterable[Record]:
    """Yield the records of each network that two NPU runtimes have measured on one chip."""
    for pair in side_by_side(material.groups, material.networks):
        yield from side_by_side_records(pair)


TABLES: tuple[ExportedTable, ...] = (
    COMPARISON_TABLE,
    table_of_rows("contexts", CONTEXT_COLUMNS, context_records),
    table_of_rows("slopes", SLOPE_COLUMNS, slope_records),
    table_of_rows("npu_components", ("context", "component", "bytes"), _npu_components),
    table_of_groups("mechanisms", MECHANISM_COLUMNS, mechanism_records),
    table_of_rows("explanations", EXPLANATION_COLUMNS, explanation_records),
    table_of_groups("claims", CLAIMS_COLUMNS, claims_records),
    table_of_rows("speed", SPEED_COLUMNS, speed_records),
    table_of_rows("fits", FIT_COLUMNS, fit_records),
    table_of_rows("limits", LIMIT_COLUMNS, limit_records),
    RUNS_TABLE,
    ExportedTable("programs", PROGRAM_COLUMNS, _programs),
    ExportedTable("streams", (*IDENTITY_COLUMNS, *STREAM_COLUMNS, *ORIGIN_COLUMNS), _streams),
    table_of_rows("leaks", LEAK_COLUMNS, leak_records),
    table_of_rows("latencies", LATENCY_COLUMNS, latency_records),
    ExportedTable("boards", (*IDENTITY_COLUMNS, *BOARD_COLUMNS, *ORIGIN_COLUMNS), _boards),
    ExportedTable("sessions", (*IDENTITY_COLUMNS, *SESSION_COLUMNS, *ORIGIN_COLUMNS), _sessions),
    ExportedTable("side_by_side", SIDE_BY_SIDE_COLUMNS, _side_by_side),
    table_of_groups("placements", PLACEMENT_COLUMNS, placement_records),
)


def find_table(name: str) -> ExportedTable:
    """Return the table of that name."""
    return next(table for table in TABLES if table.name == name)


def write_tables(material: Material, folder: Path, formats: Sequence[str]) -> Path:
    """Write every table into the folder, in some of TABLE_FORMATS, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        table.write(material, folder, formats)
    return folder
