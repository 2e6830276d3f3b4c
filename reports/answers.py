"""The answer in sentences: what each scenario saves against its baseline, what it costs in speed, what to mistrust."""

from __future__ import annotations

from collections.abc import Iterable

from reports.comparison import Group, Row
from reports.format import mib, milliseconds, npu_mib, npu_plus_minus, numbers, percent, plus_minus
from reports.sharing import Finding, findings
from reports.texts import Texts

__all__ = ["answers", "warnings"]

MIB = 2**20
#: Other work above this share of the CPUs' time shows in latencies: with both of 2 cores taken, a median doubled.
_BUSY_PERCENT = 10.0


def answers(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return an answer for each scenario that is to be compared, and for each that failed."""
    return [_answer(row, texts) for row in rows if row.info["baseline"] or not row.measured]


def warnings(group: Group, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures; each says what to do."""
    found = []
    busy = max((max(row.info["speed"]["idle_cpu_percent"], default=0.0) for row in group.rows), default=0.0)
    if busy > _BUSY_PERCENT:
        found.append(texts("warning_busy" if group.computes else "warning_busy_memory", percent=f"{busy:.0f}"))
    if any(row.measured and len(row.info["repeats"]) == 1 for row in group.rows):
        found.append(texts("warning_one_repeat"))
    return found + [_finding(row, each, texts) for row in group.rows for each in findings(row)]


def _answer(row: Row, texts: Texts) -> str:
    scenario = texts.scenario(row.scenario)
    if not row.measured:
        message = row.info["failure"]["message"] if row.info["failure"] else texts("differs_from_baseline")
        return texts("answer_failed", scenario=scenario, outcome=texts(f"outcome_{row.outcome}"), message=message)
    if row.saved is None or row.baseline is None:
        return texts("answer_no_baseline", scenario=scenario, baseline=texts.scenario(row.info["baseline"]))
    sentences = [_npu_memory(row, texts), _application_memory(row, texts), _speed(row, texts)]
    return texts("sentence_separator").join(filter(None, sentences))


def _npu_memory(row: Row, texts: Texts) -> str | None:
    """Return the sentence of NPU memory; None where it was not measured in both."""
    if row.npu_saved is None or row.baseline is None:
        return None
    saved = row.npu_saved.median
    values = {
        "scenario": texts.scenario(row.scenario),
        "baseline": texts.scenario(row.baseline.scenario),
        "whole": npu_mib(row.baseline.memory("npu_memory_bytes"), spread=False),
        "spread": npu_plus_minus(row.npu_saved),
        "percent": percent(row.npu_saved_percent),
    }
    if saved == 0:
        return texts("answer_npu_same", **values)
    if abs(saved) <= (row.npu_saved.spread or 0):
        return texts("answer_npu_nothing", saved=npu_mib(row.npu_saved, spread=False), **values)
    kind = "answer_npu_saves" if saved > 0 else "answer_npu_costs"
    return texts(kind, saved=f"{abs(saved) / MIB:,.2f}", **values)


def _application_memory(row: Row, texts: Texts) -> str:
    """Return the sentence of application memory: a short one where that of NPU memory stands before it."""
    assert row.saved is not None
    assert row.baseline is not None
    saved, prefix = row.saved.median, "answer" if row.npu_saved is None else "answer_also"
    values = {
        "scenario": texts.scenario(row.scenario),
        "baseline": texts.scenario(row.baseline.scenario),
        "whole": mib(row.baseline.memory("application_memory_bytes"), spread=False),
        "spread": plus_minus(row.saved),
        "percent": percent(row.saved_percent),
        "over": percent(row.saved_over_baseline_percent),
    }
    if abs(saved) <= (row.saved.spread or 0):
        return texts(f"{prefix}_nothing", saved=mib(row.saved, spread=False), **values)
    return texts(f"{prefix}_saves" if saved > 0 else f"{prefix}_costs", saved=f"{abs(saved) / MIB:,.1f}", **values)


def _speed(row: Row, texts: Texts) -> str | None:
    """Return the sentence of speed; None where nothing computes."""
    if row.latency is None or row.baseline is None or row.baseline.latency is None:
        return None
    latencies = {"latency": milliseconds(row.latency), "baseline_latency": milliseconds(row.baseline.latency)}
    return texts("answer_speed", **latencies)


def _finding(row: Row, finding: Finding, texts: Texts) -> str:
    amount = f"{finding.amount / MIB:,.2f}" if finding.kind == "leak" else f"{finding.amount:,}"
    return texts(
        f"finding_{finding.kind}",
        scenario=texts.scenario(row.scenario),
        amount=amount,
        contexts=numbers(finding.contexts),
        owners=numbers(finding.owners) or texts("owner_application"),
    )
