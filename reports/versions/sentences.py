"""What changed from one version to the next, in words."""

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
#: Scenarios beyond so many are counted.
_MOST_NAMED = 4


def version_sentences(versions: VersionSet, texts: Texts) -> list[str]:
    """Return what each version but the first takes more or less than the one before it; equal
    changes at once.
    """
    changes = [
        (change, texts.sentences(_sentences(change, texts))) for change in version_changes(versions)
    ]
    paragraphs = []
    for words, alike in itertools.groupby(changes, key=operator.itemgetter(1)):
        of_versions = [change for change, _ in alike]
        after = texts("versions_separator").join(
            versions.label(change.after) for change in of_versions
        )
        key = "versions_compared" if len(of_versions) == 1 else "versions_each_compared"
        paragraphs.append(
            texts(key, before=versions.label(of_versions[0].before), after=after, changes=words)
        )
    return paragraphs


def _sentences(change: VersionChange, texts: Texts) -> Iterator[str]:
    if change.npu_compared:
        if change.npu:
            sizes = _range(min(change.npu), max(change.npu), _NPU)
            count = len(change.npu)
            yield texts(
                "versions_npu_changed", count=count, compared=change.npu_compared, sizes=sizes
            )
        else:
            yield texts("versions_npu_same", compared=change.npu_compared)
    yield from (_component(one, texts) for one in change.components)
    if change.application:
        if change.like != change.before:
            yield texts("versions_like", like=change.like)
        yield _application(change, texts)
        if change.like.architecture != change.after.architecture:
            names = (change.like.architecture or EMPTY, change.after.architecture or EMPTY)
            yield texts("versions_architecture", before=names[0], after=names[1])
    for key, rows in (
        ("gained", change.gained),
        ("lost", change.lost),
        ("neither", change.neither),
    ):
        if rows:
            yield texts(f"versions_{key}", scenarios=_outcomes(rows, texts))


def _application(change: VersionChange, texts: Texts) -> str:
    shown = change.shown_application
    compared = len(change.application)
    errors = [one.error for one in change.application if one.error is not None]
    if not errors:
        return texts("versions_application_unknown", compared=compared)
    if not shown:
        smallest = _range(min(errors), max(errors), APPLICATION, sign=False)
        return texts("versions_application_same", compared=compared, smallest=smallest)
    sizes = _range(min(shown), max(shown), APPLICATION)
    return texts("versions_application_changed", count=len(shown), compared=compared, sizes=sizes)


def _component(change: ComponentChange, texts: Texts) -> str:
    mechanism = change.mechanism or "none"
    size = whole(abs(change.low))
    if change.low != change.high:
        size = texts("versions_sizes", low=size, high=whole(abs(change.high)))
    where = texts("versions_where", count=change.scenarios, all=change.of_scenarios)
    return texts(
        f"versions_component_{'more' if change.low > 0 else 'less'}",
        subject=texts(f"versions_{'each' if change.is_of_each else 'some'}_{mechanism}"),
        size=size,
        component=texts(f"component_{change.component}").lower(),
        where="" if change.scenarios == change.of_scenarios else where,
    )


def _range(low: float, high: float, metric: Metric, sign: bool = True) -> str:
    """Return two amounts of a metric, one where they are equal."""
    ends = dict.fromkeys(metric_amount(end, metric, sign) for end in (low, high))
    return " .. ".join(ends)


def _outcomes(rows: Sequence[Row], texts: Texts) -> str:
    """Return scenarios by what came of them where they have no figures; where there are many, how
    many.
    """
    by_outcome: dict[str, list[str]] = {}
    for row in rows:
        by_outcome.setdefault(row.outcome, []).append(row.scenario)
    parts = []
    for outcome, scenarios in by_outcome.items():
        count = len(scenarios)
        names = (
            texts.scenarios(scenarios)
            if count <= _MOST_NAMED
            else texts("versions_scenarios", count=count)
        )
        parts.append(
            texts("versions_outcome", outcome=texts(f"outcome_{outcome}"), scenarios=names)
        )
    return texts.joined(parts)
