"""The tables as plain files that a script can read: CSV, Markdown and JSON.

Names of columns carry their units and do not change; docs/tables.md explains each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reusebench.reports.base.statistics import rounded, rounded_spread
from reusebench.reports.base.table import write_records
from reusebench.reports.claims.claims import CLAIMS_COLUMNS, claims_records
from reusebench.reports.explanation.explanation import EXPLANATION_COLUMNS, explanation_records
from reusebench.reports.page.material import Material
from reusebench.reports.results.agreement import output_difference
from reusebench.reports.results.breakdown import context_components
from reusebench.reports.results.published import PUBLISHED, PublishedRow
from reusebench.reports.results.rows import Row
from reusebench.reports.results.runtime_comparison import origins_of, references_of
from reusebench.reports.results.savings import NPU, OVER_BASELINE
from reusebench.reports.sections.contexts import (
    FIT_COLUMNS,
    context_costs,
    fit_records,
    further_costs,
)
from reusebench.reports.sections.copies import avoided_bytes, copied
from reusebench.reports.sections.leaks import LEAK_COLUMNS, leak_records
from reusebench.reports.sections.limit import LIMIT_COLUMNS, limit_records
from reusebench.reports.sections.mechanisms import MECHANISM_COLUMNS, mechanism_records
from reusebench.reports.sections.programs import PROGRAM_COLUMNS, program_records, programs_in
from reusebench.reports.sections.speed import SPEED_COLUMNS, speed_records
from reusebench.reports.streams.records import STREAM_COLUMNS, stream_records
from reusebench.storage.run_file import StoredRun, run_number

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
    "repeats",
    "measured_as",
    "output_difference",
    "reference_runtime",
    "reference_difference",
    "memory_short",
    "equal_scenarios",
)
#: Identity of a configuration in every other table.
_IDENTITY = ("runtime", "runtime_version", "target", "scenario", "streams", "contexts", "models")
#: Where a configuration's result comes from, at the end of its rows.
_ORIGIN = ("board", "recorded_at", "run_number")
_CONTEXT = (
    "context",
    "mechanism",
    "added_bytes",
    "added_spread_bytes",
    "total_over_baseline_bytes",
    "load_ns",
)
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

_Records = Iterable[dict[str, Any]]
_Table = tuple[tuple[str, ...], Callable[[Material], _Records]]


def write_tables(material: Material, folder: Path, formats: Sequence[str]) -> Path:
    """Write every table into the folder, in some of TABLE_FORMATS, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (columns, records) in TABLES.items():
        write_records(name, columns, partial(records, material), folder, formats)
    return folder


def _comparison(material: Material) -> _Records:
    """Return a row per configuration, then the published rows."""
    references = references_of(material.groups)
    measured = [
        {**_comparison_record(row), **_outputs_record(row, references.get(origins_of(row)))}
        for group in material.groups
        for row in group.rows
    ]
    return [*measured, *map(_published_record, material.published)]


def _contexts(row: Row) -> _Records:
    """Return what each context added, and the total with it."""
    return [
        {
            "context": cost.number,
            "mechanism": cost.mechanism,
            "added_bytes": rounded(cost.added),
            "added_spread_bytes": rounded_spread(cost.added),
            "total_over_baseline_bytes": rounded(cost.total),
            "load_ns": rounded(cost.load_ns),
        }
        for cost in context_costs(row)
    ]


def _slopes(row: Row) -> _Records:
    """Return what a further context of each mechanism costs."""
    return [
        {
            "mechanism": cost.mechanism,
            "further_contexts": cost.count,
            "slope_bytes": rounded(cost.slope),
            "slope_spread_bytes": rounded_spread(cost.slope),
            "npu_slope_bytes": rounded(cost.npu_slope),
            "npu_slope_spread_bytes": rounded_spread(cost.npu_slope),
        }
        for cost in further_costs(row)
    ]


def _npu_components(row: Row) -> _Records:
    """Return each component of each context's NPU memory; no context: made in no context's step."""
    return [
        {"context": context, "component": component, "bytes": rounded(size)}
        for context, component, size in context_components(row)
    ]


def _streams(material: Material) -> _Records:
    """Return a row for each stream of each configuration that has streams, and one for all of its
    streams.
    """
    records = (pair for group in material.groups for pair in stream_records(group))
    return ({**_identity(row), **record, **_origin(row.file)} for row, record in records)


def _runs(material: Material) -> _Records:
    """Return every stored result of every run, oldest first, also where a newer one stands in the
    comparison.
    """
    records = []
    for file in sorted(material.files, key=lambda file: file.order):
        for result in file.results:
            row = Row(result, file, None)
            run = {"file": file.file_name, "run": row.info.run, "commit": file.commit.id}
            records.append({**_comparison_record(row), **run})
    return records


def _of_each_row(columns: Iterable[str], records_of: Callable[[Row], _Records]) -> _Table:
    """Return a table with records of each configuration, which have whose they are and where they
    come from.
    """

    def records(material: Material) -> _Records:
        rows = []
        for group in material.groups:
            for row in group.rows:
                identity = _identity(row)
                origin = _origin(row.file)
                rows += [{**identity, **record, **origin} for record in records_of(row)]
        return rows

    return (*_IDENTITY, *columns, *_ORIGIN), records


