"""The answer in sentences: what each scenario saves against its baseline, what it costs in speed, what to mistrust."""

from __future__ import annotations

from collections.abc import Iterable

from reports.comparison import Group, Row
from reports.format import mib, milliseconds, npu_mib, npu_plus_minus, numbers, percent, plus_minus
from reports.sharing import Finding, findings
from reports.summary import Figure
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
    names = {"scenario": scenario, "baseline": texts.scenario(row.baseline.scenario)}
    memory = _application_memory if row.npu_saved is None else _npu_memory
    return texts("sentence_separator").join(filter(None, (memory(row, row.baseline, names, texts), _speed(row, texts))))


def _application_memory(row: Row, baseline: Row, names: dict[str, str], texts: Texts) -> str:
    """Return the sentence of application memory where there is no other."""
    assert row.saved is not None
    values = {
        **names,
        "whole": mib(baseline.memory("application_memory_bytes"), spread=False),
        "saved": mib(_absolute(row.saved), spread=False),
        "spread": plus_minus(row.saved),
        "percent": percent(row.saved_percent),
        "over": percent(row.saved_over_baseline_percent),
    }
    if _is_nothing(row.saved):
        return texts("answer_nothing", **{**values, "saved": mib(row.saved, spread=False)})
    return texts("answer_saves" if row.saved.median > 0 else "answer_costs", **values)


def _npu_memory(row: Row, baseline: Row, names: dict[str, str], texts: Texts) -> str:
    """Return the sentence of NPU memory, and a short one of application memory."""
    assert row.npu_saved is not None
    values = {
        **names,
        "whole": npu_mib(baseline.memory("npu_memory_bytes"), spread=False),
        "saved": npu_mib(_absolute(row.npu_saved), spread=False),
        "spread": npu_plus_minus(row.npu_saved),
        "percent": percent(row.npu_saved_percent),
    }
    if row.npu_saved.median == 0:
        sentence = texts("answer_npu_same", **values)
    elif _is_nothing(row.npu_saved):
        sentence = texts("answer_npu_nothing", **{**values, "saved": npu_mib(row.npu_saved, spread=False)})
    else:
        sentence = texts("answer_npu_saves" if row.npu_saved.median > 0 else "answer_npu_costs", **values)
    return sentence + texts("sentence_separator") + _application_memory_too(row, texts)


def _application_memory_too(row: Row, texts: Texts) -> str:
    saved = row.saved_over_baseline
    assert saved is not None
    values = {"spread": plus_minus(saved), "over": percent(row.saved_over_baseline_percent)}
    if _is_nothing(saved) or mib(saved, spread=False) == "0.0":
        return texts("answer_also_nothing", saved=mib(saved, spread=False), **values)
    kind = "answer_also_saves" if saved.median > 0 else "answer_also_costs"
    return texts(kind, saved=mib(_absolute(saved), spread=False), **values)


def _is_nothing(saved: Figure) -> bool:
    """Whether it is within what repeats differ by."""
    return abs(saved.median) <= (saved.spread or 0)


def _absolute(figure: Figure) -> Figure:
    return Figure(abs(figure.median), figure.spread)


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
