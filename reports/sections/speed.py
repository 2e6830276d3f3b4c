"""Memory against speed: what each scenario saves beside what it costs in throughput and latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reusebench.reports.base.drawing import INK, Draw, line, new_canvas, svg_of
from reusebench.reports.base.formatting import mib, per_second, percent
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.published import published_throughput
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import LESS, MORE, SAME, Saving
from reusebench.reports.results.speed_change import (
    AS_FAST,
    DISTURBED,
    FASTER,
    ONE_REPEAT,
    SLOWER,
    SpeedChange,
    speed_change,
)
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values
from reusebench.scenarios.catalogue import OTHER_QUESTION, QUESTIONS

#: Of the exported table, behind what identifies a configuration; new columns come at the end.
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
#: Each has its words in a text `speed_verdict_NAME`; exported tables name them, so they do not
#: change.
SPEED_VERDICTS = (
    *(f"{memory}_{speed}" for memory in _MEMORY.values() for speed in (SLOWER, AS_FAST, FASTER)),
    ONE_REPEAT,
    DISTURBED,
)
#: Of each question; a scenario has a colour within its question.
_MARKERS = dict(zip((*QUESTIONS, OTHER_QUESTION), "Xos^Dv*hPdp<"))
#: Percent of the baseline's throughput. What lies farther out is drawn here: one disturbed
#: measurement would else leave no space for the others. Beside a point at an end there is this
#: margin.
_LOWEST = 50.0
_HIGHEST = 150.0
_MARGIN = 3.0


class SpeedSection(GroupSection):
    """Memory against speed."""

    name = "speed"

    def values(self, page: Page) -> Values:
        """Return the parts, and the published throughput."""
        return {**super().values(page), "published": published_throughput(page.texts)}

    def part(self, view: GroupView) -> Values | None:
        """Return sentences and the table."""
        return {
            "computes": view.group.computes,
            "table": speed_table(view.group, view.texts),
            "sentences": speed_sentences(view.group, view.texts),
        }

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of memory against throughput."""
        return {"speed": partial(speed_figure, view.group, view.texts)}


@dataclass(frozen=True)
class SpeedComparison:
    """One scenario against its baseline, in percent of it; changes are below zero where this is
    less.
    """

    row: Row
    saving: Saving
    saved_percent: Figure
    speed: SpeedChange
    latency_change_percent: Figure | None

    @property
    def is_repeated(self) -> bool:
        """Whether there are spreads, by which a difference can be distinguished from chance."""
        return self.saving.saved.spread is not None and self.speed.change_percent.spread is not None

    @property
    def verdict(self) -> str:
        """One of SPEED_VERDICTS; a difference that is not larger than its spread is none."""
        speed = self.speed.verdict
        if speed == DISTURBED:
            return DISTURBED
        return f"{_MEMORY[self.saving.change]}_{speed}" if self.is_repeated else ONE_REPEAT

    @property
    def saves(self) -> bool:
        """Whether there is a measurable saving of memory."""
        return self.verdict.startswith(f"{_MEMORY[LESS]}_")

    @property
    def costs_frames(self) -> bool:
        """Whether it is measurably slower."""
        return self.verdict.endswith(f"_{SLOWER}")


def speed_comparison(row: Row) -> SpeedComparison | None:
    """Return memory and speed of a row against its baseline; None if one of them is not known of
    both.
    """
    saving = row.main_saving
    change = speed_change(row) if row.is_compared else None
    if row.baseline is None or saving is None or saving.percent is None or change is None:
        return None
    latency = (
        row.latency.percent_above(row.baseline.latency)
        if row.latency and row.baseline.latency
        else None
    )
    return SpeedComparison(row, saving, saving.percent, change, latency)


def speed_comparisons(group: Group) -> list[SpeedComparison]:
    """Return each scenario that has a baseline, memory and speed; of variants none."""
    comparisons = (speed_comparison(row) for row in group.rows if not row.is_variant)
    return [comparison for comparison in comparisons if comparison]


def speed_table(group: Group, texts: Texts) -> Table | None:
    """Return memory saved beside speed, with a verdict; None if no speed was compared."""
    lines = []
    for one in speed_comparisons(group):
        cells = [
            texts.scenario(one.row.scenario),
            mib(one.saving.saved, one.saving.is_npu),
            percent(one.saved_percent, spread=True),
            per_second(one.speed.baseline_rate),
            per_second(one.speed.rate),
            percent(one.speed.change_percent, spread=True),
            percent(one.latency_change_percent, spread=True),
            texts(f"speed_verdict_{one.verdict}"),
        ]
        lines.append((one.row.outcome, cells))
    heads = (
        "column_scenario",
        "column_memory_saved",
        "column_memory_saved_percent",
        "column_throughput_baseline",
        "column_throughput",
        "column_throughput_change",
        "column_latency_change",
        "column_verdict",
    )
    return Table(heads_of(heads, texts), lines, words=(0, -1)) if lines else None


