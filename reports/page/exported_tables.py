"""The tables as plain files that a script can read: CSV, Markdown and JSON.

Names of columns carry their units and do not change; docs/tables.md explains each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reports.base.statistics import Figure
from reports.claims.claims import CLAIMS_COLUMNS, claims_rows
from reports.explanation.explanation import EXPLANATION_COLUMNS, explanation_rows
from reports.page.material import Material
from reports.results.memory import context_components
from reports.results.published import PublishedRow
from reports.results.rows import Row
from reports.sections.contexts import FIT_COLUMNS, context_costs, fit_rows, further_costs
from reports.sections.copies import avoided_bytes, copied
from reports.sections.mechanisms import MECHANISM_COLUMNS, mechanism_rows
from reports.sections.programs import PROGRAM_COLUMNS, program_rows, programs_in
from reports.sections.speed import SPEED_COLUMNS, speed_rows
from reports.streams.tables import STREAM_COLUMNS, stream_rows
from storage.run_file import StoredRun

if TYPE_CHECKING:
    import pandas as pd

#: Of the form of the JSON files; of the columns each table's own list is the promise.
_JSON_VERSION = 1
#: New columns come at the end: scripts may read the others by their place.
_COMPARISON = (
    "runtime",
    "runtime_version",
    "target",
    "scenario",
    "baseline",
    "streams",
    "contexts",
    "models",
    "outcome",
    "application_memory_bytes",
    "application_memory_spread_bytes",
    "application_memory_trimmed_bytes",
    "application_memory_over_baseline_bytes",
    "system_memory_bytes",
    "system_memory_noise_bytes",
    "npu_memory_bytes",
    "saved_bytes",
    "saved_percent",
    "saved_over_baseline_percent",
    "latency_ns",
    "throughput_per_s",
    "npu_saved_bytes",
    "npu_saved_percent",
    "npu_peak_bytes",
    "npu_left_bytes",
    "copied_bytes_per_inference",
    "copies_avoided_bytes",
    "board",
    "recorded_at",
    "run_number",
)
#: Identity of a configuration in every other table.
_IDENTITY = ("runtime", "runtime_version", "target", "scenario", "streams", "contexts", "models")
#: Where a configuration's result comes from, at the end of its rows.
_ORIGIN = ("board", "recorded_at", "run_number")
_CONTEXT = ("context", "mechanism", "added_bytes", "added_spread_bytes", "total_over_baseline_bytes", "load_ns")
_SLOPE = ("mechanism", "further_contexts", "slope_bytes", "slope_spread_bytes")
_NPU_SLOPE = ("npu_slope_bytes", "npu_slope_spread_bytes")
_RUN = ("recorded_at", "file", "run", "board")
_RUN_FIGURES = (
    "application_memory_bytes",
    "application_memory_spread_bytes",
    "npu_memory_bytes",
    "latency_ns",
    "throughput_per_s",
)
#: What stands in `outcome` of a row that was not measured here.
_PUBLISHED = "published"

_Rows = list[dict[str, Any]]
_Table = tuple[tuple[str, ...], Callable[[Material], _Rows]]


def table_of(name: str, material: Material) -> pd.DataFrame:
    """Return a table of TABLES."""
    columns, rows = TABLES[name]
    return frame_of(columns, rows(material))


def frame_of(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a table; as objects, so that whole numbers stay whole where others are missing."""
    # Not above: each process that draws figures is forked from this one and would carry it, 0.4 s and 40 MiB.
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    known: pd.DataFrame = frame.where(frame.notna(), None)
    return known


