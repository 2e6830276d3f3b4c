"""The judges of claims: each a pure function that says whether what a group measured bears a claim
out.

Where nothing can be judged, a judge raises CannotBeJudged with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reusebench.accounting.account import Account, ApplicationBuffers
from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import mib, milliseconds, per_second, percent
from reusebench.reports.base.statistics import Figure, difference
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import NPU, SYSTEM, Saving
from reusebench.reports.sections.copies import avoided_bytes, copied

#: OPEN: it cannot be judged from what was measured here.
CLAIM_VERDICTS = HOLDS, DOES_NOT_HOLD, OPEN = ("holds", "does_not_hold", "cannot_be_judged")

#: What an application allocates buffers for.
_BUFFER_KINDS = ("weights", "internal", "input", "output")

#: An account in whole pages may differ from one in bytes by this for each context.
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Phrase:
    """A text by its key, and the values that it fills in."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)

    def in_words(self, texts: Texts) -> str:
        """Return the text; values named scenario, outcome and memory are words of the language
        too.
        """
        words: dict[str, Callable[[str], str]] = {
            "scenario": texts.scenario,
            "outcome": lambda value: texts(f"outcome_{value}"),
            "memory": lambda value: texts(f"claims_memory_{value}"),
        }
        return texts(
            self.key, **{key: words.get(key, str)(str(value)) for key, value in self.values.items()}
        )


@dataclass(frozen=True)
class Judgement:
    """What became of one claim in one group."""

    #: One of CLAIM_VERDICTS.
    verdict: str
    reason: Phrase
    #: What was measured, in `unit`: "percent", "bytes" or "buffers".
    figure: Figure | None = None
    unit: str | None = None
    #: The figure in words, with what it stands beside.
    shown: Phrase | None = None


class CannotBeJudged(Exception):
    """What the claim needs was not measured, and why."""

    def __init__(self, reason: str, **values: object) -> None:
        super().__init__(reason)
        self.reason = Phrase(f"claims_reason_{reason}", values)


def judge(name: str, group: Group, parameters: Mapping[str, Any]) -> Judgement:
    """Return what the judge of that name says of the group."""
    try:
        return JUDGES[name](group, **parameters)
    except CannotBeJudged as why:
        return Judgement(OPEN, why.reason)


def share_saved(group: Group, scenario: str, claimed_percent: float, memory: str) -> Judgement:
    """Judge by the share of "application" or "system" memory that the scenario saves: at least that
    many percent.
    """
    row, baseline = _compared(group, scenario)
    saving = row.saving(f"{memory}_memory_bytes")
    if saving is None or saving.percent is None:
        raise CannotBeJudged("not_measured", scenario=scenario)
    _check_memory_sufficed(saving, row)
    percent_saved = saving.percent
    if saving.memory == SYSTEM and saving.saved.spread is not None:
        # What else ran in that time adds to the spread.
        noise = Figure(0, sum(one.system_noise_bytes or 0 for one in (row, baseline))).percent_of(
            saving.whole
        )
        percent_saved += noise or Figure(0, 0)
    if not group.computes:
        verdict = OPEN
        reason = _reason_of_virtual(group)
    else:
        between = "within_noise" if saving.memory == SYSTEM else "within_spread"
        verdict, reason = _at_least(percent_saved, claimed_percent, between)
    values = {"share": percent(percent_saved, spread=True), "memory": memory}
    npu = row.saved_percent(NPU)
    shown = (
        Phrase("claims_share_npu", {**values, "npu": percent(npu)})
        if npu
        else Phrase("claims_share", values)
    )
    return Judgement(verdict, reason, percent_saved, "percent", shown)


def all_but_one_saved(group: Group, scenario: str) -> Judgement:
    """Judge by the share that is saved of NPU memory, else of that above the import: (N-1)/N of N
    contexts.
    """
    row, _ = _compared(group, scenario)
    saving = row.main_saving
    count = len(row.info.plan.contexts)
    if saving is None or saving.percent is None or count == 0:
        raise CannotBeJudged("not_measured", scenario=scenario)
    _check_memory_sufficed(saving, row)
    claimed = 100 * (count - 1) / count
    verdict, reason = _at_least(saving.percent, claimed, "within_spread")
    values = {
        "share": percent(saving.percent, spread=True),
        "claimed": percent(claimed),
        "contexts": count,
    }
    shown = Phrase(
        "claims_share_of_theory", {**values, "memory": "npu" if saving.is_npu else "over_import"}
    )
    return Judgement(verdict, reason, saving.percent, "percent", shown)


