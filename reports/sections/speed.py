"""Memory against speed: what each scenario saves beside what it costs in throughput and latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.base.formatting import EMPTY, mib, npu_mib, per_second, percent
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.results.rows import Group, Row

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
_SLOWER, _AS_FAST, _FASTER = "slower", "as_fast", "faster"
#: Each has its words in a text `speed_verdict_NAME`; exported tables name them, so they do not change.
_ONE_REPEAT, _DISTURBED = "one_repeat", "disturbed"
VERDICTS = (
    *(f"{memory}_{speed}" for memory in ("saves", "same", "takes_more") for speed in (_SLOWER, _AS_FAST, _FASTER)),
    _ONE_REPEAT,
    _DISTURBED,
)


@dataclass(frozen=True)
class Weighed:
    """One scenario against its baseline, in percent of it; changes are below zero where this is less."""

    row: Row
    #: Bytes of NPU memory, else of application memory over the do-nothing baseline.
    saved: Figure
    saved_percent: Figure
    throughput: Figure
    baseline_throughput: Figure
    throughput_change_percent: Figure
    latency_change_percent: Figure | None

    @property
    def is_repeated(self) -> bool:
        """Whether there are spreads, by which a difference can be told from chance."""
        return self.saved.spread is not None and self.throughput_change_percent.spread is not None

    @property
    def verdict(self) -> str:
        """One of VERDICTS; a difference that is not larger than its spread is none."""
        if self.row.is_disturbed:
            return _DISTURBED
        return f"{self._memory}_{self._speed}" if self.is_repeated else _ONE_REPEAT

    @property
    def saves(self) -> bool:
        """Whether there is a measurable saving of memory."""
        return self.verdict.startswith("saves_")

    @property
    def costs_frames(self) -> bool:
        """Whether it is measurably slower."""
        return self.verdict.endswith(f"_{_SLOWER}")

    @property
    def _memory(self) -> str:
        return {"less": "saves", "more": "takes_more"}.get(self.row.memory_change or "", "same")

    @property
    def _speed(self) -> str:
        change = self.throughput_change_percent
        return _AS_FAST if not change.exceeds_spread else _FASTER if change.median > 0 else _SLOWER


def weighed(group: Group) -> list[Weighed]:
    """Return each scenario that has a baseline, memory and speed; of variants none."""
    found = (_weigh(row) for row in group.rows if not row.is_variant)
    return [each for each in found if each]


def speed_table(group: Group, texts: Texts) -> Table | None:
    """Return memory saved beside speed, with a verdict; None where no speed was compared."""
    found = weighed(group)
    if not found:
        return None
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
    return Table([texts(head) for head in heads], [(each.row.outcome, _cells(each, texts)) for each in found])


def speed_sentences(group: Group, texts: Texts) -> list[str]:
    """Return which savings cost frames and which are faster, or why that cannot be said."""
    found = weighed(group)
    if not found:
        return [texts("speed_of_streams")] if all(row.schedule for row in group.rows) else []
    disturbed = [each for each in found if each.verdict == _DISTURBED]
    said = [texts("speed_disturbed", scenarios=_names(disturbed, texts))] if disturbed else []
    return said + _of_quiet([each for each in found if each not in disturbed], texts)


def _of_quiet(found: Sequence[Weighed], texts: Texts) -> list[str]:
    """Return what is said of scenarios that no other work disturbed."""
    if not found:
        return []
    if not any(each.is_repeated for each in found):
        return [texts("speed_one_repeat")]
    saving = [each for each in found if each.saves]
    if not saving:
        return [texts("speed_nothing_saved")]
    costing = [each for each in saving if each.costs_frames]
    faster = [each for each in saving if each.verdict == f"saves_{_FASTER}"]
    first = _named("speed_costs", costing, texts) if costing else _costs_nothing(saving, texts)
    return [first, *([_named("speed_faster", faster, texts)] if faster else [])]


def speed_rows(row: Row) -> list[dict[str, Any]]:
    """Return a row of the exported table in SPEED_COLUMNS; none where speed was not compared."""
    each = _weigh(row)
    if each is None:
        return []
    return [
        {
            "saved_percent": _rounded_median(each.saved_percent),
            "saved_percent_spread": _rounded_spread(each.saved_percent),
            "throughput_per_s": _rounded_median(each.throughput),
            "baseline_throughput_per_s": _rounded_median(each.baseline_throughput),
            "throughput_change_percent": _rounded_median(each.throughput_change_percent),
            "throughput_change_spread_percent": _rounded_spread(each.throughput_change_percent),
            "latency_change_percent": _rounded_median(each.latency_change_percent),
            "latency_change_spread_percent": _rounded_spread(each.latency_change_percent),
            "verdict": each.verdict,
        }
    ]


def _weigh(row: Row) -> Weighed | None:
    if row.baseline is None or not row.computes:
        return None
    saved, share = row.saved_memory, row.saving_percent
    own, of_baseline = row.throughput, row.baseline.throughput
    change = _change_percent(own, of_baseline)
    if not (saved and share and own and of_baseline and change):
        return None
    return Weighed(row, saved, share, own, of_baseline, change, _change_percent(row.latency, row.baseline.latency))


def _change_percent(own: Figure | None, baseline: Figure | None) -> Figure | None:
    """Return how much more than the baseline it is, in percent; of a quotient the relative spreads add."""
    if own is None or baseline is None or own.median <= 0 or baseline.median <= 0:
        return None
    quotient = 100 * own.median / baseline.median
    if own.spread is None or baseline.spread is None:
        return Figure(quotient - 100, None)
    return Figure(quotient - 100, quotient * (own.spread / own.median + baseline.spread / baseline.median))


def _cells(each: Weighed, texts: Texts) -> list[Cell]:
    shown = npu_mib if each.row.npu_saved else mib
    figures = (
        shown(each.saved),
        _percent(each.saved_percent),
        per_second(each.baseline_throughput),
        per_second(each.throughput),
        _percent(each.throughput_change_percent),
        _percent(each.latency_change_percent),
    )
    name, verdict = texts.scenario(each.row.scenario), texts(f"speed_verdict_{each.verdict}")
    return [Cell(name, False), *map(Cell, figures), Cell(verdict, False)]


def _named(key: str, found: Sequence[Weighed], texts: Texts) -> str:
    """Return the sentence with each scenario and the change of its throughput, without a sign."""
    changes = [(each, each.throughput_change_percent) for each in found]
    parts = [
        texts(
            "speed_by",
            scenario=texts.scenario(each.row.scenario),
            change=_percent(Figure(abs(change.median), change.spread)),
        )
        for each, change in changes
    ]
    return texts(key, scenarios=texts.joined(parts))


def _names(found: Sequence[Weighed], texts: Texts) -> str:
    return texts.joined(texts.scenario(each.row.scenario) for each in found)


def _costs_nothing(saving: Sequence[Weighed], texts: Texts) -> str:
    spread = max(each.throughput_change_percent.spread or 0 for each in saving)
    return texts("speed_costs_nothing", count=len(saving), spread=percent(spread))


def _percent(figure: Figure | None) -> str:
    if figure is None:
        return EMPTY
    return percent(figure.median) + ("" if figure.spread is None else f" ±{percent(figure.spread)}")


def _rounded_median(figure: Figure | None) -> float | None:
    return round(figure.median, 3) if figure else None


def _rounded_spread(figure: Figure | None) -> float | None:
    return round(figure.spread, 3) if figure and figure.spread is not None else None
