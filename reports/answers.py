"""The answer in sentences: what each scenario saves against its baseline, what it costs in speed, what to mistrust."""

from __future__ import annotations

from reports.comparison import Group, Row
from reports.format import mib, milliseconds, percent, plus_minus
from reports.texts import Texts

__all__ = ["answers", "warnings"]

#: Other work above this share of the CPUs' time shows in latencies: with both of 2 cores taken, a median doubled.
_BUSY_PERCENT = 10.0


def answers(group: Group, texts: Texts) -> list[str]:
    """Return a sentence for each scenario that is to be compared, and for each that failed."""
    return [_answer(row, texts) for row in group.rows if row.info["baseline"] or not row.measured]


def warnings(group: Group, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures; each says what to do."""
    found = []
    busy = max((max(row.info["speed"]["idle_cpu_percent"], default=0.0) for row in group.rows), default=0.0)
    if busy > _BUSY_PERCENT:
        found.append(texts("warning_busy", percent=f"{busy:.0f}"))
    if any(row.measured and len(row.info["repeats"]) == 1 for row in group.rows):
        found.append(texts("warning_one_repeat"))
    return found


def _answer(row: Row, texts: Texts) -> str:
    scenario = texts.scenario(row.scenario)
    if not row.measured:
        message = row.info["failure"]["message"] if row.info["failure"] else texts("differs_from_baseline")
        return texts("answer_failed", scenario=scenario, outcome=texts(f"outcome_{row.outcome}"), message=message)
    if row.saved is None or row.baseline is None:
        return texts("answer_no_baseline", scenario=scenario, baseline=texts.scenario(row.info["baseline"]))
    values = {
        "scenario": scenario,
        "baseline": texts.scenario(row.baseline.scenario),
        "whole": mib(row.baseline.memory("application_memory_bytes"), spread=False),
        "spread": plus_minus(row.saved),
        "percent": percent(row.saved_percent),
        "over": percent(row.saved_over_baseline_percent),
        "latency": milliseconds(row.latency),
        "baseline_latency": milliseconds(row.baseline.latency),
    }
    saved = row.saved.median
    if abs(saved) <= (row.saved.spread or 0):
        return texts("answer_nothing", saved=mib(row.saved, spread=False), **values)
    if saved < 0:
        return texts("answer_costs", saved=f"{-saved / 2**20:,.1f}", **values)
    return texts("answer_saves", saved=mib(row.saved, spread=False), **values)
