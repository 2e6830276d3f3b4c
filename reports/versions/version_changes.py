"""The changes from one version to the next: NPU memory, application memory, and outcomes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reusebench.reports.base.statistics import difference
from reusebench.reports.compare.changes import CONFIDENCE
from reusebench.reports.compare.difference import (
    NO_CHANGE,
    TOO_FEW,
    Difference,
    difference_of_means,
)
from reusebench.reports.results.memory_use import context_components, knows_parts_of_commands
from reusebench.reports.results.rows import Row
from reusebench.reports.versions.versions import Version, VersionSet
from reusebench.storage.metrics import find_metric
from reusebench.storage.savings import NPU

#: Application memory above the do-nothing baseline.
APPLICATION = find_metric("application_memory_over_baseline")


@dataclass(frozen=True)
class ComponentChange:
    """A rise, or a fall, of a component in contexts of one mechanism."""

    #: Context.mechanism; None for buffers that were made in no context's step.
    mechanism: str | None
    component: str
    #: The smallest and the largest change, in bytes per context; both have the same sign.
    low: float
    high: float
    #: Whether every context of the mechanism has the change.
    is_of_each: bool
    #: Number of scenarios with the change.
    scenarios: int
    #: Number of scenarios with such contexts.
    of_scenarios: int


@dataclass(frozen=True)
class VersionChange:
    """One version compared with the previous one, over the configurations measured in both."""

    before: Version
    after: Version
    compared: int
    #: Number of configurations with NPU memory.
    npu_compared: int
    #: Changes of their NPU memory in bytes, without zeros.
    npu: tuple[float, ...]
    components: tuple[ComponentChange, ...]
    #: The version that application memory is compared with: the newest earlier one of the same
    #: architecture, which matters most, or `before` if there is none.
    application_before: Version
    #: Difference of application memory above the baseline, per configuration measured in both.
    application: tuple[Difference, ...]
    #: Configurations measured only now: their rows before, which have no figures.
    gained: tuple[Row, ...]
    #: Configurations measured only before: their rows now, which have no figures.
    lost: tuple[Row, ...]
    #: Configurations tried with both versions and measured with neither: the later rows.
    neither: tuple[Row, ...]

    @property
    def shown_application(self) -> list[float]:
        """The changes of application memory that are more than noise, in bytes."""
        return [
            difference.change
            for difference in self.application
            if difference.verdict not in (NO_CHANGE, TOO_FEW)
        ]


@functools.lru_cache(maxsize=32)
def version_changes(versions: VersionSet) -> list[VersionChange]:
    """Return the change from each version to the next; kept, as each language asks for it."""
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
    application_before = _previous_of_architecture(versions, before, after)
    application_pairs = _measured_in_both(versions, application_before, after)
    npu = []
    for old, new in pairs:
        change = difference(new.memory(NPU), old.memory(NPU))
        if change:
            npu.append(change.median)
    return VersionChange(
        before=before,
        after=after,
        compared=len(pairs),
        npu_compared=len(npu),
        npu=tuple(size for size in npu if size),
        components=tuple(_component_changes(pairs)),
        application_before=application_before,
        application=tuple(_application_changes(application_pairs)),
        gained=tuple(gained),
        lost=tuple(lost),
        neither=tuple(neither),
    )


def _measured_in_both(
    versions: VersionSet, before: Version, after: Version
) -> list[tuple[Row, Row]]:
    pairs = []
    for configuration in versions.configurations:
        old = configuration.measured(before)
        new = configuration.measured(after)
        if old and new:
            pairs.append((old, new))
    return pairs


def _previous_of_architecture(versions: VersionSet, before: Version, after: Version) -> Version:
    """Return the newest version before `after` with its architecture, or `before`."""
    earlier = versions.versions[: versions.versions.index(after)]
    for version in reversed(earlier):
        if version.architecture == after.architecture:
            return version
    return before


def _component_changes(pairs: Sequence[tuple[Row, Row]]) -> Iterator[ComponentChange]:
    #: Key: mechanism and component; value: per scenario, the changes of all contexts.
    changes: dict[tuple[str | None, str], list[list[float]]] = {}
    for old, new in pairs:
        for key, sizes in _changes_of_contexts(old, new).items():
            changes.setdefault(key, []).append(sizes)

    for (mechanism, component), scenarios in changes.items():
        for sign in (1, -1):
            matching = [[size for size in sizes if size * sign > 0] for sizes in scenarios]
            sizes = [size for sizes_of_scenario in matching for size in sizes_of_scenario]
            if not sizes:
                continue
            low, high = sorted((min(sizes), max(sizes)), key=abs)
            yield ComponentChange(
                mechanism,
                component,
                low,
                high,
                is_of_each=matching == scenarios,
                scenarios=sum(bool(sizes_of_scenario) for sizes_of_scenario in matching),
                of_scenarios=len(scenarios),
            )


def _changes_of_contexts(old: Row, new: Row) -> dict[tuple[str | None, str], list[float]]:
    """Return the changes of all contexts, by mechanism and component."""
    parts_of_commands = knows_parts_of_commands((old, new))
    after = {}
    for context, name, figure in context_components(new, parts_of_commands):
        after[context, name] = figure
    changes: dict[tuple[str | None, str], list[float]] = {}
    for context, name, figure in context_components(old, parts_of_commands):
        other = after.get((context, name))
        if figure is None or other is None:
            continue
        mechanism = None
        if context is not None:
            mechanism = old.info.plan.contexts[context - 1].mechanism
        changes.setdefault((mechanism, name), []).append(other.median - figure.median)
    return changes


def _application_changes(pairs: Sequence[tuple[Row, Row]]) -> Iterator[Difference]:
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(pairs))
    for old_row, new_row in pairs:
        old = APPLICATION.values(old_row.info)
        new = APPLICATION.values(new_row.info)
        if old and new:
            # Earlier runs are of other versions, with other levels, so there are none.
            yield difference_of_means(APPLICATION, [old], [new], (), confidence)
