"""The question of leaks: memory and other quantities that grow with each cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

from reusebench.measured.plan import MOST_CYCLES
from reusebench.reports.base.drawing import INK, Draw, line, new_canvas, svg_of
from reusebench.reports.base.formatting import EMPTY, MIB, counted, daily, sized, whole
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import rounded
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.base.trend import Trend
from reusebench.reports.results.colours import DASHES, scenario_colour
from reusebench.reports.results.drift import (
    IN_BYTES,
    QUANTITIES,
    Drift,
    cycle_count,
    drifts,
    growing,
    is_per_inference,
    judged,
    kept_bytes,
    unclear,
)
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.question import QuestionSection
from reusebench.reports.sections.section import GroupView, Values

_PANEL_PX = 220
#: Smallest range of a panel in MiB: a smaller one would make noise look like growth.
_LEAST_MIB = 1.0
#: Least memory kept by the C library that gets a sentence.
_MUCH_KEPT_BYTES = 4 * MIB
#: Counts below this have decimals.
_FEW = 10
#: Columns of the exported table; new ones come at the end.
LEAK_COLUMNS = (
    "quantity",
    "unit",
    "per",
    "cycles",
    "verdict",
    "slope",
    "slope_low",
    "slope_high",
    "growing_confidence_percent",
    "resolution",
    "kept",
    "times_per_day",
    "growth_per_day",
    "growth_per_day_low",
    "growth_per_day_high",
    "limit_per_day",
    "cycles_needed",
)


class LeaksSection(QuestionSection):
    """Quantities that grow from cycle to cycle."""

    def __init__(self) -> None:
        super().__init__("leaks")

    def part(self, view: GroupView) -> Values:
        """Return the verdicts as sentences and as tables."""
        rows = view.rows
        texts = view.texts
        return {
            **super().part(view),
            "leaks": leak_sentences(rows, texts),
            "levels": level_sentences(rows, texts),
            "verdicts": verdicts_table(rows, texts),
            "slopes": slopes_of_cycles_table(rows, texts),
        }

    def part_summary(self, view: GroupView) -> str | None:
        """Return the leaks, or that there are none."""
        return leaks_in_words(view.group, view.texts)

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of memory over cycles."""
        return {"leaks": partial(leaks_figure, view.rows, view.texts)}


def leak_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return a sentence for each scenario in which anything grows."""
    sentences = []
    for row in rows:
        leaks = growing(row)
        if not leaks:
            continue
        parts = texts.joined(_growths_in_words(leaks, texts))
        sentence = texts(
            f"leaks_per_{_unit_of(row)}", scenario=texts.scenario(row.scenario), parts=parts
        )
        if leaks[0].quantity == "memory":
            sentence = texts.sentences([sentence, texts("leaks_memory_alone")])
        sentences.append(sentence)
    return sentences


def level_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return sentences about scenarios that are level, that are unclear, and that failed."""
    sentences = []
    level = [row for row in rows if _is_level(row)]
    if level:
        sentence = texts(
            "leaks_none",
            scenarios=texts.scenarios(row.scenario for row in level),
            cycles=min(map(cycle_count, level)),
            parts=texts.joined(_bounds(level, texts)),
        )
        sentences.append(sentence)
    by_heap = [row.scenario for row in level if _is_judged_by_heap(row)]
    if by_heap:
        sentences.append(texts("leaks_by_heap", scenarios=texts.scenarios(by_heap)))
    kept = {row: kept_bytes(row) or 0 for row in rows}
    most = max(kept, key=lambda row: kept[row], default=None)
    if most and kept[most] >= _MUCH_KEPT_BYTES:
        scenario = texts.scenario(most.scenario)
        sentences.append(texts("leaks_kept", scenario=scenario, amount=sized(kept[most])))
    unread = [row.scenario for row in rows if row.measured and not drifts(row)]
    if unread:
        sentences.append(texts("leaks_not_read", scenarios=texts.scenarios(unread)))
    for row in rows:
        sentences += _unclear_in_words(row, texts)
    if any(map(drifts, rows)):
        sentences.append(_rates_in_words(rows[0], texts))
    return sentences


