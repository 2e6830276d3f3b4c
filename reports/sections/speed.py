"""Memory against speed: the saving of each scenario, and its cost in throughput and latency."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reusebench.reports.base.drawing import INK, Draw, line, new_canvas, svg_of
from reusebench.reports.base.formatting import milliseconds, percent
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import looks_of
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.sessions import has_conversations
from reusebench.reports.results.speed_change import (
    AS_FAST,
    DISTURBED,
    FASTER,
    ONE_REPEAT,
    SLOWER,
    SpeedChange,
    speed_change,
)
from reusebench.reports.sections.section import GroupSection, GroupView, Values
from reusebench.storage.savings import LESS, MORE, SAME, Saving

#: Columns of the exported table of latencies; new ones come at the end.
LATENCY_COLUMNS = ("model", "latency_ns", "latency_spread_ns")
#: Columns of the exported table; new ones come at the end.
SPEED_COLUMNS = (
    "saved_percent",
    "saved_percent_spread",
    "throughput_per_s",
    "baseline_throughput_per_s",
    "throughput_change_percent",
    "throughput_change_spread_percent",
    "latency_change_percent",
    "latency_change_spread_percent",
    "verdict",
)
_MEMORY = {LESS: "saves", SAME: "same", MORE: "takes_more"}
#: The text `speed_verdict_NAME` has the words. Exported tables have the names, so they do not
#: change.
SPEED_VERDICTS = (
    *map("_".join, itertools.product(_MEMORY.values(), (SLOWER, AS_FAST, FASTER))),
    ONE_REPEAT,
    DISTURBED,
)
#: The look of all points; a star is larger, since its arms are thin.
_POINT: dict[str, Any] = {"markersize": 9, "markeredgecolor": INK, "markeredgewidth": 0.6}
_STAR_PX = 13
#: Percent of the baseline's throughput. Points outside are drawn at the ends, so that a disturbed
#: measurement leaves space for the others.
_LOWEST = 50.0
_HIGHEST = 150.0
#: Space between a point at an end and the edge.
_MARGIN = 3.0


class SpeedSection(GroupSection):
    """Memory against speed."""

    name = "speed"

    def rows(self, group: Group) -> Sequence[Row]:
        """Return the rows of frames; the section of conversations has their speed in tokens."""
        return [row for row in group.rows if not has_conversations(row)]

    def part_summary(self, view: GroupView) -> str | None:
        """Return which savings cost frames and which are faster."""
        if not view.group.computes:
            return view.texts("summary_speed_virtual")
        return view.texts.sentences(speed_sentences(view.group, view.texts))

    def part(self, view: GroupView) -> Values | None:
        """Return sentences and the table."""
        return {
            "computes": view.group.computes,
            "table": speed_table(view.group, view.texts),
            "latencies": latencies_table(view.group, view.texts),
        }

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of memory against throughput."""
        return {"speed": partial(speed_figure, view.group, view.texts)}


@dataclass(frozen=True)
class SpeedComparison:
    """A scenario in percent of its baseline; a change below zero means less."""

    row: Row
    saving: Saving
    saved_percent: Figure
    speed: SpeedChange
    latency_change_percent: Figure | None

    @property
    def is_repeated(self) -> bool:
        """Whether there are spreads, which distinguish differences from chance."""
        return self.saving.saved.spread is not None and self.speed.change_percent.spread is not None

    @property
    def verdict(self) -> str:
        """One of SPEED_VERDICTS; a difference within its spread does not count."""
        if self.speed.verdict == DISTURBED:
            return DISTURBED
        if not self.is_repeated:
            return ONE_REPEAT
        return f"{_MEMORY[self.saving.change]}_{self.speed.verdict}"

    @property
    def saves(self) -> bool:
        """Whether there is a measurable saving of memory."""
        return self.verdict.startswith(f"{_MEMORY[LESS]}_")

    @property
    def costs_frames(self) -> bool:
        """Whether it is measurably slower."""
        return self.verdict.endswith(f"_{SLOWER}")


