"""The tables of streams: memory beside frames, each stream, where the time goes, the machine; and
the exported one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from reusebench.measured.streams.threads import STAGES
from reusebench.reports.base.formatting import (
    EMPTY,
    mib,
    mib_per_minute,
    milliseconds,
    per_second,
    percent,
    whole,
)
from reusebench.reports.base.statistics import Figure, rounded
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.published import PUBLISHED, PublishedRow
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import APPLICATION
from reusebench.reports.sections.tables import FIGURE_COLUMNS, against
from reusebench.reports.streams.sentences import growth_in_words
from reusebench.reports.streams.workload import (
    HEAP,
    PERCENTILES,
    RSS,
    FrameFigures,
    Workload,
    all_frames,
    growth,
    inference_saving,
    is_cut_off,
    is_interrupted,
    memory_parts,
    stage,
    stream_frames,
    throttling_summary,
    workloads,
)
from reusebench.samplers.readings import MachineState

#: Of the table of a page; the exported one has all.
_MOST_STREAM_LINES = 256
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
#: On a virtual board most of application memory is the emulator's, or it lacks what the NPU writes.
_VIRTUAL_SAVED = ("column_baseline_memory", "column_saved_over_bytes", "column_saved_over")
#: By the column that shows it: what is read when a repeat has come to the end of its steady state.
_READ_AT_THE_END = {
    "column_application": "application_memory_bytes",
    "column_system": "system_memory_bytes",
}
_WITH_FRAMES = ("parts", "inference_saved", "rate", "lost", "latencies")


def memory_table(
    group: Group, workload: Workload, published: Sequence[PublishedRow], texts: Texts
) -> Table:
    """Return the published table of this workload: memory, what of it is saved and what it is for,
    and frames.
    """
    memory: tuple[str, ...]
    if not group.has_npu_memory:
        saved = ("column_saved", "column_saved_percent") if group.computes else _VIRTUAL_SAVED
        memory = ("column_system", "column_application", *saved)
    elif not group.computes:
        memory = (*_NPU, "column_application", *_VIRTUAL_SAVED)
    else:
        saved = ("column_application_saved", "column_application_saved_percent")
        memory = ("column_system", *_NPU, "column_application", *saved)
    with_frames = _WITH_FRAMES if workload.computes else ()
    lines = []
    for row in workload.rows:
        figures = [
            FIGURE_COLUMNS[name](row) if row.measured else _of_finished_repeats(row, name)
            for name in memory
        ]
        if with_frames:
            frames = all_frames(row)
            saving = inference_saving(row, workload.decode_only)
            parts = memory_parts(row, workload.decode_only)
            sizes = (parts.imported, parts.decoding, parts.inference) if parts else ()
            latencies = [frame_latency(frames, name) for name in ("p50", "p99", "max")]
            figures += [
                _in_one(mib(size, spread=False) for size in sizes),
                percent(saving.percent if saving else None),
                frame_rate(frames),
                frames_lost(frames),
                _in_one(latencies),
            ]
        is_early = is_interrupted(row) and row.measured
        outcome = texts("streams_outcome_interrupted" if is_early else f"outcome_{row.outcome}")
        lines.append(
            (row.outcome, [texts.scenario(row.scenario), *figures, against(row, texts), outcome])
        )
    info = workload.rows[0].info
    for one in published:
        if (one.streams, one.contexts) == (info.streams, info.contexts):
            # It has no figures of frames.
            figures = [*(one.cell(name) for name in memory), *[EMPTY] * len(with_frames)]
            compared = texts.scenario(f"streams_{one.baseline}") if one.baseline else EMPTY
            name = f"{texts.scenario(f'streams_{one.scenario}')} ({one.target})"
            lines.append((PUBLISHED, [name, *figures, compared, texts("outcome_published")]))
    frame_heads = [f"streams_column_{name}" for name in with_frames]
    heads = ("column_scenario", *memory, *frame_heads, "column_against", "column_outcome")
    return Table(heads_of(heads, texts), lines, words=(0, -2, -1))


def per_stream_table(workload: Workload, texts: Texts) -> Table | None:
    """Return what became of the frames of the first streams; None if nothing computed."""
    lines: list[tuple[str, list[str]]] = []
    left_out = 0
    for row in workload.rows:
        for number, frames in enumerate(stream_frames(row), start=1):
            if len(lines) == _MOST_STREAM_LINES:
                left_out += 1
                continue
            counts = [
                whole(count.median)
                for count in (frames.due, frames.done, frames.dropped, frames.missed)
            ]
            latencies = [frame_latency(frames, name) for name in PERCENTILES]
            cells = [
                texts.scenario(row.scenario),
                str(number),
                *counts,
                frame_rate(frames),
                frames_lost(frames),
            ]
            lines.append((row.outcome, [*cells, *latencies]))
    if left_out:
        lines.append(
            ("", [texts("streams_more", count=left_out), *[EMPTY] * (len(lines[0][1]) - 1)])
        )
    names = ("stream", "due", "done", "dropped", "missed", "rate", "lost")
    heads = heads_of(("column_scenario", *(f"streams_column_{name}" for name in names)), texts)
    heads += [
        texts("streams_column_latency", name=texts(f"streams_percentile_{name}"))
        for name in PERCENTILES
    ]
    return Table(heads, lines) if lines else None


def stages_table(workload: Workload, texts: Texts) -> Table | None:
    """Return where the time of a frame goes; None if nothing computed."""
    columns = [(name, end) for name in STAGES for end in ("p50", "p99")]
    lines = []
    for row in workload.rows:
        if any(streams.stages_ns for streams in row.frames):
            times = [milliseconds(stage(row, name, end), spread=False) for name, end in columns]
            lines.append((row.outcome, [texts.scenario(row.scenario), *times]))
    heads = [texts("column_scenario")]
    for name, end in columns:
        percentile = texts(f"streams_percentile_{end}")
        heads.append(
            texts("streams_column_stage", stage=texts(f"streams_stage_{name}"), name=percentile)
        )
    return Table(heads, lines) if lines else None


def machine_table(workload: Workload, texts: Texts) -> Table | None:
    """Return what the machine did meanwhile, and memory over time; None if nothing is known."""
    cells: dict[str, Callable[[Row], str]] = {
        "cores": lambda row: _of_cores([one.cpu.cores_percent for one in row.frames if one.cpu]),
        "process": lambda row: _mean([one.cpu.process_percent for one in row.frames if one.cpu], 0),
        "harness": lambda row: _mean([one.cpu.harness_percent for one in row.frames if one.cpu], 1),
        "npu_load": _npu_load,
        "temperature": _temperature,
        "frequency": _frequency,
    }
    shown = {
        name: cell
        for name, cell in cells.items()
        if any(cell(row) != EMPTY for row in workload.rows)
    }
    rows = [row for row in workload.rows if row.frames]
    if not rows or not (
        shown or any(growth(row) or throttling_summary(row) for row in workload.rows)
    ):
        return None
    lines = []
    for row in rows:
        causes = throttling_summary(row)
        rss = growth(row)
        heap = growth(row, HEAP)
        throttled = texts("streams_throttling_unknown") if causes is None else texts("no")
        if causes and causes.names:
            share = percent(causes.share_percent)
            throttled = texts("streams_throttled_by", names=texts.joined(causes.names), share=share)
        rates = [EMPTY] * 3
        if rss:
            interval = texts(
                "streams_range", low=mib_per_minute(rss.low), high=mib_per_minute(rss.high)
            )
            rates = [mib_per_minute(rss.slope), interval, mib_per_minute(rss.resolution)]
        verdicts = [growth_in_words(grown, texts) if grown else EMPTY for grown in (rss, heap)]
        heap_slope = mib_per_minute(heap.slope) if heap else EMPTY
        figures = [cell(row) for cell in shown.values()]
        line = [
            texts.scenario(row.scenario),
            *figures,
            throttled,
            verdicts[0],
            *rates,
            verdicts[1],
            heap_slope,
        ]
        lines.append((row.outcome, line))
    names = (*shown, "throttled", "growth", "slope", "interval", "resolution", "heap", "heap_slope")
    heads = heads_of(("column_scenario", *(f"streams_column_{name}" for name in names)), texts)
    return Table(heads, lines, words=(0, -7, -6, -2))


def frame_rate(frames: FrameFigures | None, spread: bool = True) -> str:
    """Return the frames that were done per second."""
    return per_second(frames.per_s if frames else None, spread)


def frames_lost(frames: FrameFigures | None) -> str:
    """Return the frames that were lost, in percent of those that were due."""
    return percent(frames.lost_percent if frames else None)


def frame_latency(frames: FrameFigures | None, name: str) -> str:
    """Return a percentile of latency in ms with one decimal, which a frame's time does not repeat
    to.
    """
    return milliseconds(frames.latency.get(name) if frames else None, spread=False, decimals=1)


def stream_records(group: Group) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield each row that has streams with the rows of the exported table: all of its streams
    together, then each.
    """
    for workload in workloads(group.rows):
        schedule = workload.schedule
        for row in workload.rows:
            common = {
                "baseline": row.baseline_name,
                "outcome": row.outcome,
                "queue": schedule.queue,
                "duration_s": schedule.duration_s,
                "video": schedule.video.name if schedule.video else None,
                "repeats": len(row.frames),
                "interrupted": "yes" if is_interrupted(row) else "no",
            }
            of_all = {
                "stream": "all",
                "asked_per_s": workload.due_per_s,
                **_values_of_all(row, workload),
            }
            yield row, {**common, **of_all, **_frame_values(all_frames(row))}
            for number, frames in enumerate(stream_frames(row), start=1):
                yield (
                    row,
                    {
                        **common,
                        "stream": number,
                        "asked_per_s": schedule.fps,
                        **_frame_values(frames),
                    },
                )


