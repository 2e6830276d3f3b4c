"""The tables of streams: memory beside frames, each stream, where the time goes, the machine; and the exported one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from reports.base.formatting import EMPTY, mib, milliseconds, per_second, percent
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.results.published import PublishedRow
from reports.results.rows import Group, Row
from reports.sections.tables import COLUMNS
from reports.streams.frames import (
    HEAP,
    PERCENTILES,
    RSS,
    FrameFigures,
    Workload,
    all_frames,
    growth,
    inference_saved_percent,
    is_cut_off,
    is_interrupted,
    memory_parts,
    stage,
    stream_frames,
    throttling,
    workloads,
)
from reports.streams.text import growth_words, per_minute
from samplers.readings import CpuUse, Machine
from scenarios.frames import STAGES

#: Of the exported table, behind what identifies a configuration; new columns come at the end.
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
    *(
        f"{memory}_{name}"
        for memory in (RSS, HEAP)
        for name in (
            "verdict",
            "slope_bytes_per_s",
            "slope_low_bytes_per_s",
            "slope_high_bytes_per_s",
            "growing_confidence_percent",
            "level_after_s",
            "resolution_bytes_per_s",
        )
    ),
)
_NPU = ("column_npu", "column_npu_saved", "column_npu_saved_percent")
_SAVED = ("column_saved", "column_saved_percent")
_NPU_APPLICATION_SAVED = ("column_application_saved", "column_application_saved_percent")
#: On a virtual board most of application memory is the emulator's.
_VIRTUAL_SAVED = ("column_baseline_memory", "column_saved_over_bytes", "column_saved_over")
#: By the column that shows it: what is read when a repeat has come to the end of its steady state.
_READ_AT_THE_END = {"column_application": "application_memory_bytes", "column_system": "system_memory_bytes"}
_WITH_FRAMES = ("parts", "inference_saved", "rate", "lost", "latencies")
_SHOWN_PERCENTILES = ("p50", "p99", "max")


def memory_table(group: Group, workload: Workload, published: Sequence[PublishedRow], texts: Texts) -> Table:
    """Return the published table of this workload: memory, what of it is saved and what it is for, and frames."""
    memory = _memory_columns(group)
    heads = [texts(head) for head in ("column_scenario", *memory)]
    if workload.computes:
        heads += [texts(f"streams_column_{name}") for name in _WITH_FRAMES]
    heads += [texts("column_against"), texts("column_outcome")]
    rows = [(row.outcome, _memory_cells(row, workload, memory, texts)) for row in workload.rows]
    like = [row for row in published if _is_like(row, workload)]
    return Table(heads, rows + [_published_cells(row, memory, len(heads), texts) for row in like])


def per_stream_table(workload: Workload, texts: Texts) -> Table | None:
    """Return what became of the frames of each stream; None where nothing computed."""
    rows = [
        (row.outcome, _stream_cells(row, number, frames, texts))
        for row in workload.rows
        for number, frames in enumerate(stream_frames(row), start=1)
    ]
    names = ("stream", "due", "done", "dropped", "missed", "rate", "lost")
    heads = [texts("column_scenario"), *(texts(f"streams_column_{name}") for name in names)]
    heads += [texts("streams_column_latency", name=_percentile(name, texts)) for name in PERCENTILES]
    return Table(heads, rows) if rows else None


def stages_table(workload: Workload, texts: Texts) -> Table | None:
    """Return where the time of a frame goes; None where nothing computed."""
    ends = ("p50", "p99")
    rows = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                *(Cell(milliseconds(stage(row, name, end), spread=False)) for name in STAGES for end in ends),
            ],
        )
        for row in workload.rows
        if any(streams.stages_ns for streams in row.frames)
    ]
    heads = [
        texts("streams_column_stage", stage=texts(f"streams_stage_{name}"), name=_percentile(end, texts))
        for name in STAGES
        for end in ends
    ]
    return Table([texts("column_scenario"), *heads], rows) if rows else None


def machine_table(workload: Workload, texts: Texts) -> Table | None:
    """Return what the machine did meanwhile, and memory over time; None where nothing is known."""
    cells: dict[str, Callable[[Row], str]] = {
        "cores": lambda row: _of_cores([cpu.cores_percent for cpu in _cpu(row)]),
        "process": lambda row: _mean([cpu.process_percent for cpu in _cpu(row)]),
        "harness": lambda row: _mean([cpu.harness_percent for cpu in _cpu(row)], 1),
        "npu_load": _npu_load,
        "temperature": _temperature,
        "frequency": _frequency,
    }
    shown = {name: cell for name, cell in cells.items() if any(cell(row) != EMPTY for row in workload.rows)}
    if not shown and not any(growth(row) or throttling(row) for row in workload.rows):
        return None
    rows = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                *(Cell(cell(row)) for cell in shown.values()),
                Cell(_throttled(row, texts), False),
                *_growth_cells(row, texts),
            ],
        )
        for row in workload.rows
        if row.frames
    ]
    names = (*shown, "throttled", "growth", "slope", "interval", "resolution", "heap", "heap_slope")
    return (
        Table([texts("column_scenario"), *(texts(f"streams_column_{name}") for name in names)], rows) if rows else None
    )


def stream_rows(group: Group) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield each row that has streams with the rows of the exported table: all of its streams together, then each."""
    for workload in workloads(group.rows):
        for row in workload.rows:
            common = _common_values(row, workload)
            yield row, {**common, "stream": "all", **_frame_values(all_frames(row)), **_values_of_all(row, workload)}
            for number, frames in enumerate(stream_frames(row), start=1):
                fps = {"asked_per_s": workload.schedule.fps}
                yield row, {**common, **fps, "stream": number, **_frame_values(frames)}


