"""The exported table of streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reusebench.reports.base.statistics import Figure, rounded
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.streams.growth import HEAP, RSS, growth
from reusebench.reports.streams.workload import (
    PERCENTILES,
    FrameFigures,
    Workload,
    all_frames,
    inference_saving,
    is_interrupted,
    memory_parts,
    stream_frames,
    throttling_summary,
    workloads,
)
from reusebench.storage.savings import APPLICATION

_GROWTH_COLUMNS = (
    "verdict",
    "slope_bytes_per_s",
    "slope_low_bytes_per_s",
    "slope_high_bytes_per_s",
    "growing_confidence_percent",
    "level_after_s",
    "resolution_bytes_per_s",
)
_DAY_COLUMNS = ("growth_bytes_per_day", "most_growth_bytes_per_day")
#: Columns after the identity of a configuration; new columns come at the end.
STREAM_COLUMNS = (
    "baseline",
    "outcome",
    "asked_per_s",
    "queue",
    "duration_s",
    "video",
    "stream",
    "repeats",
    "interrupted",
    "due",
    "done",
    "dropped",
    "missed",
    "done_per_s",
    "lost_percent",
    *(f"latency_{name}_ns" for name in PERCENTILES),
    "system_memory_bytes",
    "application_memory_bytes",
    "import_memory_bytes",
    "decoding_memory_bytes",
    "inference_memory_bytes",
    "saved_bytes",
    "saved_percent",
    "inference_saved_percent",
    "cpu_process_percent",
    "cpu_harness_percent",
    "throttled_percent",
    *(f"{RSS}_{name}" for name in _GROWTH_COLUMNS),
    *(f"{HEAP}_{name}" for name in _GROWTH_COLUMNS),
    *(f"{RSS}_{name}" for name in _DAY_COLUMNS),
    *(f"{HEAP}_{name}" for name in _DAY_COLUMNS),
)


def stream_records(group: Group) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield (row, record) for all streams of a row together, then for each stream."""
    for workload in workloads(group.rows):
        for row in workload.rows:
            common = _common_values(row, workload)
            yield row, {**common, "stream": "all", **_values_of_all(row, workload)}
            for number, frames in enumerate(stream_frames(row), start=1):
                record = {
                    **common,
                    "stream": number,
                    "asked_per_s": workload.schedule.fps,
                    **_frame_values(frames),
                }
                yield row, record


def _common_values(row: Row, workload: Workload) -> dict[str, Any]:
    schedule = workload.schedule
    return {
        "baseline": row.baseline_name,
        "outcome": row.outcome,
        "queue": schedule.queue,
        "duration_s": schedule.duration_s,
        "video": schedule.video.name if schedule.video else None,
        "repeats": len(row.frames),
        "interrupted": "yes" if is_interrupted(row) else "no",
    }


def _frame_values(frames: FrameFigures | None) -> dict[str, Any]:
    if frames is None:
        return {}
    values: dict[str, Any] = {
        "due": rounded(frames.due),
        "done": rounded(frames.done),
        "dropped": rounded(frames.dropped),
        "missed": rounded(frames.missed),
        "done_per_s": rounded(frames.per_s, 3),
        "lost_percent": rounded(frames.lost_percent, 3),
    }
    for name, figure in frames.latency.items():
        values[f"latency_{name}_ns"] = rounded(figure)
    return values


def _values_of_all(row: Row, workload: Workload) -> dict[str, Any]:
    """Return the values that only all streams together have."""
    saving = inference_saving(row, workload.decode_only)
    cpus = [streams.cpu for streams in row.frames if streams.cpu]
    causes = throttling_summary(row)
    return {
        "asked_per_s": workload.due_per_s,
        **_frame_values(all_frames(row)),
        "system_memory_bytes": rounded(row.memory("system_memory_bytes")),
        "application_memory_bytes": rounded(row.memory(APPLICATION)),
        **_memory_part_values(row, workload),
        "saved_bytes": rounded(row.saved()),
        "saved_percent": rounded(row.saved_percent(), 3),
        "inference_saved_percent": rounded(saving.percent if saving else None, 3),
        "cpu_process_percent": rounded(Figure.of(cpu.process_percent for cpu in cpus), 3),
        "cpu_harness_percent": rounded(Figure.of(cpu.harness_percent for cpu in cpus), 3),
        "throttled_percent": rounded(causes.share_percent, 3) if causes else None,
        **_growth_values(row, RSS),
        **_growth_values(row, HEAP),
    }


def _memory_part_values(row: Row, workload: Workload) -> dict[str, Any]:
    parts = memory_parts(row, workload.decode_only)
    if parts is None:
        return {}
    return {
        "import_memory_bytes": rounded(parts.imported),
        "decoding_memory_bytes": rounded(parts.decoding),
        "inference_memory_bytes": rounded(parts.inference),
    }


def _growth_values(row: Row, memory: str) -> dict[str, Any]:
    grown = growth(row, memory)
    if grown is None:
        return {}
    return {
        f"{memory}_verdict": grown.verdict,
        f"{memory}_slope_bytes_per_s": rounded(grown.slope, 3),
        f"{memory}_slope_low_bytes_per_s": rounded(grown.low, 3),
        f"{memory}_slope_high_bytes_per_s": rounded(grown.high, 3),
        f"{memory}_growing_confidence_percent": rounded(grown.confidence_percent, 3),
        f"{memory}_level_after_s": rounded(grown.level_after_s, 3),
        f"{memory}_resolution_bytes_per_s": rounded(grown.resolution, 3),
        f"{memory}_growth_bytes_per_day": rounded(grown.per_day),
        f"{memory}_most_growth_bytes_per_day": rounded(grown.most_per_day),
    }