def _rates_in_words(row: Row, texts: Texts) -> str:
    """Return the work that a day is taken to have, and the growth that is called level."""
    limits = row.leak_limits
    is_of_turns = row.info.plan.conversation is not None
    return texts(
        "leaks_rates_turns" if is_of_turns else "leaks_rates",
        inferences=counted(limits.turns_per_s if is_of_turns else limits.inferences_per_s),
        cycles=counted(limits.cycles_per_hour),
        limit=daily(limits.bytes_per_day),
    )


def _is_level(row: Row) -> bool:
    """Whether something was read, and nothing grows for certain or perhaps."""
    return bool(drifts(row)) and not growing(row) and not unclear(row)


def _is_judged_by_heap(row: Row) -> bool:
    """Whether memory itself cannot be told to be level, and the heap is."""
    memory = drifts(row).get("memory")
    return memory is not None and memory.verdict == "unknown" and "memory" not in judged(row)


def leaks_in_words(group: Group, texts: Texts) -> str | None:
    """Return the group's leaks, or that it has none, or that this is unclear; None if unread."""
    rows = [row for row in group.rows if row.measured and drifts(row)]
    leaks = leak_sentences(rows, texts)
    if leaks:
        return texts("summary_leaks", leaks=texts.sentences(leaks))
    if not rows:
        return None
    most = daily(max(map(_most_bytes_per_day, rows)))
    if any(map(unclear, rows)):
        return texts("summary_leak_unclear", most=most)
    cycles = min(map(cycle_count, rows))
    return texts("summary_no_leak", count=len(rows), cycles=cycles, most=most)


def _most_bytes_per_day(row: Row) -> float:
    """Return the most by which a kind of memory could still grow."""
    bounds = [0.0]
    for name, drift in judged(row).items():
        if name in IN_BYTES and drift.most_per_day is not None:
            bounds.append(drift.most_per_day)
    return max(bounds)


def verdicts_table(rows: Iterable[Row], texts: Texts) -> Table | None:
    """Return the verdict on each quantity of each scenario; None if none was read."""
    shown = {}
    for row in rows:
        known = drifts(row)
        if known:
            shown[row] = known
    if not shown:
        return None
    names = [name for name in QUANTITIES if any(name in known for known in shown.values())]
    lines = []
    for row, known in shown.items():
        cells = [texts.scenario(row.scenario), texts(_per(row))]
        for name in names:
            cells.append(_verdict_in_words(known[name], texts) if name in known else EMPTY)
        lines.append((row.outcome, cells))
    heads = ["column_scenario", "leaks_column_per", *(f"leaks_what_{name}" for name in names)]
    return Table(heads_of(heads, texts), lines, words=range(len(heads)), exported="leaks")


def slopes_of_cycles_table(rows: Iterable[Row], texts: Texts) -> Table | None:
    """Return the slope of each quantity of each scenario, with the figures of its verdict.

    None if no quantity was read.
    """
    lines = []
    for row in rows:
        for name, drift in drifts(row).items():
            cells = [texts.scenario(row.scenario), texts(f"leaks_what_{name}"), texts(_per(row))]
            if drift.trend:
                growth_per_day = _growth_per_day(drift, drift.trend)
                cells += [_slope(drift, drift.trend), growth_per_day, _most_per_day(drift)]
            else:
                cells += [EMPTY] * 3
            cells += [_amount(name, drift.kept), texts(f"leaks_verdict_{drift.verdict}")]
            lines.append((row.outcome, cells))
    if not lines:
        return None
    names = ("what", "per", "slope", "day", "most", "kept", "verdict")
    heads = ["column_scenario", *(f"leaks_column_{name}" for name in names)]
    return Table(heads_of(heads, texts), lines, words=(0, 1, 2, 7), exported="leaks")


