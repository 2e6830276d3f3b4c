"""Answers in sentences: the savings of each scenario, their cost in speed, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reusebench.measured.messages import Message
from reusebench.reports.base.formatting import (
    EMPTY,
    counted_mib,
    mib,
    mib_spread,
    milliseconds,
    per_second,
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
from reusebench.reports.results.sessions import ALL_GENERATED, has_conversations, speed_figure
from reusebench.reports.results.system_memory import hidden_system_memory
from reusebench.reports.shared.session_words import scenario_in_words
from reusebench.reports.shared.shortage import short_row
from reusebench.scenarios.catalogue import LEAN, scenarios_of
from reusebench.storage.measured_figure import DOUBT
from reusebench.storage.result import BUSY_PERCENT, Result
from reusebench.storage.savings import (
    APPLICATION,
    LESS,
    MORE,
    NPU,
    SAME,
    Saving,
)

#: Scenarios that each add a mechanism to the one before.
_STEPS = tuple(scenarios_of(LEAN))


def answers(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return an answer for each scenario with a baseline, and for each that failed."""
    shown = list(rows)
    sentences = []
    for row in shown:
        if row.supported and (row.info.baseline or not row.measured):
            sentences.append(_answer(row, scenario_in_words(row, texts, shown), texts))
    steps = steps_to_lean(shown, texts)
    if steps:
        sentences.append(steps)
    return sentences


def not_supported(rows: Iterable[Row], texts: Texts) -> str | None:
    """Return one sentence for all scenarios that the runtime lacks; None if it has all."""
    names = [row.scenario for row in rows if not row.supported]
    if not names:
        return None
    return texts("answer_not_supported", scenarios=texts.scenarios(names))