def speed_sentences(group: Group, texts: Texts) -> list[str]:
    """Return which savings cost frames and which are faster, or why that is unknown."""
    comparisons = speed_comparisons(group)
    if not comparisons:
        return [texts("speed_of_streams")] if all(row.schedule for row in group.rows) else []
    disturbed = [one.row.scenario for one in comparisons if one.verdict == DISTURBED]
    sentences = (
        [texts("speed_disturbed", scenarios=texts.scenarios(disturbed))] if disturbed else []
    )
    quiet = [one for one in comparisons if one.verdict != DISTURBED]
    if not quiet:
        return sentences
    if not any(one.is_repeated for one in quiet):
        return [*sentences, texts("speed_one_repeat")]
    saving = [one for one in quiet if one.saves]
    if not saving:
        return [*sentences, texts("speed_nothing_saved")]
    costing = [one for one in saving if one.costs_frames]
    faster = [one for one in saving if one.verdict == f"{_MEMORY[LESS]}_{FASTER}"]
    if costing:
        sentences.append(texts("speed_costs", scenarios=_with_changes(costing, texts)))
    else:
        spread = max(one.speed.change_percent.spread or 0 for one in saving)
        sentences.append(texts("speed_costs_nothing", count=len(saving), spread=percent(spread)))
    if faster:
        sentences.append(texts("speed_faster", scenarios=_with_changes(faster, texts)))
    return sentences


def speed_records(row: Row) -> list[dict[str, Any]]:
    """Return a row of the exported table in SPEED_COLUMNS; none where speed was not compared."""
    one = speed_comparison(row)
    if one is None:
        return []
    return [
        {
            "saved_percent": rounded(one.saved_percent, 3),
            "saved_percent_spread": rounded_spread(one.saved_percent, 3),
            "throughput_per_s": rounded(one.speed.rate, 3),
            "baseline_throughput_per_s": rounded(one.speed.baseline_rate, 3),
            "throughput_change_percent": rounded(one.speed.change_percent, 3),
            "throughput_change_spread_percent": rounded_spread(one.speed.change_percent, 3),
            "latency_change_percent": rounded(one.latency_change_percent, 3),
            "latency_change_spread_percent": rounded_spread(one.latency_change_percent, 3),
            "verdict": one.verdict,
        }
    ]


def speed_figure(group: Group, texts: Texts) -> str | None:
    """Draw the memory that each scenario saves against its throughput; None if no speed was
    compared.

    A saving that costs frames stands above the one line and left of the other.
    """
    comparisons = speed_comparisons(group)
    if not comparisons:
        return None
    canvas = new_canvas(380)
    axes = canvas.add_subplot()
    axes.axvline(100, color=INK, linewidth=0.8)
    axes.axhline(0, color=INK, linewidth=0.8)
    legend = []
    ends = []
    for one in comparisons:
        throughput = 100 + one.speed.change_percent.median
        shown = min(max(throughput, _LOWEST), _HIGHEST)
        marker = _MARKERS[one.row.question]
        # The star's arms are thin.
        look: dict[str, Any] = {
            "marker": marker,
            "markersize": 13 if marker == "*" else 9,
            "markeredgecolor": INK,
            "markeredgewidth": 0.6,
        }
        saved = one.saved_percent.median
        axes.plot(shown, saved, color=scenario_colour(one.row.scenario), **look)
        # At an end, where it does not belong, without that of speed.
        faster = one.speed.change_percent.spread if shown == throughput else None
        ends.append((shown, saved, faster or math.nan, one.saved_percent.spread or math.nan))
        name = texts.scenario(one.row.scenario)
        legend.append(line(name, scenario_colour(one.row.scenario), linestyle="none", **look))
    x, y, x_spreads, y_spreads = zip(*ends)
    # One artist for all, below the points.
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


def _with_changes(comparisons: Sequence[SpeedComparison], texts: Texts) -> str:
    """Return each scenario with the change of its throughput, without a sign."""
    parts = []
    for one in comparisons:
        change = percent(abs(one.speed.change_percent), spread=True)
        parts.append(texts("speed_by", scenario=texts.scenario(one.row.scenario), change=change))
    return texts.joined(parts)
