"""The judges of claims: pure functions that say whether a group's measurements support a claim.

A judge raises CannotBeJudged, with the reason, if the measurements do not decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reusebench.accounting.account import ApplicationBuffers
from reusebench.reports.base.formatting import mib, milliseconds, per_second, percent
from reusebench.reports.base.statistics import Figure, difference
from reusebench.reports.claims.evidence import (
    any_row,
    check_memory_sufficed,
    compared_rows,
    component_sizes,
    context_sizes,
    first_measured_row,
    ledger_accounts,
    loaded_sizes,
    measured_row,
)
from reusebench.reports.claims.judgement import (
    DOES_NOT_HOLD,
    HOLDS,
    OPEN,
    CannotBeJudged,
    Judgement,
    Phrase,
    above_zero,
    at_least,
    at_most,
    counted,
    reason_phrase,
)
from reusebench.reports.results.copies import avoided_bytes, copied
from reusebench.reports.results.rows import Group, Row
from reusebench.storage.savings import NPU, SYSTEM, Saving

#: The purposes for which an application allocates buffers.
_BUFFER_KINDS = ("weights", "internal", "input", "output")

#: Difference per context between an account in whole pages and one in bytes.
_PAGE_BYTES = 4096

_WORST_FIRST = (DOES_NOT_HOLD, OPEN, HOLDS)


def judge(name: str, group: Group, parameters: Mapping[str, Any]) -> Judgement:
    """Return the judgement of the judge of that name on the group."""
    try:
        return JUDGES[name](group, **parameters)
    except CannotBeJudged as why:
        return Judgement(OPEN, why.reason)


def share_saved(group: Group, scenario: str, claimed_percent: float, memory: str) -> Judgement:
    """Judge by the share of "application" or "system" memory that the scenario saves.

    The claim holds if the share is at least `claimed_percent`.
    """
    row, baseline = compared_rows(group, scenario)
    saving = row.saving(f"{memory}_memory_bytes")
    if saving is None or saving.percent is None:
        raise CannotBeJudged("not_measured", scenario=scenario)
    check_memory_sufficed(saving, row)

    share = saving.percent
    between = "within_spread"
    if saving.memory == SYSTEM:
        share += _noise_percent(saving, row, baseline)
        between = "within_noise"

    if group.computes:
        verdict, reason = at_least(share, claimed_percent, between)
    else:
        verdict = OPEN
        reason = _virtual_board_reason(group)

    values = {"share": percent(share, spread=True), "memory": memory}
    shown = Phrase("claims_share", values)
    npu = row.saved_percent(NPU)
    if npu:
        shown = Phrase("claims_share_npu", {**values, "npu": percent(npu)})
    return Judgement(verdict, reason, share, "percent", shown)


def _noise_percent(saving: Saving, row: Row, baseline: Row) -> Figure:
    """Return the noise of system memory, to which other processes add, as a spread around zero."""
    noise = Figure(0, 0)
    if saving.saved.spread is not None:
        noise_bytes = (row.system_noise_bytes or 0) + (baseline.system_noise_bytes or 0)
        noise = Figure(0, noise_bytes).percent_of(saving.whole) or noise
    return noise


def all_but_one_saved(group: Group, scenario: str) -> Judgement:
    """Judge by the share of NPU memory, or without it of memory over the import, that is saved.

    The claim is about contexts, and holds if the share is at least (N-1)/N, for N of them.
    """
    row, _ = compared_rows(group, scenario)
    saving = row.main_saving
    count = len(row.info.plan.contexts)
    if saving is None or count == 0:
        raise CannotBeJudged("not_measured", scenario=scenario)
    share = saving.percent if saving.is_npu else row.saved_over_baseline_percent
    if share is None:
        raise CannotBeJudged("not_measured", scenario=scenario)
    check_memory_sufficed(saving, row)

    claimed_percent = 100 * (count - 1) / count
    verdict, reason = at_least(share, claimed_percent, "within_spread")
    values = {
        "share": percent(share, spread=True),
        "claimed": percent(claimed_percent),
        "contexts": count,
        "memory": "npu" if saving.is_npu else "over_import",
    }
    shown = Phrase("claims_share_of_theory", values)
    return Judgement(verdict, reason, share, "percent", shown)


def rate_kept(group: Group, scenarios: Sequence[str], tolerance_percent: float) -> Judgement:
    """Judge by the loss of throughput against the baseline.

    The claim holds if no scenario loses more than `tolerance_percent`.
    """
    if not group.computes:
        raise CannotBeJudged("nothing_computes")
    judgements = [_rate_of_one_kept(group, scenario, tolerance_percent) for scenario in scenarios]
    return min(judgements, key=lambda judgement: _WORST_FIRST.index(judgement.verdict))


def _rate_of_one_kept(group: Group, scenario: str, tolerance_percent: float) -> Judgement:
    row, baseline = compared_rows(group, scenario)
    if row.is_disturbed:
        raise CannotBeJudged("disturbed", scenario=scenario)

    lost = difference(baseline.throughput, row.throughput)
    lost_percent = None
    if lost and baseline.throughput:
        lost_percent = lost.percent_of(baseline.throughput)
    if lost_percent is None:
        raise CannotBeJudged("not_measured", scenario=scenario)

    verdict, reason = at_most(lost_percent, tolerance_percent)
    values = {
        "scenario": scenario,
        "rate": per_second(row.throughput),
        "baseline": per_second(baseline.throughput),
        "lost": percent(lost_percent, spread=True),
    }
    return Judgement(verdict, reason, lost_percent, "percent", Phrase("claims_rate", values))


def smaller_internal_saved(group: Group, scenario: str) -> Judgement:
    """Judge by the saving of internal memory.

    The claim holds if it is the size of all internal memories but the largest, to the page.
    """
    row, baseline = compared_rows(group, scenario)
    baseline_repeats = context_sizes(baseline, "internal")
    sizes = [_whole_pages(size) for size in baseline_repeats[0]]
    expected = sum(sizes) - max(sizes)

    own = Figure.of(map(sum, context_sizes(row, "internal")))
    saved = difference(Figure.of(map(sum, baseline_repeats)), own)
    assert saved is not None
    is_equal = abs(saved.median - expected) <= _PAGE_BYTES * len(sizes)
    values = {
        "saved": mib(saved, npu=True),
        "expected": mib(Figure(expected), npu=True),
    }
    shown = Phrase("claims_internal", values)
    return counted(
        is_equal,
        yes="internal_equal",
        no="internal_differs",
        figure=saved,
        unit="bytes",
        shown=shown,
    )


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES


def slaves_without_weights(group: Group, scenario: str) -> Judgement:
    """Judge by the ledger: the contexts over shared weights have none of their own."""
    sizes = component_sizes(measured_row(group, scenario), "shared_weights")
    weights = sizes["weights"]
    has_none = not weights.median
    return counted(
        has_none,
        yes="no_weights",
        no="own_weights",
        figure=weights,
        unit="bytes",
        shown=_parts(sizes),
    )


def only_weights_shared(group: Group, scenario: str) -> Judgement:
    """Judge by the ledger: dups have own internal tensors and register commands, no weights."""
    row = measured_row(group, scenario)
    sizes = component_sizes(row, "dup")
    shared = {memory.component for account in row.accounts for memory in account.shared}
    weights = sizes["weights"]
    has_own = sizes["internal"].median and sizes["register_commands"].median
    alone = bool(has_own) and not weights.median and shared == {"weights"}
    shown = _parts(sizes)
    return counted(
        alone,
        yes="weights_alone",
        no="not_weights_alone",
        figure=weights,
        unit="bytes",
        shown=shown,
    )


def application_memory_read(group: Group, scenarios: Sequence[str]) -> Judgement:
    """Judge by the ledger: inferences name buffers that the application allocated."""
    repeats = []
    for account in ledger_accounts(first_measured_row(group, scenarios)):
        if account.application_buffers is None:
            raise CannotBeJudged("stored_before")
        repeats.append(account.application_buffers)
    if not all(repeats):
        raise CannotBeJudged("no_application_buffers")

    counts = [sum(buffers.read for buffers in repeat) for repeat in repeats]
    fewest = min(counts)
    buffers_of_fewest = repeats[counts.index(fewest)]
    named = {kind: _named_buffers(buffers_of_fewest, kind) for kind in _BUFFER_KINDS}
    shown = Phrase("claims_buffers", named)
    figure = Figure.of(counts)
    assert figure is not None
    return counted(
        fewest > 0,
        yes="still_read",
        no="never_read",
        figure=figure,
        unit="buffers",
        shown=shown,
    )


def _named_buffers(buffers: Sequence[ApplicationBuffers], kind: str) -> str:
    """Return the number of named buffers of a kind, and the number of all."""
    of_kind = [entry for entry in buffers if entry.kind == kind]
    named = sum(entry.read for entry in of_kind)
    total = sum(entry.count for entry in of_kind)
    return f"{named}/{total}"


def copies_avoided(group: Group, scenarios: Sequence[str]) -> Judgement:
    """Judge by the counted bytes that an inference copies: fewer than the baseline's copies."""
    row = first_measured_row(group, scenarios)
    avoided = avoided_bytes(row)
    baseline = copied(row.baseline) if row.baseline else None
    if avoided is None or baseline is None:
        raise CannotBeJudged("copies_unknown")
    if not baseline.total_bytes:
        raise CannotBeJudged("nothing_to_copy")

    figure = Figure(avoided)
    values = {"scenario": row.scenario, "avoided": mib(figure, npu=True)}
    shown = Phrase("claims_copies", values)
    if group.computes and row.latency_saved:
        latency = milliseconds(row.latency_saved)
        shown = Phrase("claims_copies_latency", {**values, "latency": latency})
    return counted(
        avoided > 0,
        yes="copies_less",
        no="copies_same",
        figure=figure,
        unit="bytes",
        shown=shown,
    )


