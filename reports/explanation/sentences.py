"""The explanation in sentences: why the claim is not reached, and how good the prediction is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import MIB, mib, mib_decimals, mib_spread, percent
from reusebench.reports.base.statistics import Figure, total
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explanation import ACCOUNT, Explanation, explain
from reusebench.reports.results.memory_use import findings_of
from reusebench.reports.results.rows import Row

#: The components of memory that a runtime reports for contexts on a CPU. Key: the name in its
#: accounts. The component of all other names is "other".
_RUNTIME_COMPONENTS = {
    "weights_bytes": "weights",
    "internal_bytes": "internal",
    "input_bytes": "io",
    "output_bytes": "io",
}


def explanation_sentences(rows: Iterable[Row], texts: Texts) -> list[str]:
    """Return a paragraph for each scenario with a claim; what they have in common is said once."""
    paragraphs = []
    said: set[str] = set()
    for row in rows:
        explanation = explain(row)
        if explanation and explanation.reusing:
            common = _common_sentences(explanation, texts)
            new = [sentence for sentence in common if sentence not in said]
            said.update(common)
            paragraphs.append(_paragraph(row, explanation, new, texts))
    return paragraphs


def _common_sentences(explanation: Explanation, texts: Texts) -> list[str]:
    """Return the claim, and the memory of the runtime's import if contexts run on a CPU."""
    claim = texts(
        "explained_claim_reached" if explanation.claim_is_reached else "explained_claim",
        reusing=explanation.reusing,
        contexts=explanation.contexts,
        claim=percent(explanation.naive_percent),
    )
    if explanation.basis == ACCOUNT:
        return [claim]
    imported = explanation.measured.sizes["import"]
    return [claim, texts("explained_import", size=mib(imported, spread=False))]


def _paragraph(
    row: Row,
    explanation: Explanation,
    common: Iterable[str],
    texts: Texts,
) -> str:
    saving = texts(
        "explained_saving",
        scenario=texts.scenario(row.scenario),
        measured=percent(explanation.percent(explanation.measured_saved)),
    )
    if explanation.basis == ACCOUNT:
        reasons = _npu_reasons(row, explanation, texts)
    else:
        reasons = _application_reasons(row, explanation, texts)
    return texts.sentences([saving, *common, *reasons, _prediction(explanation, texts)])


def _npu_reasons(row: Row, explanation: Explanation, texts: Texts) -> list[str]:
    """Return the NPU memory that is shared, and the memory that each context has to itself."""
    if any(finding.kind == "not_shared" for finding in findings_of(row)):
        key = "explained_not_shared"
    elif explanation.shared == COMPONENTS:
        key = "explained_shared_all"
    else:
        key = f"explained_shared_{'_'.join(explanation.shared)}"
    shared = total(explanation.baseline.sizes[name] for name in explanation.shared)
    whole = mib(explanation.baseline.total, npu=True, spread=False)
    sentences = [texts(key, shared=mib(shared, npu=True, spread=False), whole=whole)]

    own = {}
    for name, size in explanation.own.items():
        if size and _rounded_mib(size, is_npu=True):
            own[name] = size
    if own:
        sum_of_own = mib(total(own.values()), npu=True, spread=False)
        components = _listed_components(own, texts, is_npu=True, spread=False)
        sentences.append(texts("explained_own", own=sum_of_own, components=components))
    return sentences


def _application_reasons(row: Row, explanation: Explanation, texts: Texts) -> list[str]:
    """Return the memory of contexts with and without reuse, of the rest, and its known parts."""
    sizes = explanation.measured.sizes
    sentences = [
        texts(
            "explained_own_application",
            own=mib(explanation.own["reusing"], spread=False),
            unshared=mib(explanation.unshared, spread=False),
        ),
    ]
    at_once = sizes["at_once"]
    assert at_once is not None
    if _rounded_mib(at_once, is_npu=False):
        key = "explained_at_once_more" if at_once.median > 0 else "explained_at_once_less"
        sentences.append(texts(key, size=mib(abs(at_once), spread=False)))

    named = _reported_sizes(row)
    if named:
        components = _listed_components(named, texts, is_npu=False, spread=True)
        sentences.append(texts("explained_named", components=components))
    return sentences


def _reported_sizes(row: Row) -> dict[str, Figure]:
    """Return the sizes by component that the runtime reports, and the application's own buffers."""
    sizes: dict[str, int] = {}
    for account in row.info.runtime_accounts:
        for name, size_bytes in account.items():
            component = _RUNTIME_COMPONENTS.get(name, "other")
            sizes[component] = sizes.get(component, 0) + size_bytes

    figures = {component: Figure(size_bytes) for component, size_bytes in sizes.items()}
    return {
        component: figure
        for component, figure in figures.items()
        if _rounded_mib(figure, is_npu=False)
    }


def _listed_components(
    sizes: Mapping[str, Figure],
    texts: Texts,
    is_npu: bool,
    spread: bool,
) -> str:
    parts = []
    for name, size in sizes.items():
        shown = mib(size, is_npu, spread)
        parts.append(texts("error_part", component=_component_name(name, texts), error=shown))
    return texts.joined(parts)


def _prediction(explanation: Explanation, texts: Texts) -> str:
    """Return the prediction and its error."""
    error = explanation.error
    is_npu = explanation.measured.is_npu
    predicted = percent(explanation.percent(explanation.predicted_saved))
    if not _rounded_mib(error, is_npu):
        decimals = mib_decimals(is_npu)
        least = f"{10**-decimals:.{decimals}f}"
        return texts("explained_right", predicted=predicted, error=least)

    if not error.exceeds_spread:
        key = "explained_within"
    elif error.median > 0:
        key = "explained_more"
    else:
        key = "explained_less"
    return texts(
        key,
        predicted=predicted,
        error=mib(abs(error), is_npu, spread=False),
        spread=mib_spread(error, is_npu) if error.spread else "",
        percent=percent(_error_percent(explanation)),
    )


def _error_percent(explanation: Explanation) -> float:
    """Return the prediction error without its sign, in percent of the baseline's memory."""
    return abs(explanation.percent(explanation.error).median)


def _component_name(name: str, texts: Texts) -> str:
    """Return a component's name as it is written within a sentence."""
    return texts(f"component_{name}").lower()


def _rounded_mib(figure: Figure, is_npu: bool) -> float:
    """Return MiB as rounded for the reader: zero is not worth mentioning."""
    return round(figure.median / MIB, mib_decimals(is_npu))
