"""Sentences on the changes from one version to the next."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence

from reusebench.reports.base.formatting import EMPTY, metric_amount, whole
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Row
from reusebench.reports.versions.version_changes import (
    APPLICATION,
    ComponentChange,
    VersionChange,
    version_changes,
)
from reusebench.reports.versions.versions import VersionSet
from reusebench.storage.metrics import Metric, find_metric

_NPU = find_metric("npu_memory")
#: Limit of scenarios that are named; more are counted.
_MOST_NAMED = 4


def version_sentences(versions: VersionSet, texts: Texts) -> list[str]:
    """Return a paragraph for each version but the first; versions with equal changes share one."""
    changes = [
        (change, texts.sentences(_sentences(change, texts))) for change in version_changes(versions)
    ]
    paragraphs = []
    for words, group in itertools.groupby(changes, key=operator.itemgetter(1)):
        equal_changes = [change for change, _ in group]
        labels = [versions.label(change.after) for change in equal_changes]
        key = "versions_compared" if len(labels) == 1 else "versions_each_compared"
        paragraphs.append(
            texts(
                key,
                before=versions.label(equal_changes[0].before),
                after=texts("versions_separator").join(labels),
                changes=words,
            )
        )
    return paragraphs


def _sentences(change: VersionChange, texts: Texts) -> Iterator[str]:
    compared = change.npu_compared
    if change.npu:
        sizes = _range(min(change.npu), max(change.npu), _NPU)
        yield texts("versions_npu_changed", count=len(change.npu), compared=compared, sizes=sizes)
    elif compared:
        yield texts("versions_npu_same", compared=compared)
    for component in change.components:
        yield _component(component, texts)

    if change.application:
        if change.application_before != change.before:
            yield texts("versions_like", like=change.application_before)
        yield _application(change, texts)
        before = change.application_before.architecture
        after = change.after.architecture
        if before != after:
            yield texts("versions_architecture", before=before or EMPTY, after=after or EMPTY)

    if change.gained:
        yield texts("versions_gained", scenarios=_outcomes(change.gained, texts))
    if change.lost:
        yield texts("versions_lost", scenarios=_outcomes(change.lost, texts))
    if change.neither:
        yield texts("versions_neither", scenarios=_outcomes(change.neither, texts))


def _application(change: VersionChange, texts: Texts) -> str:
    shown = change.shown_application
    compared = len(change.application)
    errors = [difference.error for difference in change.application if difference.error is not None]
    if not errors:
        return texts("versions_application_unknown", compared=compared)
    if not shown:
        smallest = _range(min(errors), max(errors), APPLICATION, sign=False)
        return texts("versions_application_same", compared=compared, smallest=smallest)
    sizes = _range(min(shown), max(shown), APPLICATION)
    return texts("versions_application_changed", count=len(shown), compared=compared, sizes=sizes)


def _component(change: ComponentChange, texts: Texts) -> str:
    mechanism = change.mechanism or "none"
    subject = f"versions_each_{mechanism}" if change.is_of_each else f"versions_some_{mechanism}"
    size = whole(abs(change.low))
    if change.low != change.high:
        size = texts("versions_sizes", low=size, high=whole(abs(change.high)))
    scenarios = ""
    if change.scenarios != change.of_scenarios:
        scenarios = texts("versions_where", count=change.scenarios, all=change.of_scenarios)
    return texts(
        "versions_component_more" if change.low > 0 else "versions_component_less",
        subject=texts(subject),
        size=size,
        component=texts(f"component_{change.component}").lower(),
        where=scenarios,
    )


def _range(low: float, high: float, metric: Metric, sign: bool = True) -> str:
    """Return two amounts of a metric, or one if they are equal."""
    ends = dict.fromkeys(metric_amount(end, metric, sign) for end in (low, high))
    return " .. ".join(ends)


def _outcomes(rows: Sequence[Row], texts: Texts) -> str:
    """Return the scenarios by outcome; the number of them if there are many."""
    by_outcome: dict[str, list[str]] = {}
    for row in rows:
        by_outcome.setdefault(row.outcome, []).append(row.scenario)

    parts = []
    for outcome, scenarios in by_outcome.items():
        if len(scenarios) <= _MOST_NAMED:
            names = texts.scenarios(scenarios)
        else:
            names = texts("versions_scenarios", count=len(scenarios))
        parts.append(
            texts("versions_outcome", outcome=texts(f"outcome_{outcome}"), scenarios=names)
        )
    return texts.joined(parts)
