"""The answer in sentences: what each scenario saves against its baseline, what it costs in speed, what to mistrust."""

from __future__ import annotations

from collections.abc import Iterable

from reports.base.formatting import (
    EMPTY,
    copied_mib,
    mib,
    milliseconds,
    npu_mib,
    npu_plus_minus,
    numbers,
    percent,
    plus_minus,
    shows_in_mib,
)
from reports.base.messages import in_words
from reports.base.statistics import Figure
from reports.base.texts import Texts
from reports.results.rows import BUSY_PERCENT, Group, Row
from reports.sections.copies import copied
from reports.sections.mechanisms import COMBINING, combined_mechanisms
from reports.sections.sharing import Finding, findings_of

MIB = 2**20
#: Questions in which it matters what an inference copies.
_ABOUT_COPIES = ("io_copies", "lean")


def answers(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return an answer for each scenario that is to be compared, and for each that failed."""
    asked = [row for row in rows if row.info.baseline or not row.measured]
    return [_answer(row, texts) for row in asked if row.supported]


def not_supported(rows: Iterable[Row], texts: Texts) -> str | None:
    """Return one sentence for all scenarios that the runtime lacks; None where it has all."""
    names = [texts.scenario(row.scenario) for row in rows if not row.supported]
    return texts("answer_not_supported", scenarios=texts.joined(names)) if names else None


def warnings(group: Group, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures; each says what to do."""
    sentences = []
    busy = max(row.busy_percent for row in group.rows)
    if busy > BUSY_PERCENT:
        sentences.append(texts("warning_busy" if group.computes else "warning_busy_memory", percent=f"{busy:.0f}"))
    if any(row.measured and len(row.info.repeats) == 1 for row in group.rows):
        sentences.append(texts("warning_one_repeat"))
    return sentences + [_finding(row, finding, texts) for row in group.rows for finding in findings_of(row)]


def _answer(row: Row, texts: Texts) -> str:
    scenario = texts.scenario(row.scenario)
    if not row.measured:
        failure = row.info.failure
        message = in_words(failure.message, texts) if failure else texts("differs_from_baseline")
        return texts("answer_failed", scenario=scenario, outcome=texts(f"outcome_{row.outcome}"), message=message)
    if row.saved is None or row.baseline is None:
        return texts("answer_no_baseline", scenario=scenario, baseline=texts.scenario(row.info.baseline or EMPTY))
    names = {"scenario": scenario, "baseline": texts.scenario(row.baseline.scenario)}
    memory = _application_memory if row.npu_saved is None else _npu_memory
    sentences = [memory(row, row.baseline, names, texts), _speed(row, texts), _copies(row, texts)]
    if row.scenario in COMBINING:
        sentences += _combined(row, texts)
    return texts("sentence_separator").join(filter(None, sentences))


def _application_memory(row: Row, baseline: Row, names: dict[str, str], texts: Texts) -> str:
    """Return the sentence of application memory where there is no other.

    What stands over the import is compared: the import itself differs from process to process, and by who else has the
    runtime's libraries mapped.
    """
    saved = row.saved_over_baseline
    assert saved is not None
    values = {
        **names,
        "whole": mib(baseline.memory("application_memory_over_baseline_bytes"), spread=False),
        "saved": mib(_absolute(saved), spread=False),
        "spread": plus_minus(saved),
        "over": percent(row.saved_over_baseline_percent),
        "percent": percent(row.saved_percent),
    }
    if not shows_in_mib(saved):
        return texts("answer_nothing", **{**values, "saved": mib(saved, spread=False)})
    return texts("answer_saves" if saved.median > 0 else "answer_costs", **values)


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
    elif not row.npu_saved.exceeds_spread:
        sentence = texts("answer_npu_nothing", **{**values, "saved": npu_mib(row.npu_saved, spread=False)})
    else:
        sentence = texts("answer_npu_saves" if row.npu_saved.median > 0 else "answer_npu_costs", **values)
    return sentence + texts("sentence_separator") + _application_memory_too(row, texts)


def _application_memory_too(row: Row, texts: Texts) -> str:
    saved = row.saved_over_baseline
    assert saved is not None
    values = {"spread": plus_minus(saved), "over": percent(row.saved_over_baseline_percent)}
    if not shows_in_mib(saved):
        return texts("answer_also_nothing", saved=mib(saved, spread=False), **values)
    kind = "answer_also_saves" if saved.median > 0 else "answer_also_costs"
    return texts(kind, saved=mib(_absolute(saved), spread=False), **values)


def _absolute(figure: Figure) -> Figure:
    return Figure(abs(figure.median), figure.spread)


def _speed(row: Row, texts: Texts) -> str | None:
    """Return the sentence of speed; None where nothing computes."""
    saved = row.latency_saved
    if saved is None or row.baseline is None:
        return None
    latencies = {"latency": milliseconds(row.latency), "baseline_latency": milliseconds(row.baseline.latency)}
    # A single repeat shows no spread to measure a difference by.
    differs = saved.spread is None or saved.exceeds_spread
    return texts("answer_speed" if differs else "answer_speed_same", **latencies)


def _copies(row: Row, texts: Texts) -> str | None:
    """Return the sentence of copies; None where they were not counted, or the question is not about them."""
    own, whole = copied(row), copied(row.baseline) if row.baseline else None
    if own is None or whole is None or row.question not in _ABOUT_COPIES:
        return None
    values = {"copied": copied_mib(own.total_bytes), "whole": copied_mib(whole.total_bytes)}
    if own.total_bytes == whole.total_bytes:
        return texts("answer_copies_same" if own.total_bytes else "answer_copies_none", **values)
    return texts("answer_copies_less" if own.total_bytes < whole.total_bytes else "answer_copies_more", **values)


def _combined(row: Row, texts: Texts) -> list[str]:
    """Return which mechanisms were combined, and which the runtime has not."""
    sentences = []
    for key, is_used in {"answer_combined": True, "answer_combined_without": False}.items():
        names = [name for name, used in combined_mechanisms(row.info.plan).items() if used == is_used]
        if names:
            sentences.append(texts(key, mechanisms=texts.joined(texts(f"combined_{name}") for name in names)))
    return sentences


def _finding(row: Row, finding: Finding, texts: Texts) -> str:
    amount = f"{finding.amount / MIB:,.2f}" if finding.kind == "leak" else f"{finding.amount:,}"
    owners = numbers(finding.owners) or texts("owner_application")
    values = {"amount": amount, "contexts": numbers(finding.contexts), "owners": owners}
    sentences = [texts(f"finding_{finding.kind}", scenario=texts.scenario(row.scenario), **values)]
    if finding.past_end_bytes is not None:
        sentences.append(texts("finding_past_end", distance=f"{finding.past_end_bytes / MIB:,.2f}", owners=owners))
    return texts("sentence_separator").join(sentences)
