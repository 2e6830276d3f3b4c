"""The explanation of a saving: the plan's prediction, the measurement, and the claim."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from reusebench.reports.base.statistics import Figure, difference, rounded, rounded_spread
from reusebench.reports.explanation.application_prediction import (
    application_memory,
    own_application_memory,
    predict_application_memory,
    prediction_basis,
    unshared_memory,
)
from reusebench.reports.explanation.explained_memory import (
    TOTAL,
    ExplainedMemory,
    model_digests,
)
from reusebench.reports.explanation.npu_prediction import (
    npu_memory,
    own_npu_memory,
    predict_npu_memory,
)
from reusebench.reports.explanation.plan_sharing import reuses, shared_components
from reusebench.reports.results.rows import Row

#: The basis of a prediction of NPU memory: the baseline's account.
ACCOUNT = "account"
#: Columns of the exported table, after the identity of the configuration.
EXPLANATION_COLUMNS = (
    "component",
    "baseline_bytes",
    "predicted_bytes",
    "measured_bytes",
    "measured_spread_bytes",
    "error_bytes",
    "naive_bytes",
    "basis",
)


@dataclass(frozen=True)
class Explanation:
    """One configuration against its baseline, in bytes of the whole configuration."""

    #: ACCOUNT, BASELINE_CONTEXTS, FIRST_OF_KIND or OWN_CONTEXTS.
    basis: str
    baseline: ExplainedMemory
    predicted: ExplainedMemory
    measured: ExplainedMemory
    contexts: int
    #: The number of contexts that reuse another one.
    reusing: int
    #: Components that the reusing contexts share by the plan; empty if no account tells components
    #: apart.
    shared: tuple[str, ...]
    #: The measured mean of the memory that a reusing context still has to itself. Key: component.
    own: dict[str, Figure | None]
    #: The mean memory of a context of their models in the baseline; None if an account lets `own`
    #: say more.
    unshared: Figure | None

    @property
    def naive_percent(self) -> float | None:
        """The share of contexts that reuse another one, (N-1)/N; None if none does."""
        return 100 * self.reusing / self.contexts if self.reusing else None

    @property
    def naive_saved_bytes(self) -> float | None:
        """The saving if that share of all memory were saved; None if no context reuses another."""
        if not self.reusing:
            return None
        return self.baseline.total.median * self.reusing / self.contexts

    @property
    def predicted_saved(self) -> Figure:
        """The baseline's memory minus the predicted."""
        return self.baseline.total - self.predicted.total

    @property
    def measured_saved(self) -> Figure:
        """The baseline's memory minus the measured."""
        return self.baseline.total - self.measured.total

    @property
    def error(self) -> Figure:
        """The measured memory minus the predicted."""
        return self.measured.total - self.predicted.total

    @property
    def error_by_component(self) -> dict[str, Figure | None]:
        """The error of each component; None if a side does not know it."""
        return {
            name: difference(size, self.predicted.sizes[name])
            for name, size in self.measured.sizes.items()
        }

    @property
    def claim_is_reached(self) -> bool:
        """Whether the measured saving reaches the claim, as far as repeats can tell."""
        saved = self.measured_saved
        claim = self.naive_saved_bytes
        if claim is None:
            return False
        return saved.median + (saved.spread or 0) >= claim

    def percent(self, figure: Figure) -> Figure:
        """Return a figure in percent of the baseline's whole memory."""
        percent = figure.percent_of(self.baseline.total)
        assert percent is not None
        return percent


# A page asks for it several times, and in each language.
@functools.lru_cache(maxsize=4096)
def explain(row: Row) -> Explanation | None:
    """Return the explanation; None if the row or a baseline was not measured.

    Also None if the plan cannot explain the difference: the runtime's options differ, or the
    baseline lacks a model or a component, as it may in a foreign file. Conversations are explained
    by the runtime's own account (sections/sessions.py).
    """
    baseline = row.baseline
    if baseline is None or not row.measured or not baseline.measured:
        return None
    if row.options != baseline.options or row.info.plan.conversation is not None:
        return None
    if not set(model_digests(row)) <= set(model_digests(baseline)):
        return None

    # Accounts of different sources tell different components apart.
    sources = {account.source for account in row.accounts}
    baseline_sources = {account.source for account in baseline.accounts}
    by_account = len(sources) == 1 and sources == baseline_sources
    memory_of = npu_memory if by_account else application_memory
    measured = memory_of(row)
    before = memory_of(baseline)
    if measured is None or before is None or measured.sizes.keys() != before.sizes.keys():
        return None

    contexts = row.info.plan.contexts
    reusing = _reusing_contexts(row, baseline)
    if by_account:
        return Explanation(
            basis=ACCOUNT,
            baseline=before,
            predicted=predict_npu_memory(row, baseline),
            measured=measured,
            contexts=len(contexts),
            reusing=len(reusing),
            shared=shared_components(contexts),
            own=own_npu_memory(row, reusing),
            unshared=None,
        )
    return Explanation(
        basis=prediction_basis(row),
        baseline=before,
        predicted=predict_application_memory(row, baseline),
        measured=measured,
        contexts=len(contexts),
        reusing=len(reusing),
        shared=(),
        own=own_application_memory(row, reusing),
        unshared=unshared_memory(row, baseline, reusing),
    )


def _reusing_contexts(row: Row, baseline: Row) -> list[int]:
    """Return the indices of contexts that reuse another one.

    Empty if the baseline has another number of contexts: nobody claims anything for such a plan.
    """
    contexts = row.info.plan.contexts
    if len(contexts) != len(baseline.info.plan.contexts):
        return []
    return [index for index, is_reusing in enumerate(reuses(contexts)) if is_reusing]


def measured_memory(row: Row) -> ExplainedMemory | None:
    """Return the measured NPU memory; if there is no account, the application memory."""
    if not row.measured:
        return None
    return npu_memory(row) or application_memory(row)


def explanation_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in EXPLANATION_COLUMNS for each component and the total.

    Empty if there is no explanation.
    """
    explanation = explain(row)
    if explanation is None:
        return []
    baseline = explanation.baseline.with_total
    predicted = explanation.predicted.with_total
    errors = {**explanation.error_by_component, TOTAL: explanation.error}
    naive_bytes = None
    if explanation.naive_saved_bytes is not None:
        # The whole memory that the claim leaves.
        naive_bytes = round(explanation.baseline.total.median - explanation.naive_saved_bytes)
    records = []
    for name, measured in explanation.measured.with_total.items():
        records.append(
            {
                "component": name,
                "baseline_bytes": rounded(baseline[name]),
                "predicted_bytes": rounded(predicted[name]),
                "measured_bytes": rounded(measured),
                "measured_spread_bytes": rounded_spread(measured),
                "error_bytes": rounded(errors[name]),
                "naive_bytes": naive_bytes if name == TOTAL else None,
                "basis": explanation.basis,
            }
        )
    return records