def memory_saved(group: Group, scenario: str) -> Judgement:
    """Judge by the saving of NPU memory, or without it of application memory.

    The claim holds if the saving is larger than its spread.
    """
    row, _ = compared_rows(group, scenario)
    saving = row.main_saving
    if saving is None:
        raise CannotBeJudged("not_measured", scenario=scenario)
    check_memory_sufficed(saving, row)

    if saving.is_npu or group.computes:
        verdict, reason = above_zero(saving.saved)
    else:
        verdict = OPEN
        reason = _virtual_board_reason(group)
    values = {"saved": mib(saving.saved, saving.is_npu), "memory": _memory_name(saving)}
    return Judgement(verdict, reason, saving.saved, "bytes", Phrase("claims_saved", values))


def published_sizes(group: Group, models: Mapping[str, Mapping[str, float]]) -> Judgement:
    """Judge by the sizes of contexts that load one of the models by themselves.

    `models` has the published sizes by a pattern of the model's name. The claim holds if all are
    equal in every repeat.
    """
    differences = []
    for row in group.rows:
        for pattern, published in models.items():
            for sizes in loaded_sizes(row, pattern):
                differences += [abs(sizes[name] - size) for name, size in published.items()]
    if not differences:
        raise CannotBeJudged("model_not_measured")

    equal = sum(not difference for difference in differences)
    values = {"equal": equal, "compared": len(differences)}
    return counted(
        equal == len(differences),
        yes="sizes_equal",
        no="sizes_differ",
        figure=Figure(equal),
        unit="sizes",
        shown=Phrase("claims_sizes", values),
    )


def refused(group: Group, scenario: str) -> Judgement:
    """Judge by the outcome of the scenario: the runtime does not support it."""
    row = any_row(group, scenario)
    if row.supported and not row.measured:
        raise CannotBeJudged("outcome", scenario=scenario, outcome=row.outcome)
    verdict = DOES_NOT_HOLD if row.supported else HOLDS
    return Judgement(verdict, reason_phrase("outcome", scenario=scenario, outcome=row.outcome))


#: Key: the judge's name in the claims' data.
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
    "published_sizes": published_sizes,
    "refused": refused,
}


def _memory_name(saving: Saving) -> str:
    return "npu" if saving.is_npu else "application"


def _virtual_board_reason(group: Group) -> Phrase:
    """Return the reason why a virtual board's application memory is not judged."""
    return reason_phrase("emulator" if group.emulated else "untouched")


def _parts(sizes: Mapping[str, Figure]) -> Phrase:
    """Return the phrase that lists components with their sizes."""
    parts = {name: mib(size, npu=True, spread=False) for name, size in sizes.items()}
    return Phrase("claims_parts", parts)