def leaks_figure(rows: Iterable[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the memory over the cycles, from before the first; None if none was read."""
    panels: dict[str, dict[Row, Sequence[float]]] = {}
    for row in rows:
        for name, readings in _readings(row).items():
            panels.setdefault(name, {})[row] = readings
    if not panels:
        return None
    scenarios: dict[str, None] = {}
    for readings_by_row in panels.values():
        scenarios.update(dict.fromkeys(row.scenario for row in readings_by_row))
    looks: dict[str, dict[str, Any]] = {}
    for scenario, dash in zip(scenarios, cycle(DASHES)):
        looks[scenario] = {
            "color": scenario_colour(scenario),
            "linestyle": dash,
            "linewidth": 1.6,
        }
    lines = 1 if paper.columns > 1 else len(panels)
    canvas = new_canvas(_PANEL_PX * lines, paper)
    all_axes = canvas.subplots(lines, len(panels) // lines, squeeze=False).flat
    for axes, (name, readings_by_row) in zip(all_axes, panels.items()):
        for row, readings in readings_by_row.items():
            look = looks[row.scenario]
            grown_mib = [(reading - readings[0]) / MIB for reading in readings]
            axes.plot(range(len(readings)), grown_mib, **look)
        axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)
        low, high = axes.get_ylim()
        if high - low < _LEAST_MIB:
            axes.set_ylim(low, low + _LEAST_MIB)
        axes.set_title(texts(f"leaks_panel_{name}"))
        axes.set_xlabel(texts("leaks_axis_cycles"))
    for axes in canvas.axes[:lines]:
        axes.set_ylabel(texts("leaks_axis_growth"))
    return svg_of(canvas, [line(texts.scenario(name), **look) for name, look in looks.items()])


def _readings(row: Row) -> dict[str, Sequence[float]]:
    """Return the readings of each quantity in bytes, and of allocated memory if known."""
    readings = {name: drift.readings for name, drift in drifts(row).items() if name in IN_BYTES}
    allocated_bytes = row.info.cycles.allocated_bytes if row.info.cycles else ()
    if allocated_bytes and "memory" in readings:
        return {"allocated": allocated_bytes, **readings}
    return readings


def leak_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in LEAK_COLUMNS for each quantity."""
    records = []
    for name, drift in drifts(row).items():
        record: dict[str, Any] = {
            **dict.fromkeys(LEAK_COLUMNS),
            "quantity": name,
            "unit": "bytes" if name in IN_BYTES else "count",
            "per": _unit_of(row),
            "cycles": cycle_count(row),
            "verdict": drift.verdict,
            "kept": drift.kept,
            "times_per_day": rounded(drift.times_per_day, 3),
            "limit_per_day": rounded(drift.least_growth * drift.times_per_day, 3),
        }
        trend = drift.trend
        if trend:
            record["slope"] = round(trend.slope, 4)
            record["slope_low"] = round(trend.low, 4)
            record["slope_high"] = round(trend.high, 4)
            record["growing_confidence_percent"] = round(trend.growing_confidence_percent, 2)
            record["resolution"] = round(trend.resolution, 4)
            record["growth_per_day"] = rounded(trend.slope * drift.times_per_day)
            record["growth_per_day_low"] = rounded(trend.low * drift.times_per_day)
            record["growth_per_day_high"] = rounded(trend.high * drift.times_per_day)
        if drift.verdict == "unknown":
            record["cycles_needed"] = drift.cycles_needed
        records.append(record)
    return records


def _unclear_in_words(row: Row, texts: Texts) -> list[str]:
    """Return sentences for a scenario that needs more cycles, and for one that failed."""
    sentences = []
    scenario = texts.scenario(row.scenario)
    hidden = unclear(row)
    if hidden:
        parts = texts.joined(_hidden_in_words(drift, texts) for drift in hidden)
        sentence = texts("leaks_unclear", scenario=scenario, parts=parts)
        needed = [drift.cycles_needed for drift in hidden]
        sentences.append(texts.sentences([sentence, _more_in_words(row, needed, texts)]))
    if row.supported and not row.measured and row.info.failure:
        sentence = texts(
            "leaks_failed",
            scenario=scenario,
            cycles=cycle_count(row),
            outcome=texts(f"outcome_{row.outcome}"),
            message=texts.message(row.info.failure.message),
        )
        sentences.append(sentence)
    return sentences


def _more_in_words(row: Row, needed: Sequence[int | None], texts: Texts) -> str:
    """Return the cycles that would tell, or that there are not as many."""
    known = [cycles for cycles in needed if cycles is not None]
    if len(known) < len(needed):
        return texts("leaks_most_cycles", cycles=whole(MOST_CYCLES))
    cycles = max(known)
    return texts("leaks_more_cycles", more=whole(cycles - cycle_count(row)), cycles=cycles)


def _growths_in_words(leaks: Iterable[Drift], texts: Texts) -> Iterable[str]:
    """Yield the growth of each quantity, per cycle or inference and in a day."""
    for drift in leaks:
        if drift.trend:
            part = texts(f"leaks_part_{drift.quantity}", amount=_slope(drift, drift.trend))
            day = _growth_per_day(drift, drift.trend)
            yield texts("leaks_part_growing", part=part, day=day)


def _hidden_in_words(drift: Drift, texts: Texts) -> str:
    """Return the growth per day that the noise of a quantity may hide."""
    if drift.trend is None:
        return texts("leaks_part_too_few", what=texts(f"leaks_what_{drift.quantity}"))
    part = texts(f"leaks_part_{drift.quantity}", amount=_most_per_day(drift))
    return texts("leaks_part_hidden", part=part)


def _bounds(rows: Sequence[Row], texts: Texts) -> Iterable[str]:
    """Yield the most by which each quantity could still grow in a day, in any of these rows."""
    for name in QUANTITIES:
        bounds = []
        for row in rows:
            drift = judged(row).get(name)
            if drift and drift.most_per_day is not None:
                bounds.append(drift.most_per_day)
        if bounds:
            yield texts(f"leaks_part_{name}", amount=_amount_per_day(name, max(bounds)))


def _verdict_in_words(drift: Drift, texts: Texts) -> str:
    """Return the verdict with the slope, or with the most that could still grow in a day."""
    verdict = texts(f"leaks_verdict_{drift.verdict}")
    if drift.trend is None:
        return verdict
    if drift.verdict in ("growing", "falling"):
        slope = _slope(drift, drift.trend)
        day = _growth_per_day(drift, drift.trend)
        return texts("leaks_cell_moves", verdict=verdict, slope=slope, day=day)
    key = "leaks_cell_unknown" if drift.verdict == "unknown" else "leaks_cell_level"
    return texts(key, verdict=verdict, most=_most_per_day(drift))


def _growth_per_day(drift: Drift, trend: Trend) -> str:
    reach = (trend.high - trend.low) / 2 * drift.times_per_day
    return _amount_per_day(drift.quantity, trend.slope * drift.times_per_day, reach)


def _most_per_day(drift: Drift) -> str:
    if drift.most_per_day is None:
        return EMPTY
    return _amount_per_day(drift.quantity, drift.most_per_day)


def _amount_per_day(quantity: str, value: float, spread: float | None = None) -> str:
    if quantity in IN_BYTES:
        return daily(value, spread)
    return counted(value, spread) if abs(value) < _FEW else whole(value)


def _slope(drift: Drift, trend: Trend) -> str:
    return _amount(drift.quantity, trend.slope, (trend.high - trend.low) / 2)


def _amount(quantity: str, value: float, spread: float | None = None) -> str:
    return sized(value, spread) if quantity in IN_BYTES else counted(value, spread)


def _per(row: Row) -> str:
    return f"leaks_per_word_{_unit_of(row)}"


def _unit_of(row: Row) -> str:
    """Return the work that slopes are told for."""
    if not is_per_inference(row):
        return "cycle"
    return "inference" if row.info.plan.conversation is None else "turn"
