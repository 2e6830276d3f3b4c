"""The answer in sentences: what each scenario saves against its baseline, what it costs in speed,
what to mistrust.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reusebench.reports.base.formatting import (
    EMPTY,
    counted_mib,
    mib,
    mib_spread,
    milliseconds,
    percent,
    ranges,
    share,
    whole,
)
from reusebench.reports.base.statistics import Figure, difference
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.combined_mechanisms import (
    combined_mechanisms,
    combines,
    lacking_mechanisms,
)
from reusebench.reports.results.copies import copied
from reusebench.reports.results.memory_use import FindingSummary, findings_of
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import APPLICATION, LESS, MORE, NPU, OVER_BASELINE, SAME
from reusebench.reports.shared.shortage import short_row
from reusebench.scenarios.catalogue import LEAN, scenarios_of
from reusebench.storage.measured_figure import DOUBT
from reusebench.storage.result import BUSY_PERCENT

#: Scenarios of which each has the mechanisms of the one before.
_STEPS = tuple(scenarios_of(LEAN))


def answers(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return an answer for each scenario that is to be compared, and for each that failed."""
    shown = list(rows)
    sentences = [
        _answer(row, texts)
        for row in shown
        if row.supported and (row.info.baseline or not row.measured)
    ]
    steps = _steps(shown, texts)
    return sentences + ([steps] if steps else [])


def _steps(rows: Sequence[Row], texts: Texts) -> str | None:
    """Return what each step to the smallest plan saves beyond the one before; None if there is
    one alone.
    """
    # A step may be equal to a scenario of dup, which is the row then; a step that is equal to
    # another adds nothing.
    steps: dict[Row, str] = {}
    for name in _STEPS:
        row = next((row for row in rows if name in row.names and row.main_saving), None)
        if row:
            steps.setdefault(row, name)
    parts = []
    before: Row | None = None
    for row, name in steps.items():
        saving = row.main_saving
        before = before or row.baseline
        # Not from the savings: their spread has that of the plain contexts.
        saved = (
            difference(before.memory(saving.memory), row.memory(saving.memory))
            if saving and before
            else None
        )
        if saving is None or saved is None:
            return None
        parts.append(
            texts(
                "answer_step", mechanism=texts(f"step_{name}"), saved=mib(saved, npu=saving.is_npu)
            )
        )
        before = row
    return texts("answer_steps", steps=texts.joined(parts)) if len(parts) > 1 else None


def equal_scenarios(rows: Iterable[Row], texts: Texts) -> str | None:
    """Return one sentence for all scenarios that were measured once, as their plans are equal; None
    if none were.
    """
    equal = dict.fromkeys((row.original or row).names for row in rows if row.equal)
    parts = [" = ".join(map(texts.scenario, names)) for names in equal]
    return texts("equal_scenarios", scenarios=texts.joined(parts)) if parts else None


def not_supported(rows: Iterable[Row], texts: Texts) -> str | None:
    """Return one sentence for all scenarios that the runtime lacks; None if it has all."""
    names = [row.scenario for row in rows if not row.supported]
    return texts("answer_not_supported", scenarios=texts.scenarios(names)) if names else None


