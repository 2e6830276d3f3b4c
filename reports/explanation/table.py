"""The explanation in words: a table of claim, prediction and measurement, and why the claim is not
reached.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import MIB, mib, mib_decimals, mib_spread, percent
from reusebench.reports.base.statistics import Figure, total
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explanation import ACCOUNT, Explanation, explain
from reusebench.reports.results.breakdown import findings_of
from reusebench.reports.results.rows import Group, Row

_HEADS = (
    "column_scenario",
    "column_claim",
    "column_predicted_saved",
    "column_predicted_percent",
    "column_measured_saved",
    "column_measured_percent",
    "column_error",
    "column_error_percent",
    "column_error_components",
    "column_basis",
)
#: The components of what contexts on a CPU are known to take, by the name in their accounts; all
#: else is other.
_NAMED = {
    "weights_bytes": "weights",
    "internal_bytes": "internal",
    "input_bytes": "io",
    "output_bytes": "io",
}


def explanation_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return a row for each scenario that is explained; None if none is."""
    lines = []
    for row in rows:
        explanation = explain(row)
        if explanation is None:
            continue
        is_npu = explanation.measured.is_npu
        errors = []
        for name, error in explanation.error_by_component.items():
            if error and _rounded_mib(error, is_npu):
                size = f"{_rounded_mib(error, is_npu):+,.{mib_decimals(is_npu)}f}"
                errors.append(texts("error_part", component=_component(name, texts), error=size))
        cells = [
            texts.scenario(row.scenario),
            percent(explanation.naive_percent),
            mib(explanation.predicted_saved, is_npu, spread=False),
            percent(explanation.percent(explanation.predicted_saved)),
            mib(explanation.measured_saved, is_npu),
            percent(explanation.percent(explanation.measured_saved)),
            mib(explanation.error, is_npu),
            percent(explanation.percent(explanation.error)),
            texts.joined(errors),
            texts(f"basis_{explanation.basis}"),
        ]
        lines.append((row.outcome, cells))
    return Table(heads_of(_HEADS, texts), lines, words=(0, -2, -1)) if lines else None


def explanation_sentences(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return for each scenario that something is claimed of why it is not reached, and how good the
    prediction is.
    """
    paragraphs = []
    for row in rows:
        explanation = explain(row)
        if explanation and explanation.reusing:
            by_account = explanation.basis == ACCOUNT
            why = (
                _why_of_npu(row, explanation, texts)
                if by_account
                else _why_of_application(row, explanation, texts)
            )
            claim = texts(
                "explained_claim_reached" if explanation.claim_is_reached else "explained_claim",
                scenario=texts.scenario(row.scenario),
                reusing=explanation.reusing,
                contexts=explanation.contexts,
                claim=percent(explanation.naive_percent),
                measured=percent(explanation.percent(explanation.measured_saved)),
            )
            paragraphs.append(texts.sentences([claim, *why, _prediction(explanation, texts)]))
    return paragraphs


def prediction_summary(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[str]:
    """Return a sentence for each group with predictions, so labelled: how far they are off."""
    sentences = []
    for group, label in zip(groups, labels):
        explained = [(row, explanation) for row in group.rows if (explanation := explain(row))]
        if explained:
            row, worst = max(explained, key=lambda pair: _error_percent(pair[1]))
            sentence = texts(
                "prediction_summary",
                runtime=label,
                count=len(explained),
                memory=texts(f"memory_{worst.measured.name}"),
                median=percent(
                    statistics.median(_error_percent(explanation) for _, explanation in explained)
                ),
                largest=percent(_error_percent(worst)),
                scenario=texts.scenario(row.scenario),
            )
            sentences.append(sentence)
    return sentences


def _why_of_npu(row: Row, explanation: Explanation, texts: Texts) -> list[str]:
    """Return what is shared, and what each context still has of its own."""
    if any(finding.kind == "not_shared" for finding in findings_of(row)):
        key = "explained_not_shared"
    elif explanation.shared == COMPONENTS:
        key = "explained_shared_all"
    else:
        key = f"explained_shared_{'_'.join(explanation.shared)}"
    shared = total(explanation.baseline.sizes[name] for name in explanation.shared)
    whole = mib(explanation.baseline.total, npu=True, spread=False)
    sentences = [texts(key, shared=mib(shared, npu=True, spread=False), whole=whole)]
    own = {
        name: size
        for name, size in explanation.own.items()
        if size and _rounded_mib(size, is_npu=True)
    }
    if own:
        parts = []
        for name, size in own.items():
            error = mib(size, npu=True, spread=False)
            parts.append(texts("error_part", component=_component(name, texts), error=error))
        sum_of_own = mib(total(own.values()), npu=True, spread=False)
        sentences.append(texts("explained_own", own=sum_of_own, components=texts.joined(parts)))
    return sentences


def _why_of_application(row: Row, explanation: Explanation, texts: Texts) -> list[str]:
    """Return what contexts take with and without reuse, what nothing is shared of, and what is
    known by its name.
    """
    sizes = explanation.measured.sizes
    at_once = explanation.measured.sizes["at_once"]
    assert at_once is not None
    own = mib(explanation.own["reusing"], spread=False)
    unshared = mib(explanation.unshared, spread=False)
    sentences = [
        texts("explained_own_application", own=own, unshared=unshared),
        texts("explained_import", size=mib(sizes["import"], spread=False)),
    ]
    if _rounded_mib(at_once, is_npu=False):
        key = "explained_at_once_more" if at_once.median > 0 else "explained_at_once_less"
        sentences.append(texts(key, size=mib(abs(at_once), spread=False)))
    return [*sentences, *_named(row, texts)]


def _named(row: Row, texts: Texts) -> Iterator[str]:
    """Yield what the runtime says that the contexts take, and what the application allocated for
    them, by component.
    """
    sizes: dict[str, int] = {}
    for account in row.info.runtime_accounts:
        for name, size_bytes in account.items():
            component = _NAMED.get(name, "other")
            sizes[component] = sizes.get(component, 0) + size_bytes
    parts = []
    for component, size_bytes in sizes.items():
        if _rounded_mib(Figure(size_bytes), is_npu=False):
            size = mib(Figure(size_bytes))
            parts.append(texts("error_part", component=_component(component, texts), error=size))
    if parts:
        yield texts("explained_named", components=texts.joined(parts))


def _prediction(explanation: Explanation, texts: Texts) -> str:
    error = explanation.error
    is_npu = explanation.measured.is_npu
    predicted = percent(explanation.percent(explanation.predicted_saved))
    if not _rounded_mib(error, is_npu):
        least = f"{10 ** -mib_decimals(is_npu):.{mib_decimals(is_npu)}f}"
        return texts("explained_right", predicted=predicted, error=least)
    more_or_less = "explained_more" if error.median > 0 else "explained_less"
    return texts(
        more_or_less if error.exceeds_spread else "explained_within",
        predicted=predicted,
        error=mib(abs(error), is_npu, spread=False),
        spread=mib_spread(error, is_npu) if error.spread else "",
        percent=percent(_error_percent(explanation)),
    )


def _error_percent(explanation: Explanation) -> float:
    """Return the prediction error without its sign, in percent of the baseline's memory."""
    return abs(explanation.percent(explanation.error).median)


def _component(name: str, texts: Texts) -> str:
    """Return a component's name as it stands within a sentence."""
    return texts(f"component_{name}").lower()


def _rounded_mib(figure: Figure, is_npu: bool) -> float:
    """Return MiB as rounded for the reader: zero is nothing to speak of."""
    return round(figure.median / MIB, mib_decimals(is_npu))