def _of_finished_repeats(row: Row, column: str) -> str:
    """Return what the repeats read that were finished when the run was cut off; of other failures
    nothing.
    """
    name = _READ_AT_THE_END.get(column)
    return mib(Figure.of(getattr(row.info.memory, name))) if name and is_cut_off(row) else EMPTY


def _in_one(figures: Iterable[str]) -> str:
    """Return figures in one cell, for a column of each would be too much for a sheet of paper."""
    cells = list(figures)
    return " / ".join(cells) if any(cell != EMPTY for cell in cells) else EMPTY


def _of_cores(repeats: Sequence[Sequence[float]]) -> str:
    """Return the mean of each core over the repeats."""
    return " / ".join(_mean(core, 0) for core in zip(*repeats)) or EMPTY


def _mean(values: Sequence[float], decimals: int) -> str:
    return f"{statistics.fmean(values):.{decimals}f}" if values else EMPTY


def _machines(row: Row) -> list[MachineState]:
    return [streams.machine for streams in row.frames if streams.machine]


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
    return f"{whole(first.first_celsius)} \N{RIGHTWARDS ARROW} {whole(hottest.highest_celsius)}"


def _frequency(row: Row) -> str:
    """Return the lowest clock, and the mean of the slowest one, in MHz."""
    clocks = [clock for machine in _machines(row) for clock in machine.frequencies]
    if not clocks:
        return EMPTY
    lowest_hz = min(clock.lowest_hz for clock in clocks)
    mean_hz = min(clock.mean_hz for clock in clocks)
    return f"{whole(lowest_hz / 1e6)} / {whole(mean_hz / 1e6)}"