# The page.


def _memory_columns(group: Group) -> tuple[str, ...]:
    if not group.has_npu_memory:
        return ("column_system", "column_application", *(_SAVED if group.computes else _VIRTUAL_SAVED))
    if not group.computes:
        return (*_NPU, "column_application", *_VIRTUAL_SAVED)
    return ("column_system", *_NPU, "column_application", *_NPU_APPLICATION_SAVED)


def _memory_cells(row: Row, workload: Workload, memory: Sequence[str], texts: Texts) -> list[Cell]:
    shown = [COLUMNS[name](row) if row.measured else _of_finished(row, name) for name in memory]
    if workload.computes:
        *frames, p50, p99, longest = _frame_cells(all_frames(row), _SHOWN_PERCENTILES)
        share = inference_saved_percent(row, workload.decode_only)
        shown += [_part_cell(row, workload), percent(share), *frames, _in_one(p50, p99, longest)]
    against = row.info.baseline if row.measured else None
    return [
        Cell(texts.scenario(row.scenario), False),
        *map(Cell, shown),
        Cell(texts.scenario(against) if against else EMPTY, False),
        Cell(_outcome(row, texts), False),
    ]


def _of_finished(row: Row, column: str) -> str:
    """Return what the repeats read that were finished when the run was cut off; of other failures nothing."""
    name = _READ_AT_THE_END.get(column)
    return mib(Figure.of(getattr(row.info.memory, name))) if name and is_cut_off(row) else EMPTY


def _part_cell(row: Row, workload: Workload) -> str:
    """Return import, decoding and inference."""
    parts = memory_parts(row, workload.decode_only)
    sizes = (parts.imported, parts.decoding, parts.inference) if parts else ()
    return _in_one(*(mib(size, spread=False) for size in sizes))


def _in_one(*figures: str) -> str:
    """Return figures in one cell, for a column of each would be too much for a sheet of paper."""
    return " / ".join(figures) if any(figure != EMPTY for figure in figures) else EMPTY


def _frame_cells(frames: FrameFigures | None, percentiles: Sequence[str]) -> list[str]:
    """Return the rate, the share lost, and percentiles of latency."""
    if frames is None:
        return [EMPTY] * (2 + len(percentiles))
    lost = percent(frames.lost_percent.median if frames.lost_percent else None)
    return [per_second(frames.per_s), lost, *(_latency(frames.latency.get(name)) for name in percentiles)]


