"""What changed from one version to the next: NPU memory by component, application memory, and what
can be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.base.statistics import difference
from reusebench.reports.compare.changes import CONFIDENCE
from reusebench.reports.compare.difference import (
    NO_CHANGE,
    TOO_FEW,
    Difference,
    difference_of_means,
)
from reusebench.reports.results.memory_use import context_components
from reusebench.reports.results.rows import Row
from reusebench.reports.results.savings import NPU
from reusebench.reports.versions.versions import Version, VersionSet
from reusebench.storage.metrics import find_metric

#: Above what the process takes without a context.
APPLICATION = find_metric("application_memory_over_baseline")


@dataclass(frozen=True)
class ComponentChange:
    """A component that contexts of one mechanism have more of, or all of them less."""

    #: As in Context.mechanism; None: what was made in no context's step.
    mechanism: str | None
    component: str
    #: The least and the most, in bytes per context; both above zero, or both below.
    low: float
    high: float
    #: Whether every context of the mechanism has it.
    is_of_each: bool
    #: In how many of the scenarios that have such contexts.
    scenarios: int
    of_scenarios: int


@dataclass(frozen=True)
class VersionChange:
    """One version against the one before it, over the configurations that both measured."""

    before: Version
    after: Version
    compared: int
    #: Configurations with NPU memory, and the change of each of them that has one, in bytes.
    npu_compared: int
    npu: tuple[float, ...]
    components: tuple[ComponentChange, ...]
    #: What application memory is compared with: the newest earlier version of the same
    #: architecture, since that decides most of it; else `before`.
    like: Version
    #: Of application memory above the baseline, of each configuration that both measured.
    application: tuple[Difference, ...]
    #: Measured now, and not before; and the other way round: the row without figures.
    gained: tuple[Row, ...]
    lost: tuple[Row, ...]
    #: Tried with both, and measured by neither: the rows of the later.
    neither: tuple[Row, ...]

    @property
    def shown_application(self) -> list[float]:
        """The changes of application memory that are more than noise, in bytes."""
        return [one.change for one in self.application if one.verdict not in (NO_CHANGE, TOO_FEW)]


def version_changes(versions: VersionSet) -> list[VersionChange]:
    """Return the change from each version to the next."""
    return [_change(versions, before, after) for before, after in versions.pairs]


def _change(versions: VersionSet, before: Version, after: Version) -> VersionChange:
    gained = []
    lost = []
    neither = []
    for configuration in versions.configurations:
        old = configuration.measured(before)
        new = configuration.measured(after)
        if new and not old and before in configuration.rows:
            gained.append(configuration.rows[before])
        elif old and not new and after in configuration.rows:
            lost.append(configuration.rows[after])
        elif not old and not new and before in configuration.rows and after in configuration.rows:
            neither.append(configuration.rows[after])
    pairs = _measured_in_both(versions, before, after)
    like = _before_of_architecture(versions, before, after)
    npu = [
        change.median
        for old, new in pairs
        if (change := difference(new.memory(NPU), old.memory(NPU)))
    ]
    return VersionChange(
        before,
        after,
        len(pairs),
        len(npu),
        tuple(change for change in npu if change),
        tuple(_component_changes(pairs)),
        like,
        tuple(_application_changes(_measured_in_both(versions, like, after))),
        tuple(gained),
        tuple(lost),
        tuple(neither),
    )


def _measured_in_both(
    versions: VersionSet, before: Version, after: Version
) -> list[tuple[Row, Row]]:
    pairs = ((one.measured(before), one.measured(after)) for one in versions.configurations)
    return [(old, new) for old, new in pairs if old and new]


def _before_of_architecture(versions: VersionSet, before: Version, after: Version) -> Version:
    """Return the newest version before it that has its architecture; else the one before it."""
    earlier = versions.versions[: versions.versions.index(after)]
    return next(
        (one for one in reversed(earlier) if one.architecture == after.architecture), before
    )


def _component_changes(pairs: Sequence[tuple[Row, Row]]) -> list[ComponentChange]:
    #: By mechanism and component: the changes of all contexts, by scenario.
    changes: dict[tuple[str | None, str], list[list[float]]] = {}
    for old, new in pairs:
        of_row: dict[tuple[str | None, str], list[float]] = {}
        after = {(context, name): figure for context, name, figure in context_components(new)}
        for context, name, figure in context_components(old):
            mechanism = None if context is None else old.info.plan.contexts[context - 1].mechanism
            other = after.get((context, name))
            if figure and other:
                of_row.setdefault((mechanism, name), []).append(other.median - figure.median)
        for key, sizes in of_row.items():
            changes.setdefault(key, []).append(sizes)
    found = []
    for (mechanism, component), scenarios in changes.items():
        for sign in (1, -1):
            matching = [[size for size in sizes if size * sign > 0] for sizes in scenarios]
            sizes = [size for of_scenario in matching for size in of_scenario]
            if not sizes:
                continue
            is_of_each = matching == scenarios
            count = sum(bool(of_scenario) for of_scenario in matching)
            low, high = sorted((min(sizes), max(sizes)), key=abs)
            found.append(
                ComponentChange(mechanism, component, low, high, is_of_each, count, len(scenarios))
            )
    return found


def _application_changes(pairs: Sequence[tuple[Row, Row]]) -> list[Difference]:
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(pairs))
    values = [(APPLICATION.values(old.info), APPLICATION.values(new.info)) for old, new in pairs]
    # Earlier runs are of other versions: they have another level.
    return [
        difference_of_means(APPLICATION, [old], [new], (), confidence)
        for old, new in values
        if old and new
    ]
