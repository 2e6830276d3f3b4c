"""The section of leaks: what grows with each cycle in sentences, a table of verdicts, one of
figures, and a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from reusebench.reports.base.drawing import INK, Draw, line, new_canvas, svg_of
from reusebench.reports.base.formatting import EMPTY, MIB, counted, sized
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.base.trend import Trend
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.drift import (
    IN_BYTES,
    QUANTITIES,
    Drift,
    cycle_count,
    drifts,
    growing,
    is_per_inference,
    kept_bytes,
    unclear,
)
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.question import QuestionSection
from reusebench.reports.sections.section import GroupView, Values

_PANEL_PX = 220
#: MiB that a panel shows at least: less is noise, and would look like a mountain.
_LEAST_MIB = 1.0
#: What the C library keeps for later is told from this on.
_MUCH_KEPT_BYTES = 4 * MIB
#: So many times the cycles find what is a thirtieth of that size.
_MORE = 10
#: Of the exported table; new columns come at the end.
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
)


class LeaksSection(QuestionSection):
    """What grows from cycle to cycle."""

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

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of memory over cycles."""
        return {"leaks": partial(leaks_figure, view.rows, view.texts)}


def leak_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return what grows, a sentence for each scenario."""
    sentences = []
    for row in rows:
        found = growing(row)
        if found:
            parts = texts.joined(_growth_in_words(drift, texts) for drift in found)
            key = "leaks_per_inference" if is_per_inference(row) else "leaks_per_cycle"
            sentences.append(texts(key, scenario=texts.scenario(row.scenario), parts=parts))
            if found[0].quantity == "memory":
                sentences[-1] = texts.sentences([sentences[-1], texts("leaks_memory_alone")])
    return sentences


def level_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return where nothing grows, and how much would have been seen; what is not clear; and what
    failed.
    """
    clear = [row for row in rows if drifts(row) and not growing(row) and not unclear(row)]
    sentences = []
    if clear:
        sentences.append(
            texts(
                "leaks_none",
                scenarios=texts.scenarios(row.scenario for row in clear),
                cycles=min(map(cycle_count, clear)),
                parts=texts.joined(_resolutions(clear, texts)),
            )
        )
    kept = {row: kept_bytes(row) or 0 for row in rows}
    if max(kept.values(), default=0) >= _MUCH_KEPT_BYTES:
        row = max(kept, key=lambda row: kept[row])
        sentences.append(
            texts("leaks_kept", scenario=texts.scenario(row.scenario), amount=sized(kept[row]))
        )
    unread = [row.scenario for row in rows if row.measured and not drifts(row)]
    if unread:
        sentences.append(texts("leaks_not_read", scenarios=texts.scenarios(unread)))
    for row in rows:
        parts = [_hidden_in_words(drift, texts) for drift in unclear(row)]
        if parts:
            scenario = texts.scenario(row.scenario)
            more = _MORE * cycle_count(row)
            sentences.append(
                texts("leaks_unclear", scenario=scenario, parts=texts.joined(parts), cycles=more)
            )
        if row.supported and not row.measured and row.info.failure:
            sentences.append(
                texts(
                    "leaks_failed",
                    scenario=texts.scenario(row.scenario),
                    cycles=cycle_count(row),
                    outcome=texts(f"outcome_{row.outcome}"),
                    message=texts.message(row.info.failure.message),
                )
            )
    return sentences


def opening_leaks(group: Group, label: str, texts: Texts) -> str | None:
    """Return what leaks in a group, so labelled, or that nothing does; None if nothing is
    clear.
    """
    rows = [row for row in group.rows if row.measured and drifts(row)]
    leaks = leak_sentences(rows, texts)
    if leaks:
        return texts("opening_leaks", group=label, leaks=texts.sentences(leaks))
    if not rows or any(map(unclear, rows)):
        return None
    return texts(
        "opening_no_leak", group=label, count=len(rows), cycles=min(map(cycle_count, rows))
    )


def verdicts_table(rows: Iterable[Row], texts: Texts) -> Table | None:
    """Return the verdict on each quantity of each scenario; None if none was read."""
    shown = {row: known for row in rows if (known := drifts(row))}
    names = [name for name in QUANTITIES if any(name in known for known in shown.values())]
    lines = []
    for row, known in shown.items():
        cells = [
            _verdict_in_words(known[name], texts) if name in known else EMPTY for name in names
        ]
        lines.append((row.outcome, [texts.scenario(row.scenario), texts(_per(row)), *cells]))
    heads = [
        texts("column_scenario"),
        texts("leaks_column_per"),
        *(texts(f"leaks_what_{name}") for name in names),
    ]
    return Table(heads, lines, words=range(len(heads))) if lines else None


def slopes_of_cycles_table(rows: Iterable[Row], texts: Texts) -> Table | None:
    """Return the slope of each quantity of each scenario, with all that the verdict follows from;
    None without any.
    """
    lines = []
    for row in rows:
        for name, drift in drifts(row).items():
            fitted = drift.trend
            figures = [EMPTY, EMPTY]
            if fitted:
                figures = [_slope(drift, fitted), _amount(name, fitted.resolution)]
            verdict = texts(f"leaks_verdict_{drift.verdict}")
            cells = [
                texts.scenario(row.scenario),
                texts(f"leaks_what_{name}"),
                texts(_per(row)),
                *figures,
            ]
            lines.append((row.outcome, [*cells, _amount(name, drift.kept), verdict]))
    names = ("what", "per", "slope", "resolution", "kept", "verdict")
    heads = [texts("column_scenario"), *(texts(f"leaks_column_{name}") for name in names)]
    return Table(heads, lines, words=(0, 1, 2, 6)) if lines else None