def _latency(figure: Figure | None) -> str:
    """Return nanoseconds as ms with one decimal, which a frame's time does not repeat to."""
    return EMPTY if figure is None else f"{figure.median / 1e6:,.1f}"


def _outcome(row: Row, texts: Texts) -> str:
    return (
        texts("streams_outcome_interrupted")
        if is_interrupted(row) and row.measured
        else texts(f"outcome_{row.outcome}")
    )


def _is_like(row: PublishedRow, workload: Workload) -> bool:
    info = workload.rows[0].info
    return (row.streams, row.contexts) == (info.streams, info.contexts)


def _published_cells(row: PublishedRow, memory: Sequence[str], width: int, texts: Texts) -> tuple[str, list[Cell]]:
    """Return a published row: its own units are part of its figures, and it has none of frames."""
    saved = {
        "bytes": f"{row.saved_bytes / 1e6:,.0f} MB" if row.saved_bytes else EMPTY,
        "share": percent(row.saved_percent),
    }
    shown = {
        "column_system": f"{row.system_memory_bytes / 1e9:,.2f} GB",
        "column_application": f"{row.application_memory_bytes / 1e6:,.0f} MB",
        "column_saved": saved["bytes"],
        "column_application_saved": saved["bytes"],
        "column_saved_percent": saved["share"],
        "column_application_saved_percent": saved["share"],
    }
    cells = [Cell(f"{texts.scenario(f'streams_{row.scenario}')} ({row.target})", False)]
    cells += [Cell(shown.get(name, EMPTY)) for name in memory]
    cells += [Cell(EMPTY) for _ in range(width - len(cells) - 2)]
    against = texts.scenario(f"streams_{row.baseline}") if row.baseline else EMPTY
    return "published", [*cells, Cell(against, False), Cell(texts("outcome_published"), False)]


def _stream_cells(row: Row, number: int, frames: FrameFigures, texts: Texts) -> list[Cell]:
    counts = [f"{count.median:,.0f}" for count in (frames.due, frames.done, frames.dropped, frames.missed)]
    return [
        Cell(texts.scenario(row.scenario), False),
        *(Cell(text) for text in (str(number), *counts, *_frame_cells(frames, PERCENTILES))),
    ]


def _percentile(name: str, texts: Texts) -> str:
    return texts(f"streams_percentile_{name}")


def _cpu(row: Row) -> list[CpuUse]:
    return [streams.cpu for streams in row.frames if streams.cpu]


def _machines(row: Row) -> list[Machine]:
    return [streams.machine for streams in row.frames if streams.machine]


def _of_cores(repeats: Sequence[Sequence[float]]) -> str:
    """Return the mean of each core over the repeats."""
    return " / ".join(f"{statistics.fmean(core):.0f}" for core in zip(*repeats)) or EMPTY


def _npu_load(row: Row) -> str:
    repeats = [machine.npu_load_percent for machine in _machines(row)]
    return _of_cores([[core.mean for core in cores] for cores in repeats if cores is not None])


def _temperature(row: Row) -> str:
    """Return the hottest sensor: at the start of the first repeat, and the highest of all."""
    sensors = [sensor for machine in _machines(row) for sensor in machine.temperatures]
    if not sensors:
        return EMPTY
    hottest = max(sensors, key=lambda sensor: sensor.highest_celsius)
    first = next(sensor for sensor in sensors if sensor.name == hottest.name)
    return f"{first.first_celsius:.0f} → {hottest.highest_celsius:.0f}"


def _frequency(row: Row) -> str:
    """Return the lowest clock, and the mean of the slowest one, in MHz."""
    clocks = [clock for machine in _machines(row) for clock in machine.frequencies]
    if not clocks:
        return EMPTY
    lowest_mhz, mean_mhz = min(clock.lowest_hz for clock in clocks) / 1e6, min(clock.mean_hz for clock in clocks) / 1e6
    return f"{lowest_mhz:,.0f} / {mean_mhz:,.0f}"