def _comparison_record(row: Row) -> dict[str, Any]:
    application = row.memory("application_memory_bytes")
    counted = copied(row)
    return {
        **_identity(row),
        "baseline": row.baseline_name,
        "outcome": row.outcome,
        "application_memory_bytes": rounded(application),
        "application_memory_spread_bytes": rounded_spread(application),
        "application_memory_trimmed_bytes": rounded(row.memory("application_memory_trimmed_bytes")),
        "application_memory_over_baseline_bytes": rounded(row.memory(OVER_BASELINE)),
        "system_memory_bytes": rounded(row.memory("system_memory_bytes")),
        "system_memory_noise_bytes": row.system_noise_bytes,
        "npu_memory_bytes": rounded(row.memory(NPU)),
        "saved_bytes": rounded(row.saved()),
        "saved_percent": rounded(row.saved_percent(), 3),
        "saved_over_baseline_percent": rounded(row.saved_percent(OVER_BASELINE), 3),
        "latency_ns": rounded(row.latency),
        "throughput_per_s": rounded(row.throughput, 3),
        "npu_saved_bytes": rounded(row.saved(NPU)),
        "npu_saved_percent": rounded(row.saved_percent(NPU), 3),
        "npu_peak_bytes": rounded(row.memory("npu_peak_bytes")),
        "npu_left_bytes": rounded(row.memory("npu_left_bytes")),
        "copied_bytes_per_inference": rounded(counted.total_bytes if counted else None),
        "copies_avoided_bytes": rounded(avoided_bytes(row)),
        "repeats": len(row.info.repeats),
        "measured_as": row.info.measured_as,
        "memory_short": " ".join(sign.code for sign in row.info.shortage_signs) or None,
        "equal_scenarios": " ".join(row.equal) or None,
        **_origin(row.file),
    }


def _outputs_record(row: Row, reference: Row | None) -> dict[str, Any]:
    """Return how far outputs are those of the baseline, and of the first runtime with the same
    models.
    """
    record: dict[str, Any] = {"output_difference": _digits(row.output_difference)}
    if reference and row.measured:
        difference = _digits(output_difference(row.info, reference.info))
        record |= {"reference_runtime": reference.info.runtime, "reference_difference": difference}
    return record


def _digits(difference: float | None) -> float | None:
    """Return a difference with the digits that say something, however small it is."""
    return None if difference is None else float(f"{difference:.3g}")


def _published_record(row: PublishedRow) -> dict[str, Any]:
    same = ("runtime", "target", "scenario", "baseline", "streams", "contexts")
    return {
        **{name: getattr(row, name) for name in same},
        "outcome": PUBLISHED,
        "application_memory_bytes": row.application_memory_bytes,
        "system_memory_bytes": row.system_memory_bytes,
        "saved_bytes": rounded(row.saving.saved if row.saving else None),
        "saved_percent": rounded(row.saving.percent if row.saving else None, 3),
    }


def _identity(row: Row) -> dict[str, Any]:
    values = {name: getattr(row.info, name) for name in _IDENTITY if name != "models"}
    return {**values, "models": row.models}


def _origin(file: StoredRun) -> dict[str, Any]:
    return {
        "board": file.board,
        "recorded_at": file.recorded_at,
        "run_number": run_number(file.path),
    }


#: By the name of the files: the columns, and the records that a report's material gives. New
#: columns come at the end.
TABLES: dict[str, _Table] = {
    "comparison": (_COMPARISON, _comparison),
    "contexts": _of_each_row(_CONTEXT, _contexts),
    "slopes": _of_each_row((*_SLOPE, *_NPU_SLOPE), _slopes),
    "npu_components": _of_each_row(("context", "component", "bytes"), _npu_components),
    "mechanisms": (
        (*MECHANISM_COLUMNS, "board"),
        lambda material: [
            {**one, "board": group.board}
            for group in material.groups
            for one in mechanism_records(group)
        ],
    ),
    "explanations": _of_each_row(EXPLANATION_COLUMNS, explanation_records),
    "claims": (
        (*CLAIMS_COLUMNS, "board"),
        lambda material: [
            {**one, "board": group.board}
            for group in material.groups
            for one in claims_records(group)
        ],
    ),
    "speed": _of_each_row(SPEED_COLUMNS, speed_records),
    "fits": _of_each_row(FIT_COLUMNS, fit_records),
    "limits": _of_each_row(LIMIT_COLUMNS, limit_records),
    "runs": (
        (*_RUN, *_COMPARISON[:9], *_RUN_FIGURES, "commit", "memory_short", "measured_as"),
        _runs,
    ),
    "programs": (PROGRAM_COLUMNS, lambda material: program_records(programs_in(material.files))),
    "streams": ((*_IDENTITY, *STREAM_COLUMNS, *_ORIGIN), _streams),
    "leaks": _of_each_row(LEAK_COLUMNS, leak_records),
}