def leaks_figure(rows: Iterable[Row], texts: Texts) -> str | None:
    """Draw the memory that was read over the cycles, from before the first; None if none was
    read.
    """
    panels: dict[str, dict[Row, Sequence[float]]] = {}
    for row in rows:
        known = {name: drift.readings for name, drift in drifts(row).items() if name in IN_BYTES}
        allocated = row.info.cycles.allocated_bytes if row.info.cycles else ()
        if allocated and "memory" in known:
            known = {"allocated": allocated, **known}
        for name, readings in known.items():
            panels.setdefault(name, {})[row] = readings
    if not panels:
        return None
    canvas = new_canvas(_PANEL_PX)
    for axes, (name, shown) in zip(
        canvas.subplots(1, len(panels), squeeze=False).flat, panels.items()
    ):
        for row, readings in shown.items():
            grown_mib = [(reading - readings[0]) / MIB for reading in readings]
            axes.plot(
                range(len(readings)), grown_mib, color=scenario_colour(row.scenario), linewidth=1.6
            )
        axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)
        low, high = axes.get_ylim()
        if high - low < _LEAST_MIB:
            axes.set_ylim(low, low + _LEAST_MIB)
        axes.set_title(texts(f"leaks_panel_{name}"))
        axes.set_xlabel(texts("leaks_axis_cycles"))
    canvas.axes[0].set_ylabel(texts("leaks_axis_growth"))
    names = dict.fromkeys(row.scenario for shown in panels.values() for row in shown)
    return svg_of(
        canvas, [line(texts.scenario(name), scenario_colour(name), linewidth=1.6) for name in names]
    )


def leak_records(row: Row) -> list[dict[str, Any]]:
    """Return a row in LEAK_COLUMNS for each quantity."""
    records = []
    for name, drift in drifts(row).items():
        fitted = drift.trend
        records.append(
            {
                "quantity": name,
                "unit": "bytes" if name in IN_BYTES else "count",
                "per": "inference" if is_per_inference(row) else "cycle",
                "cycles": cycle_count(row),
                "verdict": drift.verdict,
                "slope": fitted and round(fitted.slope, 4),
                "slope_low": fitted and round(fitted.low, 4),
                "slope_high": fitted and round(fitted.high, 4),
                "growing_confidence_percent": (
                    fitted and round(fitted.growing_confidence_percent, 2)
                ),
                "resolution": fitted and round(fitted.resolution, 4),
                "kept": drift.kept,
            }
        )
    return records


def leak_definitions(groups: Sequence[Group], texts: Texts) -> list[tuple[str, str]]:
    """Return what the figures of leaks mean; nothing where no group has any."""
    if not any(row.info.cycles for group in groups for row in group.rows):
        return []
    return [
        (texts(f"leak_term_{key}"), text)
        for key, text in texts.starting_with("leak_define_").items()
    ]


def _growth_in_words(drift: Drift, texts: Texts) -> str:
    assert drift.trend is not None
    return texts(f"leaks_part_{drift.quantity}", amount=_slope(drift, drift.trend))


def _hidden_in_words(drift: Drift, texts: Texts) -> str:
    if drift.trend is None:
        return texts("leaks_part_too_few", what=texts(f"leaks_what_{drift.quantity}"))
    amount = _amount(drift.quantity, drift.trend.resolution)
    return texts("leaks_part_hidden", part=texts(f"leaks_part_{drift.quantity}", amount=amount))


def _resolutions(rows: Sequence[Row], texts: Texts) -> Iterable[str]:
    """Return the smallest growth that would have been found of each quantity, in the worst of these
    scenarios.
    """
    for name in QUANTITIES:
        per_cycle = []
        for row in rows:
            drift = drifts(row).get(name)
            if drift and drift.trend:
                per_cycle.append(drift.trend.resolution)
        if per_cycle:
            yield texts(f"leaks_part_{name}", amount=_amount(name, max(per_cycle)))


def _verdict_in_words(drift: Drift, texts: Texts) -> str:
    """Return the verdict, with the slope where it moves, or what could hide where that is not
    known.
    """
    verdict = texts(f"leaks_verdict_{drift.verdict}")
    if drift.trend is None:
        return verdict
    if drift.verdict in ("growing", "falling"):
        return texts("leaks_cell_moves", verdict=verdict, slope=_slope(drift, drift.trend))
    key = "leaks_cell_unknown" if drift.verdict == "unknown" else "leaks_cell_level"
    return texts(key, verdict=verdict, resolution=_amount(drift.quantity, drift.trend.resolution))


def _slope(drift: Drift, fitted: Trend) -> str:
    return _amount(drift.quantity, fitted.slope, (fitted.high - fitted.low) / 2)


def _amount(quantity: str, value: float, spread: float | None = None) -> str:
    return sized(value, spread) if quantity in IN_BYTES else counted(value, spread)


def _per(row: Row) -> str:
    return "leaks_per_word_inference" if is_per_inference(row) else "leaks_per_word_cycle"