def write_tables(material: Material, folder: Path, formats: Sequence[str]) -> Path:
    """Write every table into the folder, in some of TABLE_FORMATS, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        write_table(name, table_of(name, material), folder, formats)
    return folder


def write_table(name: str, table: pd.DataFrame, folder: Path, formats: Sequence[str]) -> None:
    """Write one table into the folder, in some of TABLE_FORMATS."""
    for each in formats:
        (folder / f"{name}.{each}").write_text(_WRITERS[each](name, table), encoding="utf-8")


def _comparison(material: Material) -> _Rows:
    """Return a row per configuration, then the published rows."""
    measured = [_comparison_row(row) for group in material.groups for row in group.rows]
    return [*measured, *map(_published_row, material.published)]


def _contexts(row: Row) -> _Rows:
    """Return what each context added, and the total with it."""
    return [
        {"context": cost.number, "mechanism": cost.mechanism}
        | {"added_bytes": _median(cost.added), "added_spread_bytes": _spread(cost.added)}
        | {"total_over_baseline_bytes": _median(cost.total), "load_ns": _median(cost.load_ns)}
        for cost in context_costs(row)
    ]


def _slopes(row: Row) -> _Rows:
    """Return what a further context of each mechanism costs."""
    return [
        {"mechanism": cost.mechanism, "further_contexts": cost.count}
        | {"slope_bytes": _median(cost.slope), "slope_spread_bytes": _spread(cost.slope)}
        | {"npu_slope_bytes": _median(cost.npu_slope), "npu_slope_spread_bytes": _spread(cost.npu_slope)}
        for cost in further_costs(row)
    ]


def _npu_components(row: Row) -> _Rows:
    """Return each component of each context's NPU memory; no context: made in no context's step."""
    return [
        {"context": context, "component": component, "bytes": _median(size)}
        for context, component, size in context_components(row)
    ]


def _streams(material: Material) -> _Rows:
    """Return a row for each stream of each configuration that has streams, and one for all of its streams."""
    return [each for group in material.groups for row, found in stream_rows(group) for each in _told(row, [found])]


def _mechanisms(material: Material) -> _Rows:
    """Return a row for each mechanism of each group: what it came to."""
    return [{**row, "board": group.board} for group in material.groups for row in mechanism_rows(group)]


def _claims(material: Material) -> _Rows:
    return [{**row, "board": group.board} for group in material.groups for row in claims_rows(group)]


def _runs(material: Material) -> _Rows:
    """Return every stored result of every run, oldest first, also where a newer one stands in the comparison."""
    oldest_first = sorted(material.files, key=lambda file: file.recorded_at)
    return [_run_row(Row(result, file, None)) for file in oldest_first for result in file.results]


def _run_row(row: Row) -> dict[str, Any]:
    known = {**_comparison_row(row), **_origin(row.file)}
    return {**known, "file": row.file.path.name, "run": row.info.run, "commit": row.file.commit.id}


def _of_each(columns: Iterable[str], rows_of: Callable[[Row], _Rows]) -> _Table:
    """Return a table with rows of each configuration, which tell whose they are and where they come from."""

    def rows(material: Material) -> _Rows:
        return [each for group in material.groups for row in group.rows for each in _told(row, rows_of(row))]

    return (*_IDENTITY, *columns, *_ORIGIN), rows


def _told(row: Row, rows: _Rows) -> _Rows:
    """Return the rows with what identifies the configuration, and where its result comes from."""
    identity, origin = _identity(row), _origin(row.file)
    return [{**identity, **each, **origin} for each in rows]


def _comparison_row(row: Row) -> dict[str, Any]:
    application, counted = row.memory("application_memory_bytes"), copied(row)
    return {
        **_identity(row),
        "baseline": row.info.baseline,
        "outcome": row.outcome,
        "application_memory_bytes": _median(application),
        "application_memory_spread_bytes": _spread(application),
        "application_memory_trimmed_bytes": _median(row.memory("application_memory_trimmed_bytes")),
        "application_memory_over_baseline_bytes": _median(row.memory("application_memory_over_baseline_bytes")),
        "system_memory_bytes": _median(row.memory("system_memory_bytes")),
        "system_memory_noise_bytes": _median(row.memory("system_memory_noise_bytes")),
        "npu_memory_bytes": _median(row.memory("npu_memory_bytes")),
        "saved_bytes": _median(row.saved),
        "saved_percent": _rounded(row.saved_percent),
        "saved_over_baseline_percent": _rounded(row.saved_over_baseline_percent),
        "latency_ns": _median(row.latency),
        "throughput_per_s": _rounded(row.throughput.median if row.throughput else None),
        "npu_saved_bytes": _median(row.npu_saved),
        "npu_saved_percent": _rounded(row.npu_saved_percent),
        "npu_peak_bytes": _median(row.memory("npu_peak_bytes")),
        "npu_left_bytes": _median(row.memory("npu_left_bytes")),
        "copied_bytes_per_inference": _whole(counted.total_bytes if counted else None),
        "copies_avoided_bytes": _whole(avoided_bytes(row)),
        **_origin(row.file),
    }


def _published_row(row: PublishedRow) -> dict[str, Any]:
    known = {key: value for key, value in msgspec.structs.asdict(row).items() if key in _COMPARISON}
    return {**known, "outcome": _PUBLISHED, "saved_percent": _rounded(row.saved_percent)}


def _identity(row: Row) -> dict[str, Any]:
    values = {name: getattr(row.info, name) for name in _IDENTITY if name != "models"}
    return {**values, "models": row.models}


def _origin(file: StoredRun) -> dict[str, Any]:
    number = file.path.name.partition("_")[0]
    return {
        "board": file.board,
        "recorded_at": file.recorded_at,
        "run_number": int(number) if number.isdigit() else None,
    }


def _median(figure: Figure | None) -> int | None:
    return round(figure.median) if figure else None


def _spread(figure: Figure | None) -> int | None:
    return round(figure.spread) if figure and figure.spread is not None else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _csv(_: str, table: pd.DataFrame) -> str:
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text


def _markdown(_: str, table: pd.DataFrame) -> str:
    rows = [[_in_a_line(cell) for cell in row] for row in table.to_numpy()]
    lines = [list(table.columns), ["---"] * len(table.columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _in_a_line(cell: object) -> str:
    return "" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ")


def _json(name: str, table: pd.DataFrame) -> str:
    columns, rows = list(table.columns), table.to_dict(orient="records")
    document = {"version": _JSON_VERSION, "table": name, "columns": columns, "rows": rows}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


_WRITERS: dict[str, Callable[[str, pd.DataFrame], str]] = {"csv": _csv, "md": _markdown, "json": _json}
TABLE_FORMATS = tuple(_WRITERS)

#: By the name of the files: the columns, and the rows that a report's material gives. New columns come at the end.
TABLES: dict[str, _Table] = {
    "comparison": (_COMPARISON, _comparison),
    "contexts": _of_each(_CONTEXT, _contexts),
    "slopes": _of_each((*_SLOPE, *_NPU_SLOPE), _slopes),
    "npu_components": _of_each(("context", "component", "bytes"), _npu_components),
    "mechanisms": ((*MECHANISM_COLUMNS, "board"), _mechanisms),
    "explanations": _of_each(EXPLANATION_COLUMNS, explanation_rows),
    "claims": ((*CLAIMS_COLUMNS, "board"), _claims),
    "speed": _of_each(SPEED_COLUMNS, speed_rows),
    "fits": _of_each(FIT_COLUMNS, fit_rows),
    "runs": ((*_RUN, *_COMPARISON[:9], *_RUN_FIGURES, "commit"), _runs),
    "programs": (PROGRAM_COLUMNS, lambda material: program_rows(programs_in(material.files))),
    "streams": ((*_IDENTITY, *STREAM_COLUMNS, *_ORIGIN), _streams),
}
