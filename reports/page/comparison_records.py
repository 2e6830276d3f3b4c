"""The exported tables with a row for each configuration: of the newest runs, and of all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reusebench.reports.base.statistics import rounded, rounded_spread
from reusebench.reports.base.stored_scenario import StoredScenario
from reusebench.reports.material import Material
from reusebench.reports.page.exported_table import ExportedTable, Record, identity_of, origin_of
from reusebench.reports.results.agreement import output_difference
from reusebench.reports.results.copies import avoided_bytes, copied
from reusebench.reports.results.published import PUBLISHED, PublishedRow, comparable_rows
from reusebench.reports.results.rows import Row, models_in_turn
from reusebench.reports.results.runtime_comparison import origins_of, references_of
from reusebench.reports.shared.shortage import codes_of
from reusebench.storage.result_summary import PROGRAM, ResultSummary
from reusebench.storage.run_file import file_name, outcome_of
from reusebench.storage.savings import NPU

_COMPARISON_COLUMNS = (
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
    "application_pss_bytes",
    "counted_by",
    "memory_remarks",
    "hugetlb_memory_bytes",
    "held_memory_bytes",
    "dmabuf_memory_bytes",
)
_RUN_COLUMNS = (
    "recorded_at",
    "file",
    "run",
    "board",
    *_COMPARISON_COLUMNS[:9],
    "application_memory_bytes",
    "application_memory_spread_bytes",
    "npu_memory_bytes",
    "latency_ns",
    "throughput_per_s",
    "commit",
    "memory_short",
    "measured_as",
)
#: Columns of runs whose values stand in the summary of a result.
_OF_SUMMARIES = frozenset(_RUN_COLUMNS) & frozenset(ResultSummary._fields)


def _comparison(material: Material) -> Iterable[Record]:
    """Yield a record for each configuration, then the published ones that are comparable."""
    references = references_of(material.groups)
    for group in material.groups:
        for row in group.rows:
            reference = references.get(origins_of(row))
            yield {**_comparison_record(row), **_outputs_record(row, reference)}
    published: dict[PublishedRow, None] = {}
    for group in material.groups:
        published.update(dict.fromkeys(comparable_rows(group)))
    yield from map(_published_record, published)


def _runs(material: Material) -> Iterable[Record]:
    """Yield a record for each stored result, oldest first, even if there is a newer one."""
    results = material.results
    oldest_first = sorted(range(len(results.runs)), key=lambda number: results.runs[number].order)
    ends = {number: results.end_of(number) for number in oldest_first}
    for place, summary in results.summaries(oldest_first):
        if summary.runtime != PROGRAM:
            run = results.runs[place.run]
            yield {
                **{name: getattr(summary, name) for name in _OF_SUMMARIES},
                "run": summary.session,
                "recorded_at": run.recorded_at,
                "file": file_name(run.path),
                "board": run.board,
                "models": _models(summary),
                "outcome": outcome_of(summary.outcome, ends[place.run]),
            }


def _models(summary: ResultSummary) -> str:
    scenario = StoredScenario(summary.scenario, summary.baseline)
    names = summary.model_names
    return models_in_turn(names, summary, scenario.model_set) or ", ".join(names)


def _comparison_record(row: Row) -> dict[str, Any]:
    application = row.memory("application_memory_bytes")
    copies = copied(row)
    return {
        **identity_of(row),
        "baseline": row.baseline_name,
        "outcome": row.outcome,
        "application_memory_bytes": rounded(application),
        "application_memory_spread_bytes": rounded_spread(application),
        "application_memory_trimmed_bytes": rounded(row.memory("application_memory_trimmed_bytes")),
        "application_memory_over_baseline_bytes": rounded(
            row.memory("application_memory_over_baseline_bytes")
        ),
        "system_memory_bytes": rounded(row.memory("system_memory_bytes")),
        "system_memory_noise_bytes": row.system_noise_bytes,
        "npu_memory_bytes": rounded(row.memory(NPU)),
        "saved_bytes": rounded(row.saved()),
        "saved_percent": rounded(row.saved_percent(), 3),
        "saved_over_baseline_percent": rounded(row.saved_over_baseline_percent, 3),
        "latency_ns": rounded(row.latency),
        "throughput_per_s": rounded(row.throughput, 3),
        "npu_saved_bytes": rounded(row.saved(NPU)),
        "npu_saved_percent": rounded(row.saved_percent(NPU), 3),
        "npu_peak_bytes": rounded(row.memory("npu_peak_bytes")),
        "npu_left_bytes": rounded(row.memory("npu_left_bytes")),
        "copied_bytes_per_inference": rounded(copies.total_bytes if copies else None),
        "copies_avoided_bytes": rounded(avoided_bytes(row)),
        "repeats": len(row.info.repeats),
        "measured_as": row.info.measured_as,
        "memory_short": codes_of(row.info.shortage_signs),
        "equal_scenarios": " ".join(row.equal) or None,
        "application_pss_bytes": rounded(row.memory("application_pss_bytes")),
        "counted_by": row.info.counted_by,
        "memory_remarks": codes_of(row.info.memory_remarks),
        "hugetlb_memory_bytes": rounded(row.memory("hugetlb_memory_bytes")),
        "held_memory_bytes": rounded(row.memory("held_memory_bytes")),
        "dmabuf_memory_bytes": rounded(row.memory("dmabuf_memory_bytes")),
        **origin_of(row.file),
    }


def _outputs_record(row: Row, reference: Row | None) -> dict[str, Any]:
    """Return the differences of outputs from the baseline's, and from the reference runtime's."""
    record: dict[str, Any] = {"output_difference": _digits(row.output_difference)}
    if reference and row.measured:
        difference = _digits(output_difference(row.info, reference.info))
        record |= {"reference_runtime": reference.info.runtime, "reference_difference": difference}
    return record


def _digits(difference: float | None) -> float | None:
    """Return a difference with three significant digits, however small it is."""
    return None if difference is None else float(f"{difference:.3g}")


def _published_record(row: PublishedRow) -> dict[str, Any]:
    saving = row.saving
    return {
        "runtime": row.runtime,
        "target": row.target,
        "scenario": row.scenario,
        "baseline": row.baseline,
        "streams": row.streams,
        "contexts": row.contexts,
        "outcome": PUBLISHED,
        "application_memory_bytes": row.application_memory_bytes,
        "system_memory_bytes": row.system_memory_bytes,
        "saved_bytes": rounded(saving.saved if saving else None),
        "saved_percent": rounded(saving.percent if saving else None, 3),
    }


COMPARISON_TABLE = ExportedTable("comparison", _COMPARISON_COLUMNS, _comparison)
RUNS_TABLE = ExportedTable("runs", _RUN_COLUMNS, _runs)
