"""The explanation in words: a table of claim, prediction and measurement, and why the claim is not reached."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from accounting.sizes import COMPONENTS
from reports.base.formatting import mib, npu_mib, npu_plus_minus, percent, plus_minus
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.explanation.explanation import ACCOUNT, NPU, Explanation, explain
from reports.results.labels import labels
from reports.results.rows import Group, Row
from reports.sections.sharing import findings_of

MIB = 2**20
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


def explanation_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return a row for each scenario that is explained; None where none is."""
    explained = [(row, explanation) for row in rows if (explanation := explain(row))]
    if not explained:
        return None
    return Table(
        [texts(head) for head in _HEADS],
        [(row.outcome, _cells(row, explanation, texts)) for row, explanation in explained],
    )


def explanation_sentences(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return for each scenario that something is claimed of why it is not reached, and how good the prediction is."""
    explained = ((row, explain(row)) for row in rows)
    return [
        _sentences(row, explanation, texts) for row, explanation in explained if explanation and explanation.reusing
    ]


def prediction_summary(groups: Sequence[Group], texts: Texts) -> list[str]:
    """Return a sentence for each group with predictions: how far they are off."""
    sentences = (_summary(group, label, texts) for group, label in zip(groups, labels(groups, texts)))
    return [sentence for sentence in sentences if sentence]


def _cells(row: Row, explanation: Explanation, texts: Texts) -> list[Cell]:
    return [
        Cell(texts.scenario(row.scenario), False),
        Cell(percent(explanation.naive_percent)),
        Cell(_mib(explanation, explanation.predicted_saved)),
        Cell(percent(explanation.percent(explanation.predicted_saved))),
        Cell(_mib(explanation, explanation.measured_saved, spread=True)),
        Cell(percent(explanation.percent(explanation.measured_saved))),
        Cell(_mib(explanation, explanation.error, spread=True)),
        Cell(percent(explanation.percent(explanation.error))),
        Cell(_errors(explanation, texts), False),
        Cell(texts(f"basis_{explanation.basis}"), False),
    ]


def _errors(explanation: Explanation, texts: Texts) -> str:
    """Return the components whose error is not nothing, each with its sign."""
    shown = {name: _shown(explanation, error) for name, error in explanation.error_by_component.items() if error}
    parts = [
        texts("error_part", component=_component(name, texts), error=f"{size:+,.{_decimals(explanation)}f}")
        for name, size in shown.items()
        if size
    ]
    return texts.joined(parts)


def _sentences(row: Row, explanation: Explanation, texts: Texts) -> str:
    why = (
        _why_of_npu(row, explanation, texts)
        if explanation.basis == ACCOUNT
        else _why_of_application(explanation, texts)
    )
    return texts("sentence_separator").join([_claim(row, explanation, texts), *why, _prediction(explanation, texts)])


def _claim(row: Row, explanation: Explanation, texts: Texts) -> str:
    return texts(
        "explained_claim_reached" if explanation.claim_is_reached else "explained_claim",
        scenario=texts.scenario(row.scenario),
        reusing=explanation.reusing,
        contexts=explanation.contexts,
        claim=percent(explanation.naive_percent),
        measured=percent(explanation.percent(explanation.measured_saved)),
    )


def _why_of_npu(row: Row, explanation: Explanation, texts: Texts) -> list[str]:
    """Return what is shared, and what each context still has of its own."""
    parts = [explanation.baseline[name] for name in explanation.shared]
    shared = Figure(sum(part.median for part in parts if part), None)
    values = {"shared": _mib(explanation, shared), "whole": _mib(explanation, explanation.baseline_total)}
    return [texts(_what_is_shared(row, explanation), **values), *_own(explanation, texts)]


def _what_is_shared(row: Row, explanation: Explanation) -> str:
    if any(finding.kind == "not_shared" for finding in findings_of(row)):
        return "explained_not_shared"
    return (
        "explained_shared_all"
        if explanation.shared == COMPONENTS
        else f"explained_shared_{'_'.join(explanation.shared)}"
    )


def _own(explanation: Explanation, texts: Texts) -> list[str]:
    own = {name: size for name, size in explanation.own.items() if size and _shown(explanation, size)}
    if not own:
        return []
    whole = Figure(sum(size.median for size in own.values()), None)
    parts = [texts("error_part", component=_component(name, texts), error=_mib(explanation, own[name])) for name in own]
    return [texts("explained_own", own=_mib(explanation, whole), components=texts.joined(parts))]


def _why_of_application(explanation: Explanation, texts: Texts) -> list[str]:
    """Return what contexts take with and without reuse, and what nothing is shared of."""
    at_once = explanation.measured["at_once"]
    assert at_once is not None
    sizes = {"own": _mib(explanation, explanation.own["reusing"]), "unshared": _mib(explanation, explanation.unshared)}
    sentences = [
        texts("explained_own_application", **sizes),
        texts("explained_import", size=_mib(explanation, explanation.measured["import"])),
    ]
    if _shown(explanation, at_once):
        key = "explained_at_once_more" if at_once.median > 0 else "explained_at_once_less"
        sentences.append(texts(key, size=_mib(explanation, _absolute(at_once))))
    return sentences


def _prediction(explanation: Explanation, texts: Texts) -> str:
    error = explanation.error
    values = {
        "predicted": percent(explanation.percent(explanation.predicted_saved)),
        "percent": percent(_off(explanation)),
    }
    if not _shown(explanation, error):
        return texts("explained_right", error=f"{10 ** -_decimals(explanation):.{_decimals(explanation)}f}", **values)
    spread = (npu_plus_minus if explanation.memory == NPU else plus_minus)(error) if error.spread else ""
    more_or_less = "explained_more" if error.median > 0 else "explained_less"
    key = more_or_less if error.exceeds_spread else "explained_within"
    return texts(key, error=_mib(explanation, _absolute(error)), spread=spread, **values)


def _summary(group: Group, label: str, texts: Texts) -> str | None:
    explained = [(row, explanation) for row in group.rows if (explanation := explain(row))]
    if not explained:
        return None
    row, largest = max(explained, key=lambda pair: _off(pair[1]))
    return texts(
        "prediction_summary",
        runtime=label,
        count=len(explained),
        memory=texts(f"memory_{largest.memory}"),
        median=percent(statistics.median(_off(explanation) for _, explanation in explained)),
        largest=percent(_off(largest)),
        scenario=texts.scenario(row.scenario),
    )


def _off(explanation: Explanation) -> float:
    """Return the prediction error without its sign, in percent of the baseline's memory."""
    return abs(explanation.percent(explanation.error))


def _component(name: str, texts: Texts) -> str:
    """Return a component's name as it stands within a sentence."""
    return texts(f"component_{name}").lower()


def _mib(explanation: Explanation, figure: Figure | None, spread: bool = False) -> str:
    return (npu_mib if explanation.memory == NPU else mib)(figure, spread)


def _decimals(explanation: Explanation) -> int:
    return 2 if explanation.memory == NPU else 1


def _shown(explanation: Explanation, figure: Figure) -> float:
    """Return MiB as rounded for the reader: zero is nothing to speak of."""
    return round(figure.median / MIB, _decimals(explanation))


def _absolute(figure: Figure) -> Figure:
    return Figure(abs(figure.median), figure.spread)