def speed_comparison(row: Row) -> SpeedComparison | None:
    """Return memory and speed of a row against its baseline; None if either is not known."""
    saving = row.main_saving
    change = speed_change(row) if row.is_compared else None
    if row.baseline is None or saving is None or saving.percent is None or change is None:
        return None
    latency_change = None
    if row.latency and row.baseline.latency:
        latency_change = row.latency.percent_above(row.baseline.latency)
    return SpeedComparison(row, saving, saving.percent, change, latency_change)


def speed_comparisons(group: Group) -> list[SpeedComparison]:
    """Return the comparison of each scenario that has one, without variants."""
    comparisons = (speed_comparison(row) for row in group.rows if not row.is_variant)
    return [comparison for comparison in comparisons if comparison]


def speed_table(group: Group, texts: Texts) -> Table | None:
    """Return savings of memory, changes of speed and verdicts; None if no speed was compared."""
    lines = []
    for comparison in speed_comparisons(group):
        speed = comparison.speed
        cells = [
            texts.scenario(comparison.row.scenario),
            percent(comparison.saved_percent, spread=True),
            percent(speed.change_percent, spread=True),
            percent(comparison.latency_change_percent, spread=True),
            texts(f"speed_verdict_{comparison.verdict}"),
        ]
        lines.append((comparison.row.outcome, cells))
    if not lines:
        return None
    heads = (
        "column_scenario",
        "column_memory_saved_percent",
        "column_throughput_change",
        "column_latency_change",
        "column_verdict",
    )
    return Table(heads_of(heads, texts), lines, words=(0, -1), exported="speed")


def latencies_table(group: Group, texts: Texts) -> Table | None:
    """Return the latency of each model of the rows with several; None if no row has several."""
    lines = []
    for row in group.rows:
        latencies = row.model_latencies
        if len(latencies) < 2:
            continue
        before = dict(row.baseline.model_latencies) if row.baseline else {}
        for model, latency in latencies:
            cells = [milliseconds(latency), milliseconds(before.get(model))]
            lines.append((row.outcome, [texts.scenario(row.scenario), model, *cells]))
    if not lines:
        return None
    heads = ("column_scenario", "column_model", "column_latency", "column_latency_baseline")
    return Table(heads_of(heads, texts), lines, words=(0, 1), exported="latencies")


def latency_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in LATENCY_COLUMNS for each model."""
    records = []
    for model, latency in row.model_latencies:
        record = {
            "model": model,
            "latency_ns": rounded(latency),
            "latency_spread_ns": rounded_spread(latency),
        }
        records.append(record)
    return records


def speed_sentences(group: Group, texts: Texts) -> list[str]:
    """Return which savings cost frames and which are faster, or why that is not known."""
    comparisons = speed_comparisons(group)
    if not comparisons:
        is_of_streams = all(row.schedule for row in group.rows)
        return [texts("speed_of_streams")] if is_of_streams else []
    sentences = []
    disturbed = [
        comparison.row.scenario for comparison in comparisons if comparison.verdict == DISTURBED
    ]
    if disturbed:
        sentences.append(texts("speed_disturbed", scenarios=texts.scenarios(disturbed)))
    quiet = [comparison for comparison in comparisons if comparison.verdict != DISTURBED]
    if quiet:
        sentences += _savings_in_words(quiet, texts)
    return sentences


def _savings_in_words(comparisons: Sequence[SpeedComparison], texts: Texts) -> list[str]:
    """Return which savings cost frames and which are faster, of undisturbed scenarios."""
    if not any(comparison.is_repeated for comparison in comparisons):
        return [texts("speed_one_repeat")]
    saving = [comparison for comparison in comparisons if comparison.saves]
    if not saving:
        return [texts("speed_nothing_saved")]
    costing = [comparison for comparison in saving if comparison.costs_frames]
    if costing:
        sentences = [texts("speed_costs", scenarios=_with_changes(costing, texts))]
    else:
        spread = max(comparison.speed.change_percent.spread or 0 for comparison in saving)
        sentences = [texts("speed_costs_nothing", count=len(saving), spread=percent(spread))]
    faster_verdict = f"{_MEMORY[LESS]}_{FASTER}"
    faster = [comparison for comparison in saving if comparison.verdict == faster_verdict]
    if faster:
        sentences.append(texts("speed_faster", scenarios=_with_changes(faster, texts)))
    return sentences


def speed_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in SPEED_COLUMNS; none if speed was not compared."""
    comparison = speed_comparison(row)
    if comparison is None:
        return []
    speed = comparison.speed
    record = {
        "saved_percent": rounded(comparison.saved_percent, 3),
        "saved_percent_spread": rounded_spread(comparison.saved_percent, 3),
        "throughput_per_s": rounded(speed.rate, 3),
        "baseline_throughput_per_s": rounded(speed.baseline_rate, 3),
        "throughput_change_percent": rounded(speed.change_percent, 3),
        "throughput_change_spread_percent": rounded_spread(speed.change_percent, 3),
        "latency_change_percent": rounded(comparison.latency_change_percent, 3),
        "latency_change_spread_percent": rounded_spread(comparison.latency_change_percent, 3),
        "verdict": comparison.verdict,
    }
    return [record]