def _throttled(row: Row, texts: Texts) -> str:
    causes = throttling(row)
    if causes is None:
        return texts("streams_throttling_unknown")
    if not causes.names:
        return texts("no")
    return texts("streams_throttled_by", names=texts.joined(causes.names), share=percent(causes.share_percent))


def _growth_cells(row: Row, texts: Texts) -> list[Cell]:
    rss, heap = growth(row), growth(row, HEAP)
    figures = [EMPTY] * 3
    if rss:
        interval = texts("streams_range", low=per_minute(rss.low), high=per_minute(rss.high))
        figures = [per_minute(rss.slope), interval, per_minute(rss.resolution)]
    words = [growth_words(grown, texts) if grown else EMPTY for grown in (rss, heap)]
    slope = per_minute(heap.slope) if heap else EMPTY
    return [Cell(words[0], False), *map(Cell, figures), Cell(words[1], False), Cell(slope)]


def _mean(values: Sequence[float], decimals: int = 0) -> str:
    return f"{statistics.fmean(values):.{decimals}f}" if values else EMPTY


# The exported table.


def _common_values(row: Row, workload: Workload) -> dict[str, Any]:
    schedule = workload.schedule
    return {
        "baseline": row.info.baseline,
        "outcome": row.outcome,
        "asked_per_s": workload.due_per_s,
        "queue": schedule.queue,
        "duration_s": schedule.duration_s,
        "video": schedule.video.name if schedule.video else None,
        "repeats": len(row.frames),
        "interrupted": "yes" if is_interrupted(row) else "no",
    }


def _frame_values(frames: FrameFigures | None) -> dict[str, Any]:
    if frames is None:
        return {}
    counts = {name: round(getattr(frames, name).median) for name in ("due", "done", "dropped", "missed")}
    latency = {f"latency_{name}_ns": round(figure.median) for name, figure in frames.latency.items()}
    return {**counts, "done_per_s": _rounded(frames.per_s), "lost_percent": _rounded(frames.lost_percent), **latency}


def _values_of_all(row: Row, workload: Workload) -> dict[str, Any]:
    """Return what is of all streams together alone."""
    parts, hot = memory_parts(row, workload.decode_only), throttling(row)
    share = inference_saved_percent(row, workload.decode_only)
    return {
        "system_memory_bytes": _whole(row.memory("system_memory_bytes")),
        "application_memory_bytes": _whole(row.memory("application_memory_bytes")),
        "import_memory_bytes": _whole(parts.imported if parts else None),
        "decoding_memory_bytes": _whole(parts.decoding if parts else None),
        "inference_memory_bytes": _whole(parts.inference if parts else None),
        "saved_bytes": _whole(row.saved),
        "saved_percent": None if row.saved_percent is None else round(row.saved_percent, 3),
        "inference_saved_percent": None if share is None else round(share, 3),
        "cpu_process_percent": _rounded(Figure.of(cpu.process_percent for cpu in _cpu(row))),
        "cpu_harness_percent": _rounded(Figure.of(cpu.harness_percent for cpu in _cpu(row))),
        "throttled_percent": round(hot.share_percent, 3) if hot else None,
        **_growth_values(row, RSS),
        **_growth_values(row, HEAP),
    }


def _growth_values(row: Row, memory: str) -> dict[str, Any]:
    grown = growth(row, memory)
    if grown is None:
        return {}
    rates = {"slope": grown.slope, "slope_low": grown.low, "slope_high": grown.high, "resolution": grown.resolution}
    return {
        f"{memory}_verdict": grown.verdict,
        **{f"{memory}_{name}_bytes_per_s": round(rate, 3) for name, rate in rates.items()},
        f"{memory}_growing_confidence_percent": round(grown.confidence_percent, 3),
        f"{memory}_level_after_s": None if grown.level_after_s is None else round(grown.level_after_s, 3),
    }


def _whole(figure: Figure | None) -> int | None:
    return round(figure.median) if figure else None


def _rounded(figure: Figure | None) -> float | None:
    return round(figure.median, 3) if figure else None
