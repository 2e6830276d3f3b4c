"""The explanation in words: a table of claim, prediction and measurement, and why the claim is not reached."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from accounting.sizes import COMPONENTS
from reports.base.format import mib, npu_mib, npu_plus_minus, percent, plus_minus
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.explanation.explanation import ACCOUNT, NPU, Explanation, explain
from reports.results.labels import labels
from reports.results.rows import Group, Row
from reports.sections.sharing import findings_of

__all__ = ["explanation_sentences", "explanation_table", "prediction_summary"]

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
    found = [(row, explanation) for row in rows if (explanation := explain(row))]
    if not found:
        return None
    return Table([texts(head) for head in _HEADS], [(row.outcome, _cells(row, each, texts)) for row, each in found])


def explanation_sentences(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return for each scenario that something is claimed of why it is not reached, and how good the prediction is."""
    found = ((row, explain(row)) for row in rows)
    return [_sentences(row, each, texts) for row, each in found if each and each.reusing]


def prediction_summary(groups: Sequence[Group], texts: Texts) -> list[str]:
    """Return a sentence for each group with predictions: how far they are off."""
    sentences = (_summary(group, label, texts) for group, label in zip(groups, labels(groups, texts)))
    return [sentence for sentence in sentences if sentence]


def _cells(row: Row, found: Explanation, texts: Texts) -> list[Cell]:
    return [
        Cell(texts.scenario(row.scenario), False),
        Cell(percent(found.naive_percent)),
        Cell(_mib(found, found.predicted_saved)),
        Cell(percent(found.percent(found.predicted_saved))),
        Cell(_mib(found, found.measured_saved, spread=True)),
        Cell(percent(found.percent(found.measured_saved))),
        Cell(_mib(found, found.error, spread=True)),
        Cell(percent(found.percent(found.error))),
        Cell(_errors(found, texts), False),
        Cell(texts(f"basis_{found.basis}"), False),
    ]


def _errors(found: Explanation, texts: Texts) -> str:
    """Return the components whose error is not nothing, each with its sign."""
    shown = {name: _shown(found, error) for name, error in found.error_by_component.items() if error}
    parts = [
        texts("error_part", component=_component(name, texts), error=f"{size:+,.{_decimals(found)}f}")
        for name, size in shown.items()
        if size
    ]
    return texts.joined(parts)


def _sentences(row: Row, found: Explanation, texts: Texts) -> str:
    why = _why_of_npu(row, found, texts) if found.basis == ACCOUNT else _why_of_application(found, texts)
    return texts("sentence_separator").join([_claim(row, found, texts), *why, _prediction(found, texts)])


def _claim(row: Row, found: Explanation, texts: Texts) -> str:
    return texts(
        "explained_claim_reached" if found.claim_is_reached else "explained_claim",
        scenario=texts.scenario(row.scenario),
        reusing=found.reusing,
        contexts=found.contexts,
        claim=percent(found.naive_percent),
        measured=percent(found.percent(found.measured_saved)),
    )


def _why_of_npu(row: Row, found: Explanation, texts: Texts) -> list[str]:
    """Return what is shared, and what each context still has of its own."""
    parts = [found.baseline[name] for name in found.shared]
    shared = Figure(sum(part.median for part in parts if part), None)
    values = {"shared": _mib(found, shared), "whole": _mib(found, found.baseline_total)}
    return [texts(_what_is_shared(row, found), **values), *_own(found, texts)]


def _what_is_shared(row: Row, found: Explanation) -> str:
    if any(finding.kind == "not_shared" for finding in findings_of(row)):
        return "explained_not_shared"
    return "explained_shared_all" if found.shared == COMPONENTS else f"explained_shared_{'_'.join(found.shared)}"


def _own(found: Explanation, texts: Texts) -> list[str]:
    own = {name: size for name, size in found.own.items() if size and _shown(found, size)}
    if not own:
        return []
    whole = Figure(sum(size.median for size in own.values()), None)
    parts = [texts("error_part", component=_component(name, texts), error=_mib(found, own[name])) for name in own]
    return [texts("explained_own", own=_mib(found, whole), components=texts.joined(parts))]


def _why_of_application(found: Explanation, texts: Texts) -> list[str]:
    """Return what contexts take with and without reuse, and what nothing is shared of."""
    at_once = found.measured["at_once"]
    assert at_once is not None
    sizes = {"own": _mib(found, found.own["reusing"]), "unshared": _mib(found, found.unshared)}
    sentences = [
        texts("explained_own_application", **sizes),
        texts("explained_import", size=_mib(found, found.measured["import"])),
    ]
    if _shown(found, at_once):
        key = "explained_at_once_more" if at_once.median > 0 else "explained_at_once_less"
        sentences.append(texts(key, size=_mib(found, _absolute(at_once))))
    return sentences


def _prediction(found: Explanation, texts: Texts) -> str:
    error = found.error
    values = {"predicted": percent(found.percent(found.predicted_saved)), "percent": percent(_off(found))}
    if not _shown(found, error):
        return texts("explained_right", error=f"{10 ** -_decimals(found):.{_decimals(found)}f}", **values)
    spread = (npu_plus_minus if found.memory == NPU else plus_minus)(error) if error.spread else ""
    more_or_less = "explained_more" if error.median > 0 else "explained_less"
    key = more_or_less if error.exceeds_spread else "explained_within"
    return texts(key, error=_mib(found, _absolute(error)), spread=spread, **values)


def _summary(group: Group, label: str, texts: Texts) -> str | None:
    found = [(row, explanation) for row in group.rows if (explanation := explain(row))]
    if not found:
        return None
    row, largest = max(found, key=lambda pair: _off(pair[1]))
    return texts(
        "prediction_summary",
        runtime=label,
        count=len(found),
        memory=texts(f"memory_{largest.memory}"),
        median=percent(statistics.median(_off(each) for _, each in found)),
        largest=percent(_off(largest)),
        scenario=texts.scenario(row.scenario),
    )


def _off(found: Explanation) -> float:
    """Return the prediction error without its sign, in percent of the baseline's memory."""
    return abs(found.percent(found.error))


def _component(name: str, texts: Texts) -> str:
    """Return a component's name as it stands within a sentence."""
    return texts(f"component_{name}").lower()


def _mib(found: Explanation, figure: Figure | None, spread: bool = False) -> str:
    return (npu_mib if found.memory == NPU else mib)(figure, spread)


def _decimals(found: Explanation) -> int:
    return 2 if found.memory == NPU else 1


def _shown(found: Explanation, figure: Figure) -> float:
    """Return MiB as rounded for the reader: zero is nothing to speak of."""
    return round(figure.median / MIB, _decimals(found))


def _absolute(figure: Figure) -> Figure:
    return Figure(abs(figure.median), figure.spread)
