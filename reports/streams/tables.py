"""The tables of streams on the page: memory with frames, each stream, stages, the machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from reusebench.measured.streams.threads import STAGES
from reusebench.reports.base.formatting import (
    EMPTY,
    daily,
    mib,
    mib_per_minute,
    milliseconds,
    per_second,
    percent,
    whole,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.published import PUBLISHED, PublishedRow
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.system_memory import hidden_system_memory
from reusebench.reports.shared.comparison import FIGURE_COLUMNS, against, name_in_words, usual_cells
from reusebench.reports.streams.growth import HEAP, growth
from reusebench.reports.streams.sentences import growth_in_words
from reusebench.reports.streams.workload import (
    FrameFigures,
    Workload,
    all_frames,
    inference_saving,
    is_cut_off,
    is_interrupted,
    memory_parts,
    stage,
    stream_frames,
    throttling_summary,
)
from reusebench.samplers.readings import CpuUse, MachineState

#: Percentiles of each stream on the page; the exported table has all.
_PERCENTILES = ("p50", "p99")
#: The rows of the page's table; the exported table has all streams.
_MOST_STREAM_ROWS = 256
_NPU = ("column_npu", "column_npu_saved", "column_npu_saved_percent")
#: Columns for virtual boards: most of application memory is the emulator's, or it lacks the pages
#: that the NPU writes.
_VIRTUAL_SAVED = ("column_baseline_memory", "column_application_saved")
#: Figures that are read when a repeat has reached the end of its steady state. Key: column.
_READ_AT_THE_END = {
    "column_application": "application_memory_bytes",
    "column_system": "system_memory_bytes",
}
_FRAME_COLUMNS = ("parts", "inference_saved", "rate", "lost", "latencies")
_STREAM_COLUMNS = ("stream", "done", "dropped", "missed", "lost")
_MACHINE_COLUMNS = (
    "throttled",
    "growth",
    "slope",
    "interval",
    "most",
    "heap",
    "heap_slope",
)


def memory_table(
    group: Group,
    workload: Workload,
    published: Sequence[PublishedRow],
    texts: Texts,
) -> Table:
    """Return the table of this workload, with published rows: memory, its parts, and frames."""
    columns = _memory_columns(group)
    frame_columns = _FRAME_COLUMNS if workload.computes else ()
    rows = []
    for row in workload.rows:
        figures = [_memory_cell(row, name) for name in columns]
        if frame_columns:
            figures += _frame_cells(row, workload)
        cells = [name_in_words(row, texts), *figures, against(row, texts), _outcome(row, texts)]
        rows.append((row.outcome, cells))

    for published_row in published:
        cells = _published_cells(published_row, columns, len(frame_columns), texts)
        rows.append((PUBLISHED, cells))

    frame_heads = [f"streams_column_{name}" for name in frame_columns]
    heads = ("column_scenario", *columns, *frame_heads, "column_against", "column_outcome")
    return Table(
        heads_of(heads, texts),
        rows,
        words=(0, -2, -1),
        exported="streams",
        usual=usual_cells(workload.rows, texts),
    )


def _memory_columns(group: Group) -> tuple[str, ...]:
    """Return the columns of memory that mean something for the group."""
    system = () if hidden_system_memory(group) else ("column_system",)
    if not group.has_npu_memory:
        saved = ("column_saved", "column_saved_percent") if group.computes else _VIRTUAL_SAVED
        return (*system, "column_application", *saved)
    if not group.computes:
        return (*_NPU, "column_application", *_VIRTUAL_SAVED)
    saved = ("column_application_saved", "column_application_saved_percent")
    return (*system, *_NPU, "column_application", *saved)


def _memory_cell(row: Row, column: str) -> str:
    """Return a figure of memory; if the run was cut off, from its finished repeats."""
    if row.measured:
        return FIGURE_COLUMNS[column](row)
    name = _READ_AT_THE_END.get(column)
    if name is None or not is_cut_off(row):
        return EMPTY
    return mib(Figure.of(getattr(row.info.memory, name)))


def _frame_cells(row: Row, workload: Workload) -> list[str]:
    frames = all_frames(row)
    saving = inference_saving(row, workload.decode_only)
    return [
        _memory_part_cell(row, workload),
        percent(saving.percent if saving else None),
        frame_rate(frames),
        frames_lost(frames),
        _in_one_cell(frame_latency(frames, name) for name in ("p50", "p99", "max")),
    ]


def _memory_part_cell(row: Row, workload: Workload) -> str:
    parts = memory_parts(row, workload.decode_only)
    if parts is None:
        return EMPTY
    sizes = (parts.imported, parts.decoding, parts.inference)
    return _in_one_cell(mib(size, spread=False) for size in sizes)


def _outcome(row: Row, texts: Texts) -> str:
    if row.measured and is_interrupted(row):
        return texts("streams_outcome_interrupted")
    return texts(f"outcome_{row.outcome}")


def _published_cells(
    row: PublishedRow,
    columns: Sequence[str],
    frame_column_count: int,
    texts: Texts,
) -> list[str]:
    """Return the cells of a published row, which has no figures of frames."""
    name = f"{texts.scenario(f'streams_{row.scenario}')} ({row.target})"
    figures = [row.cell(column) for column in columns]
    baseline = texts.scenario(f"streams_{row.baseline}") if row.baseline else EMPTY
    no_figures = [EMPTY] * frame_column_count
    return [name, *figures, *no_figures, baseline, texts("outcome_published")]


def per_stream_table(workload: Workload, texts: Texts) -> Table | None:
    """Return the frames of each stream, of the first streams; None if nothing computed."""
    rows: list[tuple[str, list[str]]] = []
    left_out = 0
    for row in workload.rows:
        for number, frames in enumerate(stream_frames(row), start=1):
            if len(rows) == _MOST_STREAM_ROWS:
                left_out += 1
                continue
            counts = (frames.done, frames.dropped, frames.missed)
            cells = [
                texts.scenario(row.scenario),
                str(number),
                *(whole(count.median) for count in counts),
                frames_lost(frames),
                *(frame_latency(frames, name) for name in _PERCENTILES),
            ]
            rows.append((row.outcome, cells))
    if not rows:
        return None

    heads = _heads(_STREAM_COLUMNS, texts)
    for name in _PERCENTILES:
        percentile = texts(f"streams_percentile_{name}")
        heads.append(texts("streams_column_latency", name=percentile))
    if left_out:
        empty_cells = [EMPTY] * (len(heads) - 1)
        rows.append(("", [texts("streams_more", count=left_out), *empty_cells]))
    return Table(heads, rows, exported="streams")


def stages_table(workload: Workload, texts: Texts) -> Table | None:
    """Return the time that each stage of a frame takes; None if nothing computed."""
    columns = [(name, "p50") for name in STAGES]
    rows = []
    for row in workload.rows:
        if any(streams.stages_ns for streams in row.frames):
            times = [stage(row, name, percentile) for name, percentile in columns]
            cells = [milliseconds(time, spread=False) for time in times]
            rows.append((row.outcome, [texts.scenario(row.scenario), *cells]))
    if not rows:
        return None

    heads = [texts("column_scenario")]
    for name, percentile in columns:
        heads.append(
            texts(
                "streams_column_stage",
                stage=texts(f"streams_stage_{name}"),
                name=texts(f"streams_percentile_{percentile}"),
            )
        )
    return Table(heads, rows, exported="streams")


def machine_table(workload: Workload, texts: Texts) -> Table | None:
    """Return the state of the machine, and memory over time; None if nothing is known."""
    rows = [row for row in workload.rows if row.frames]
    shown = {}
    for name, cell in _MACHINE_CELLS.items():
        if any(cell(row) != EMPTY for row in workload.rows):
            shown[name] = cell
    has_growth = any(growth(row) or throttling_summary(row) for row in workload.rows)
    if not rows or not (shown or has_growth):
        return None

    lines = []
    for row in rows:
        cells = [
            texts.scenario(row.scenario),
            *(cell(row) for cell in shown.values()),
            _throttled(row, texts),
            *_growth_cells(row, texts),
        ]
        lines.append((row.outcome, cells))
    heads = _heads((*shown, *_MACHINE_COLUMNS), texts)
    return Table(heads, lines, words=(0, -7, -6, -2), exported="streams")


def _heads(columns: Sequence[str], texts: Texts) -> list[str]:
    """Return the heads of the scenario and of these columns of streams."""
    return [texts("column_scenario"), *(texts(f"streams_column_{name}") for name in columns)]


def _throttled(row: Row, texts: Texts) -> str:
    causes = throttling_summary(row)
    if causes is None:
        return EMPTY
    if not causes.names:
        return texts("no")
    share = percent(causes.share_percent)
    return texts("streams_throttled_by", names=texts.joined(causes.names), share=share)


def _growth_cells(row: Row, texts: Texts) -> list[str]:
    """Return the growth of RSS with its rates, and the growth of the heap."""
    rss_cells = [EMPTY] * 4
    rss = growth(row)
    if rss:
        low = mib_per_minute(rss.low)
        high = mib_per_minute(rss.high)
        rss_cells = [
            growth_in_words(rss, texts),
            mib_per_minute(rss.slope),
            texts("streams_range", low=low, high=high),
            daily(rss.most_per_day),
        ]
    heap_cells = [EMPTY] * 2
    heap = growth(row, HEAP)
    if heap:
        heap_cells = [growth_in_words(heap, texts), mib_per_minute(heap.slope)]
    return rss_cells + heap_cells


def frame_rate(frames: FrameFigures | None, spread: bool = True) -> str:
    """Return the frames that were done per second."""
    if frames is None:
        return EMPTY
    return per_second(frames.per_s, spread)


def frames_lost(frames: FrameFigures | None) -> str:
    """Return the frames that were lost, in percent of those that were due."""
    if frames is None:
        return EMPTY
    return percent(frames.lost_percent)


def frame_latency(frames: FrameFigures | None, name: str) -> str:
    """Return a percentile of latency in ms."""
    if frames is None:
        return EMPTY
    return milliseconds(frames.latency.get(name), spread=False)


def _in_one_cell(figures: Iterable[str]) -> str:
    """Return figures in one cell: with a column for each, the table would be too wide for paper."""
    cells = list(figures)
    if all(cell == EMPTY for cell in cells):
        return EMPTY
    return " / ".join(cells)


def _mean(values: Sequence[float], decimals: int) -> str:
    if not values:
        return EMPTY
    return f"{statistics.fmean(values):.{decimals}f}"


def _core_means(repeats: Sequence[Sequence[float]]) -> str:
    """Return the mean of each core over the repeats."""
    return " / ".join(_mean(core, 0) for core in zip(*repeats)) or EMPTY


def _cpu_uses(row: Row) -> list[CpuUse]:
    return [streams.cpu for streams in row.frames if streams.cpu]


def _machines(row: Row) -> list[MachineState]:
    return [streams.machine for streams in row.frames if streams.machine]


def _cores(row: Row) -> str:
    return _core_means([cpu.cores_percent for cpu in _cpu_uses(row)])


def _process(row: Row) -> str:
    return _mean([cpu.process_percent for cpu in _cpu_uses(row)], 0)


def _harness(row: Row) -> str:
    return _mean([cpu.harness_percent for cpu in _cpu_uses(row)], 1)


def _npu_load(row: Row) -> str:
    repeats = []
    for machine in _machines(row):
        if machine.npu_load_percent is not None:
            repeats.append([core.mean for core in machine.npu_load_percent])
    return _core_means(repeats)


def _temperature(row: Row) -> str:
    """Return the hottest sensor: at the start of the first repeat, and the highest of all."""
    sensors = [sensor for machine in _machines(row) for sensor in machine.temperatures]
    if not sensors:
        return EMPTY
    hottest = max(sensors, key=lambda sensor: sensor.highest_celsius)
    first = next(sensor for sensor in sensors if sensor.name == hottest.name)
    return f"{whole(first.first_celsius)} \N{RIGHTWARDS ARROW} {whole(hottest.highest_celsius)}"


def _frequency(row: Row) -> str:
    """Return the lowest clock, and the mean of the slowest clock, in MHz."""
    clocks = [clock for machine in _machines(row) for clock in machine.frequencies]
    if not clocks:
        return EMPTY
    lowest_hz = min(clock.lowest_hz for clock in clocks)
    mean_hz = min(clock.mean_hz for clock in clocks)
    return f"{whole(lowest_hz / 1e6)} / {whole(mean_hz / 1e6)}"


#: Columns of the machine table that are left out if no row has a value.
_MACHINE_CELLS: dict[str, Callable[[Row], str]] = {
    "cores": _cores,
    "process": _process,
    "harness": _harness,
    "npu_load": _npu_load,
    "temperature": _temperature,
    "frequency": _frequency,
}