def _frame_values(frames: FrameFigures | None) -> dict[str, Any]:
    if frames is None:
        return {}
    counts = {name: rounded(getattr(frames, name)) for name in ("due", "done", "dropped", "missed")}
    latency = {f"latency_{name}_ns": rounded(figure) for name, figure in frames.latency.items()}
    rates = {
        "done_per_s": rounded(frames.per_s, 3),
        "lost_percent": rounded(frames.lost_percent, 3),
    }
    return {**counts, **rates, **latency}


def _values_of_all(row: Row, workload: Workload) -> dict[str, Any]:
    """Return what is of all streams together alone."""
    parts = memory_parts(row, workload.decode_only)
    causes = throttling_summary(row)
    saving = inference_saving(row, workload.decode_only)
    values: dict[str, Any] = {
        "system_memory_bytes": rounded(row.memory("system_memory_bytes")),
        "application_memory_bytes": rounded(row.memory(APPLICATION)),
        "import_memory_bytes": rounded(parts.imported if parts else None),
        "decoding_memory_bytes": rounded(parts.decoding if parts else None),
        "inference_memory_bytes": rounded(parts.inference if parts else None),
        "saved_bytes": rounded(row.saved()),
        "saved_percent": rounded(row.saved_percent(), 3),
        "inference_saved_percent": rounded(saving.percent if saving else None, 3),
        "cpu_process_percent": rounded(
            Figure.of(one.cpu.process_percent for one in row.frames if one.cpu), 3
        ),
        "cpu_harness_percent": rounded(
            Figure.of(one.cpu.harness_percent for one in row.frames if one.cpu), 3
        ),
        "throttled_percent": rounded(causes.share_percent, 3) if causes else None,
    }
    for memory in (RSS, HEAP):
        grown = growth(row, memory)
        if grown:
            values |= {
                f"{memory}_verdict": grown.verdict,
                f"{memory}_slope_bytes_per_s": rounded(grown.slope, 3),
                f"{memory}_slope_low_bytes_per_s": rounded(grown.low, 3),
                f"{memory}_slope_high_bytes_per_s": rounded(grown.high, 3),
                f"{memory}_resolution_bytes_per_s": rounded(grown.resolution, 3),
                f"{memory}_growing_confidence_percent": rounded(grown.confidence_percent, 3),
                f"{memory}_level_after_s": rounded(grown.level_after_s, 3),
            }
    return values