def group_warnings(group: Group, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures; each says what to do."""
    sentences = []
    busy = max(row.busy_percent for row in group.rows)
    if busy > BUSY_PERCENT:
        sentences.append(
            texts("warning_busy" if group.computes else "warning_busy_memory", percent=whole(busy))
        )
    short = [row for row in group.rows if row.is_short]
    if short:
        signs = [
            short_row(texts.scenario(row.scenario), row.info.shortage_signs, texts) for row in short
        ]
        sentences.append(texts("warning_short", mark=DOUBT, rows="; ".join(signs)))
    if any(row.measured and row.is_compared and len(row.info.repeats) == 1 for row in group.rows):
        sentences.append(texts("warning_one_repeat"))
    return sentences + [
        _finding(row, finding, texts) for row in group.rows for finding in findings_of(row)
    ]


def virtual_note(group: Group, texts: Texts) -> str | None:
    """Return what figures of a virtual board are, and are not; None of any other target."""
    if group.computes:
        return None
    return texts.sentences(
        [texts("note_virtual"), texts("note_emulated" if group.emulated else "note_not_emulated")]
    )


def _answer(row: Row, texts: Texts) -> str:
    scenario = texts.scenario(row.scenario)
    if not row.measured:
        failure = row.info.failure
        message = texts.message(failure.message) if failure else texts("differs_from_baseline")
        return texts(
            "answer_failed",
            scenario=scenario,
            outcome=texts(f"outcome_{row.outcome}"),
            message=message,
        )
    if row.saved() is None or row.baseline is None:
        return texts(
            "answer_no_baseline",
            scenario=scenario,
            baseline=texts.scenario(row.info.baseline or EMPTY),
        )
    memory = _npu_memory(row, texts) or _application_memory(row, texts)
    short = texts("answer_short") if row.is_compared_with_short else None
    sentences = [memory, short, _speed(row, texts), _copies(row, texts), _outputs(row, texts)]
    if combines(row):
        plan = row.info.plan
        lacking = [] if row.is_variant else lacking_mechanisms(plan)
        for key, names in {
            "answer_combined": combined_mechanisms(plan),
            "answer_combined_without": lacking,
        }.items():
            if names:
                mechanisms = texts.joined(texts(f"combined_{name}") for name in names)
                sentences.append(texts(key, mechanisms=mechanisms))
    return texts.sentences(sentences)


def _application_memory(row: Row, texts: Texts) -> str:
    """Return the sentence of application memory if there is no other.

    That above the import is compared: the import itself differs from process to process, and by who
    else has the runtime's libraries mapped.
    """
    saving = row.saving(OVER_BASELINE)
    baseline = row.baseline
    assert saving is not None
    assert baseline is not None
    key = {LESS: "answer_saves", SAME: "answer_nothing", MORE: "answer_costs"}[saving.change]
    shown = saving.saved if saving.change == SAME else abs(saving.saved)
    return texts(
        key,
        scenario=texts.scenario(row.scenario),
        baseline=texts.scenario(baseline.scenario),
        whole=mib(saving.whole, spread=False),
        saved=mib(shown, spread=False),
        spread=mib_spread(saving.saved),
        over=percent(saving.percent),
        percent=percent(row.saved_percent(APPLICATION)),
    )


def _npu_memory(row: Row, texts: Texts) -> str | None:
    """Return the sentence of NPU memory, and a short one of application memory; None if there is
    no NPU memory.
    """
    saving = row.saving(NPU)
    application = row.saving(OVER_BASELINE)
    baseline = row.baseline
    if saving is None or baseline is None:
        return None
    assert application is not None
    key = {LESS: "answer_npu_saves", SAME: "answer_npu_nothing", MORE: "answer_npu_costs"}[
        saving.change
    ]
    sentence = texts(
        key if saving.saved.median else "answer_npu_same",
        scenario=texts.scenario(row.scenario),
        baseline=texts.scenario(baseline.scenario),
        whole=mib(saving.whole, npu=True, spread=False),
        saved=mib(
            saving.saved if saving.change == SAME else abs(saving.saved), npu=True, spread=False
        ),
        spread=mib_spread(saving.saved, npu=True),
        percent=percent(saving.percent),
    )
    key = {LESS: "answer_also_saves", SAME: "answer_also_nothing", MORE: "answer_also_costs"}[
        application.change
    ]
    shown = application.saved if application.change == SAME else abs(application.saved)
    also = texts(
        key,
        saved=mib(shown, spread=False),
        spread=mib_spread(application.saved),
        over=percent(application.percent),
    )
    return texts.sentences([sentence, also])


def _speed(row: Row, texts: Texts) -> str | None:
    """Return the sentence of speed; None if nothing computes."""
    saved = row.latency_saved
    if saved is None or row.baseline is None:
        return None
    latencies = {
        "latency": milliseconds(row.latency),
        "baseline_latency": milliseconds(row.baseline.latency),
    }
    # A single repeat shows no spread to measure a difference by.
    differs = saved.spread is None or saved.exceeds_spread
    return texts("answer_speed" if differs else "answer_speed_same", **latencies)


def _copies(row: Row, texts: Texts) -> str | None:
    """Return the sentence of copies; None if they were not counted, or the question is not about
    them.
    """
    own = copied(row)
    baseline = copied(row.baseline) if row.baseline else None
    if (
        own is None
        or baseline is None
        or (row.question != "io_copies" and row.scenario not in _STEPS)
    ):
        return None
    values = {"copied": counted_mib(own.total_bytes), "whole": counted_mib(baseline.total_bytes)}
    if own.total_bytes == baseline.total_bytes:
        return texts("answer_copies_same" if own.total_bytes else "answer_copies_none", **values)
    return texts(
        "answer_copies_less" if own.total_bytes < baseline.total_bytes else "answer_copies_more",
        **values,
    )


def _outputs(row: Row, texts: Texts) -> str | None:
    """Return the sentence of outputs where another option may change them; None if they are
    bit-equal.
    """
    difference = row.output_difference if row.options else None
    return texts("answer_outputs", difference=share(difference)) if difference else None


def _finding(row: Row, finding: FindingSummary, texts: Texts) -> str:
    is_size = finding.kind == "leak"
    owners = ranges(finding.owners) or texts("owner_application")
    past_end = None
    if finding.past_end_bytes is not None:
        past_end = texts(
            "finding_past_end",
            distance=mib(Figure(finding.past_end_bytes), npu=True),
            owners=owners,
        )
    sentence = texts(
        f"finding_{finding.kind}",
        scenario=texts.scenario(row.scenario),
        amount=mib(Figure(finding.amount), npu=True) if is_size else whole(finding.amount),
        contexts=ranges(finding.contexts),
        owners=owners,
    )
    return texts.sentences([sentence, past_end])