def group_warnings(group: Group, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures, with its remedy."""
    sentences = []
    busy_percent = max(row.busy_percent for row in group.rows)
    if busy_percent > BUSY_PERCENT:
        key = "warning_busy" if group.computes else "warning_busy_memory"
        sentences.append(texts(key, percent=whole(busy_percent)))
    short = _remarked(group, texts, lambda info: info.shortage_signs)
    if short:
        sentences.append(texts("warning_short", mark=DOUBT, rows=short))
    if any(_has_one_repeat(row) for row in group.rows):
        sentences.append(texts("warning_one_repeat"))
    for row in group.rows:
        for finding in findings_of(row):
            sentences.append(_finding(row, finding, texts))
    return sentences


def memory_note(group: Group, texts: Texts) -> str | None:
    """Return the remarks on memory that do not make figures doubtful; None if there are none."""
    remarked = _remarked(group, texts, lambda info: info.memory_remarks)
    return texts("note_memory", rows=remarked) if remarked else None


def system_memory_note(group: Group, texts: Texts) -> str | None:
    """Return the reason why system memory is left out; None if it is shown."""
    hidden = hidden_system_memory(group)
    if hidden is None:
        return None
    return texts(
        "note_system_memory",
        noise=mib(Figure(hidden.noise_bytes)),
        largest=mib(Figure(hidden.largest_bytes)),
    )


def _has_one_repeat(row: Row) -> bool:
    return row.measured and row.is_compared and len(row.info.repeats) == 1


def _remarked(group: Group, texts: Texts, remarks_of: Callable[[Result], Sequence[Message]]) -> str:
    """Return the scenarios that have such remarks, with them; empty if none has."""
    rows = []
    for row in group.rows:
        remarks = remarks_of(row.info)
        if remarks:
            rows.append(short_row(texts.scenario(row.scenario), remarks, texts))
    return "; ".join(rows)


def virtual_note(group: Group, texts: Texts) -> str | None:
    """Return a note on the figures of a virtual board; None for any other target."""
    if group.computes:
        return None
    emulation = "note_emulated" if group.emulated else "note_not_emulated"
    return texts.sentences([texts.of_runtime("note_virtual", group.info.runtime), texts(emulation)])


def steps_to_lean(rows: Sequence[Row], texts: Texts) -> str | None:
    """Return the saving of each step to the smallest plan; None if there are no two steps."""
    # A step may be equal to a scenario of dup, which is its row then. A step that is equal to the
    # one before adds nothing.
    steps: dict[Row, str] = {}
    for name in _STEPS:
        row = next((row for row in rows if name in row.names and row.main_saving), None)
        if row:
            steps.setdefault(row, name)
    parts = []
    before: Row | None = None
    for row, name in steps.items():
        before = before or row.baseline
        saving = row.main_saving
        if before is None or saving is None:
            return None
        # The difference of savings would also have the spread of the plain contexts.
        saved = difference(before.memory(saving.memory), row.memory(saving.memory))
        if saved is None:
            return None
        size = mib(saved, npu=saving.is_npu)
        parts.append(texts("answer_step", mechanism=texts(f"step_{name}"), saved=size))
        before = row
    if len(parts) < 2:
        return None
    return texts("answer_steps", steps=texts.joined(parts))


def _answer(row: Row, name: str, texts: Texts) -> str:
    if not row.measured:
        return _failure(row, name, texts)
    if row.saved() is None or row.baseline is None:
        scenario = texts.scenario(row.scenario)
        baseline = texts.scenario(row.info.baseline or EMPTY)
        return texts("answer_no_baseline", scenario=scenario, baseline=baseline)
    sentences = [_npu_memory(row, texts) or _application_memory(row, name, texts)]
    if row.is_compared_with_short:
        sentences.append(texts("answer_short"))
    for sentence in (_speed(row, texts), _copies(row, texts), _outputs(row, texts)):
        if sentence:
            sentences.append(sentence)
    if combines(row):
        plan = row.info.plan
        combined = combined_mechanisms(plan)
        if combined:
            sentences.append(_mechanisms("answer_combined", combined, texts))
        lacking = lacking_mechanisms(plan)
        if lacking and not row.is_variant:
            sentences.append(_mechanisms("answer_combined_without", lacking, texts))
    return texts.sentences(sentences)


def _failure(row: Row, name: str, texts: Texts) -> str:
    failure = row.info.failure
    return texts(
        "answer_failed",
        scenario=name,
        outcome=texts(f"outcome_{row.outcome}"),
        message=texts.message(failure.message) if failure else texts("differs_from_baseline"),
    )


def _mechanisms(key: str, names: Sequence[str], texts: Texts) -> str:
    return texts(key, mechanisms=texts.joined(texts(f"combined_{name}") for name in names))


def _application_memory(row: Row, name: str, texts: Texts) -> str:
    """Return the sentence of application memory, for a row without NPU memory."""
    saving = row.saving(APPLICATION)
    baseline = row.baseline
    assert saving is not None
    assert baseline is not None
    keys = {LESS: "answer_saves", SAME: "answer_nothing", MORE: "answer_costs"}
    return texts(
        keys[saving.change],
        scenario=name,
        baseline=texts.scenario(baseline.scenario),
        whole=mib(saving.whole, spread=False),
        saved=mib(_shown_saving(saving), spread=False),
        spread=mib_spread(saving.saved),
        percent=percent(saving.percent),
    )


def _npu_memory(row: Row, texts: Texts) -> str | None:
    """Return the sentence of NPU memory, and a short one of application memory.

    None if there is no NPU memory.
    """
    saving = row.saving(NPU)
    application = row.saving(APPLICATION)
    baseline = row.baseline
    if saving is None or baseline is None:
        return None
    assert application is not None
    keys = {LESS: "answer_npu_saves", SAME: "answer_npu_nothing", MORE: "answer_npu_costs"}
    sentence = texts(
        keys[saving.change] if saving.saved.median else "answer_npu_same",
        scenario=texts.scenario(row.scenario),
        baseline=texts.scenario(baseline.scenario),
        whole=mib(saving.whole, npu=True, spread=False),
        saved=mib(_shown_saving(saving), npu=True, spread=False),
        spread=mib_spread(saving.saved, npu=True),
        percent=percent(saving.percent),
    )
    keys = {LESS: "answer_also_saves", SAME: "answer_also_nothing", MORE: "answer_also_costs"}
    also = texts(
        keys[application.change],
        saved=mib(_shown_saving(application), spread=False),
        spread=mib_spread(application.saved),
    )
    return texts.sentences([sentence, also])


def _shown_saving(saving: Saving) -> Figure:
    """Return the saving without its sign, which words express; with it if it is within noise."""
    return saving.saved if saving.change == SAME else abs(saving.saved)


def _speed(row: Row, texts: Texts) -> str | None:
    """Return the sentence of speed; None if nothing computes."""
    if row.baseline is None:
        return None
    if has_conversations(row):
        return _tokens(row, row.baseline, texts)
    saved = row.latency_saved
    if saved is None:
        return _latencies(row, row.baseline, texts)
    # A single repeat has no spread to judge a difference by.
    differs = saved.spread is None or saved.exceeds_spread
    return texts(
        "answer_speed" if differs else "answer_speed_same",
        latency=milliseconds(row.latency),
        baseline_latency=milliseconds(row.baseline.latency),
    )


def _tokens(row: Row, baseline: Row, texts: Texts) -> str | None:
    """Return the tokens that all conversations generate a second; None if not measured."""
    own = speed_figure(row, ALL_GENERATED)
    before = speed_figure(baseline, ALL_GENERATED)
    if own is None or before is None:
        return None
    return texts("answer_tokens_per_s", own=per_second(own), before=per_second(before))


def _latencies(row: Row, baseline: Row, texts: Texts) -> str | None:
    """Return the models whose latency differs; None if none is known on both sides."""
    own = dict(row.model_latencies)
    before = dict(baseline.model_latencies)
    compared = [model for model in own if model in before]
    if not compared:
        return None
    parts = []
    for model in compared:
        if (before[model] - own[model]).exceeds_spread:
            values = {"latency": milliseconds(own[model]), "before": milliseconds(before[model])}
            parts.append(texts("answer_speed_of", model=model, **values))
    if not parts:
        return texts("answer_speed_models_same")
    return texts("answer_speed_models", parts=texts.joined(parts))


def _copies(row: Row, texts: Texts) -> str | None:
    """Return the sentence of copies; None if the question is not about them."""
    if row.question != "io_copies" and row.scenario not in _STEPS:
        return None
    copies = copied(row)
    baseline = copied(row.baseline) if row.baseline else None
    if copies is None or baseline is None:
        return None
    if copies.total_bytes < baseline.total_bytes:
        key = "answer_copies_less"
    elif copies.total_bytes > baseline.total_bytes:
        key = "answer_copies_more"
    elif copies.total_bytes:
        key = "answer_copies_same"
    else:
        key = "answer_copies_none"
    return texts(
        key,
        copied=counted_mib(copies.total_bytes),
        whole=counted_mib(baseline.total_bytes),
    )


def _outputs(row: Row, texts: Texts) -> str | None:
    """Return the sentence of outputs that another option changed; None if they are bit-equal."""
    if not row.options or not row.output_difference:
        return None
    return texts("answer_outputs", difference=share(row.output_difference))


def _finding(row: Row, finding: FindingSummary, texts: Texts) -> str:
    owners = ranges(finding.owners) or texts("owner_application")
    if finding.kind == "leak":
        amount = mib(Figure(finding.amount), npu=True)
    else:
        amount = whole(finding.amount)
    sentence = texts.of_runtime(
        f"finding_{finding.kind}",
        row.info.runtime,
        scenario=texts.scenario(row.scenario),
        amount=amount,
        contexts=ranges(finding.contexts),
        owners=owners,
    )
    if finding.past_end_bytes is None:
        return sentence
    distance = mib(Figure(finding.past_end_bytes), npu=True)
    past_end = texts("finding_past_end", distance=distance, owners=owners)
    return texts.sentences([sentence, past_end])