def speed_figure(group: Group, texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the memory that each scenario saves against its throughput.

    A saving that costs frames is above the horizontal line and left of the vertical one. None if
    no speed was compared.
    """
    comparisons = speed_comparisons(group)
    if not comparisons:
        return None
    canvas = new_canvas(380, paper)
    axes = canvas.add_subplot()
    axes.axvline(100, color=INK, linewidth=0.8)
    axes.axhline(0, color=INK, linewidth=0.8)
    legend = []
    looks = looks_of([comparison.row.scenario for comparison in comparisons])
    for comparison, own_look in zip(comparisons, looks):
        look = {**_POINT, **own_look}
        if look["marker"] == "*":
            look["markersize"] = _STAR_PX
        throughput, saved, _, _ = _point(comparison)
        axes.plot(throughput, saved, **look)
        name = texts.scenario(comparison.row.scenario)
        legend.append(line(name, linestyle="none", **look))
    x, y, x_spreads, y_spreads = zip(*map(_point, comparisons))
    # One artist for all spreads, below the points.
    axes.errorbar(
        x,
        y,
        xerr=x_spreads,
        yerr=y_spreads,
        fmt="none",
        ecolor=INK,
        elinewidth=0.8,
        capsize=2,
        zorder=1.9,
    )
    axes.margins(0.08)
    left, right = axes.get_xlim()
    axes.set_xlim(max(left, _LOWEST - _MARGIN), min(right, _HIGHEST + _MARGIN))
    axes.set_xlabel(texts("axis_throughput_percent"))
    axes.set_ylabel(texts("axis_memory_saved_percent"))
    return svg_of(canvas, legend)


def _point(comparison: SpeedComparison) -> tuple[float, float, float, float]:
    """Return throughput and saving, then their spreads; NaN if there is none."""
    throughput = 100 + comparison.speed.change_percent.median
    spread = comparison.speed.change_percent.spread
    shown = min(max(throughput, _LOWEST), _HIGHEST)
    if shown != throughput:
        # The spread does not belong to the end that the point is moved to.
        spread = None
    saved = comparison.saved_percent
    return shown, saved.median, spread or math.nan, saved.spread or math.nan


def _with_changes(comparisons: Sequence[SpeedComparison], texts: Texts) -> str:
    """Return each scenario with the change of its throughput, without a sign."""
    parts = []
    for comparison in comparisons:
        change = percent(abs(comparison.speed.change_percent), spread=True)
        scenario = texts.scenario(comparison.row.scenario)
        parts.append(texts("speed_by", scenario=scenario, change=change))
    return texts.joined(parts)