def rate_kept(group: Group, scenarios: Sequence[str], tolerance_percent: float) -> Judgement:
    """Judge by the loss of throughput against the baseline: no scenario loses more than the
    tolerance.
    """
    if not group.computes:
        raise CannotBeJudged("nothing_computes")
    judgements = [_rate_kept(group, scenario, tolerance_percent) for scenario in scenarios]
    return min(
        judgements, key=lambda judgement: (DOES_NOT_HOLD, OPEN, HOLDS).index(judgement.verdict)
    )


def smaller_internal_saved(group: Group, scenario: str) -> Judgement:
    """Judge by the internal component: as much less as all internal memories but the largest have,
    to the page.
    """
    row, baseline = _compared(group, scenario)
    sizes = [
        -(-size // _PAGE_BYTES) * _PAGE_BYTES for size in _of_contexts(baseline, "internal")[0]
    ]
    expected = sum(sizes) - max(sizes)
    own, whole = (Figure.of(map(sum, _of_contexts(one, "internal"))) for one in (row, baseline))
    saved = difference(whole, own)
    assert saved is not None
    equal = abs(saved.median - expected) <= _PAGE_BYTES * len(sizes)
    shown = Phrase(
        "claims_internal",
        {"saved": mib(saved, npu=True), "expected": mib(Figure(expected), npu=True)},
    )
    return _yes_or_no(equal, "internal_equal", "internal_differs", saved, "bytes", shown)


def slaves_without_weights(group: Group, scenario: str) -> Judgement:
    """Judge by the ledger: the contexts over shared weights have none of their own."""
    row = _measured(group, scenario)
    sizes = _of_mechanism(row, "shared_weights")
    weights = sizes["weights"]
    return _yes_or_no(
        not weights.median, "no_weights", "own_weights", weights, "bytes", _parts(sizes)
    )


def only_weights_shared(group: Group, scenario: str) -> Judgement:
    """Judge by the ledger: dups have no weights, and internal tensors and register commands of
    their own.
    """
    row = _measured(group, scenario)
    sizes = _of_mechanism(row, "dup")
    shared = {memory.component for account in row.accounts for memory in account.shared}
    own = sizes["internal"].median and sizes["register_commands"].median
    alone = bool(not sizes["weights"].median and own and shared == {"weights"})
    return _yes_or_no(
        alone, "weights_alone", "not_weights_alone", sizes["weights"], "bytes", _parts(sizes)
    )


def application_memory_read(group: Group, scenarios: Sequence[str]) -> Judgement:
    """Judge by the ledger: inferences name buffers that the application allocated; which, by
    kind.
    """
    accounts = _ledgers(_first_measured(group, scenarios))
    repeats = [
        account.application_buffers
        for account in accounts
        if account.application_buffers is not None
    ]
    if len(repeats) < len(accounts):
        raise CannotBeJudged("stored_before")
    if not all(repeats):
        raise CannotBeJudged("no_application_buffers")
    sums = [sum(entry.read for entry in repeat) for repeat in repeats]
    fewest = repeats[sums.index(min(sums))]
    figure = Figure.of(sums)
    assert figure is not None
    shown = Phrase("claims_buffers", {kind: _named_of(fewest, kind) for kind in _BUFFER_KINDS})
    return _yes_or_no(min(sums) > 0, "still_read", "never_read", figure, "buffers", shown)


def _named_of(buffers: Sequence[ApplicationBuffers], kind: str) -> str:
    """Return how many buffers of a kind are named, of how many."""
    of_kind = [entry for entry in buffers if entry.kind == kind]
    return f"{sum(entry.read for entry in of_kind)}/{sum(entry.count for entry in of_kind)}"


def copies_avoided(group: Group, scenarios: Sequence[str]) -> Judgement:
    """Judge by the copies that an inference makes, counted: fewer than those of the baseline."""
    row = _first_measured(group, scenarios)
    avoided = avoided_bytes(row)
    baseline = copied(row.baseline) if row.baseline else None
    if avoided is None or baseline is None:
        raise CannotBeJudged("copies_unknown")
    if not baseline.total_bytes:
        raise CannotBeJudged("nothing_to_copy")
    figure = Figure(avoided)
    values = {"scenario": row.scenario, "avoided": mib(figure, npu=True)}
    faster = row.latency_saved if group.computes else None
    if faster is None:
        shown = Phrase("claims_copies", values)
    else:
        shown = Phrase("claims_copies_latency", {**values, "latency": milliseconds(faster)})
    return _yes_or_no(avoided > 0, "copies_less", "copies_same", figure, "bytes", shown)


def memory_saved(group: Group, scenario: str) -> Judgement:
    """Judge by NPU memory, else by application memory over the import: more is saved than repeats
    differ by.
    """
    row, _ = _compared(group, scenario)
    saving = row.main_saving
    if saving is None:
        raise CannotBeJudged("not_measured", scenario=scenario)
    _check_memory_sufficed(saving, row)
    values = {
        "saved": mib(saving.saved, npu=True),
        "memory": "npu" if saving.is_npu else "over_import",
    }
    verdict, reason = (
        _above_zero(saving.saved)
        if saving.is_npu or group.computes
        else (OPEN, _reason_of_virtual(group))
    )
    return Judgement(verdict, reason, saving.saved, "bytes", Phrase("claims_saved", values))


def refused(group: Group, scenario: str) -> Judgement:
    """Judge by what came of the scenario: the runtime does not support it."""
    row = _row(group, scenario)
    if row.supported and not row.measured:
        raise CannotBeJudged("outcome", scenario=scenario, outcome=row.outcome)
    values = {"scenario": scenario, "outcome": row.outcome}
    verdict = DOES_NOT_HOLD if row.supported else HOLDS
    return Judgement(verdict, Phrase("claims_reason_outcome", values))


#: By the name that the claims' data uses.
JUDGES: dict[str, Callable[..., Judgement]] = {
    "share_saved": share_saved,
    "all_but_one_saved": all_but_one_saved,
    "rate_kept": rate_kept,
    "smaller_internal_saved": smaller_internal_saved,
    "slaves_without_weights": slaves_without_weights,
    "only_weights_shared": only_weights_shared,
    "application_memory_read": application_memory_read,
    "copies_avoided": copies_avoided,
    "memory_saved": memory_saved,
    "refused": refused,
}


# What was measured


def _row(group: Group, scenario: str) -> Row:
    """Return the group's row of a scenario; of several, with other models, one that was
    measured.
    """
    rows = group.named(scenario)
    if not rows:
        raise CannotBeJudged("not_measured", scenario=scenario)
    return next((row for row in rows if row.measured), rows[0])


def _measured(group: Group, scenario: str) -> Row:
    row = _row(group, scenario)
    if not row.measured:
        raise CannotBeJudged("outcome", scenario=scenario, outcome=row.outcome)
    return row


def _first_measured(group: Group, scenarios: Sequence[str]) -> Row:
    """Return the row of the first scenario that was measured."""
    rows = [row for scenario in scenarios for row in group.named(scenario) if row.measured]
    return rows[0] if rows else _measured(group, scenarios[0])


def _compared(group: Group, scenario: str) -> tuple[Row, Row]:
    """Return the row of the scenario, and that of its baseline with the same models."""
    row = _measured(group, scenario)
    if row.baseline is None or not row.baseline.measured:
        raise CannotBeJudged("no_baseline", scenario=scenario)
    return row, row.baseline


def _check_memory_sufficed(saving: Saving, row: Row) -> None:
    """Raise CannotBeJudged where memory was short for the row or its baseline, and the saving is of
    such memory.
    """
    if row.is_compared_with_short and not saving.is_npu:
        raise CannotBeJudged("short", scenario=row.scenario)


def _rate_kept(group: Group, scenario: str, tolerance_percent: float) -> Judgement:
    row, baseline = _compared(group, scenario)
    if row.is_disturbed:
        raise CannotBeJudged("disturbed", scenario=scenario)
    lost = difference(baseline.throughput, row.throughput)
    figure = lost.percent_of(baseline.throughput) if lost and baseline.throughput else None
    if figure is None:
        raise CannotBeJudged("not_measured", scenario=scenario)
    verdict, reason = _at_most(figure, tolerance_percent)
    rates = {"rate": per_second(row.throughput), "baseline": per_second(baseline.throughput)}
    shown = Phrase(
        "claims_rate", {"scenario": scenario, **rates, "lost": percent(figure, spread=True)}
    )
    return Judgement(verdict, reason, figure, "percent", shown)


def _ledgers(row: Row) -> list[Account]:
    """Return the accounts of the repeats, all by a ledger."""
    if not row.accounts or any(account.source != "ledger" for account in row.accounts):
        raise CannotBeJudged("no_ledger")
    return row.accounts


def _of_contexts(row: Row, component: str) -> list[list[int]]:
    """Return the bytes that each context has of a component, for each repeat."""
    if not row.accounts:
        raise CannotBeJudged("no_account")
    repeats = []
    for account in row.accounts:
        sizes = [context.size_bytes(component) for context in account.contexts]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            raise CannotBeJudged("not_told_apart")
        repeats.append(known)
    return repeats


def _of_mechanism(row: Row, mechanism: str) -> dict[str, Figure]:
    """Return what all contexts that were made by the mechanism have of each component, by the
    ledger.
    """
    indices = [
        index
        for index, context in enumerate(row.info.plan.contexts)
        if context.mechanism == mechanism
    ]
    accounts = _ledgers(row)
    if not indices:
        raise CannotBeJudged("not_measured", scenario=row.scenario)
    sums = {
        # A ledger knows every component.
        name: Figure.of(
            sum(account.contexts[index].size_bytes(name) or 0 for index in indices)
            for account in accounts
        )
        for name in COMPONENTS
    }
    return {name: figure for name, figure in sums.items() if figure}


# What it comes to


def _at_least(figure: Figure, claimed: float, between: str) -> tuple[str, Phrase]:
    """Return the verdict on "so many percent or more": the whole range decides."""
    if figure.spread is None:
        return OPEN, _reason("one_repeat")
    if figure.median - figure.spread >= claimed:
        return HOLDS, _reason("reaches", claimed=percent(claimed))
    if figure.median + figure.spread < claimed:
        return DOES_NOT_HOLD, _reason("stays_below", claimed=percent(claimed))
    return OPEN, _reason(between, claimed=percent(claimed))


def _at_most(figure: Figure, tolerance: float) -> tuple[str, Phrase]:
    """Return the verdict on "so many percent lost or less"."""
    if figure.spread is None:
        return OPEN, _reason("one_repeat")
    if figure.median + figure.spread <= tolerance:
        return HOLDS, _reason("kept", tolerance=percent(tolerance))
    if figure.median - figure.spread > tolerance:
        return DOES_NOT_HOLD, _reason("lost", tolerance=percent(tolerance))
    return OPEN, _reason("within_spread", claimed=percent(tolerance))


def _above_zero(saved: Figure) -> tuple[str, Phrase]:
    if saved.spread is None:
        return OPEN, _reason("one_repeat")
    if saved.median - saved.spread > 0:
        return HOLDS, _reason("saves")
    if saved.median + saved.spread <= 0:
        return DOES_NOT_HOLD, _reason("saves_nothing")
    return OPEN, _reason("no_difference")


def _yes_or_no(
    holds: bool, yes: str, no: str, figure: Figure, unit: str, shown: Phrase
) -> Judgement:
    """Return the verdict on what is counted, not measured: one repeat is enough."""
    return Judgement(
        HOLDS if holds else DOES_NOT_HOLD, _reason(yes if holds else no), figure, unit, shown
    )


def _reason(name: str, **values: object) -> Phrase:
    return Phrase(f"claims_reason_{name}", values)


def _reason_of_virtual(group: Group) -> Phrase:
    """Return why application memory of a virtual board is not judged."""
    return _reason("emulator" if group.emulated else "untouched")


def _parts(sizes: Mapping[str, Figure]) -> Phrase:
    return Phrase(
        "claims_parts", {name: mib(size, npu=True, spread=False) for name, size in sizes.items()}
    )
