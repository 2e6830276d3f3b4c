"""The figure of versions: the memory of each configuration by version and component."""

from __future__ import annotations

from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explained_memory import ExplainedMemory
from reusebench.reports.explanation.explanation import measured_memory
from reusebench.reports.explanation.lanes import MOST_LANES, memory_lanes
from reusebench.reports.versions.table import configuration_name
from reusebench.reports.versions.versions import ComparedConfiguration, Version, VersionSet


def versions_figure(versions: VersionSet, texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the memory of configurations by version, one above the other; None without figures.

    Variants of another scenario are left out. If there are too many configurations, those whose
    memory changed are drawn.
    """
    memories = {}
    for configuration in versions.configurations:
        measured = _memories(configuration, versions)
        if measured:
            memories[configuration] = measured
    shown = _most_telling(memories)
    if not shown:
        return None

    lanes = []
    for configuration in shown:
        by_version = {version.name: memory for version, memory in memories[configuration].items()}
        lanes.append((configuration_name(versions, configuration, texts), by_version))
    return memory_lanes(lanes, versions.measures_npu, texts, paper)


def _memories(
    configuration: ComparedConfiguration, versions: VersionSet
) -> dict[Version, ExplainedMemory]:
    """Return the memory by version: NPU memory if the set has any, otherwise application memory."""
    memories = {}
    for version in versions.versions:
        row = configuration.measured(version)
        memory = measured_memory(row) if row else None
        if memory and memory.is_npu == versions.measures_npu:
            memories[version] = memory
    return memories


def _most_telling(
    memories: dict[ComparedConfiguration, dict[Version, ExplainedMemory]],
) -> list[ComparedConfiguration]:
    """Return the configurations to draw, in their order."""
    own = [configuration for configuration in memories if not configuration.newest.is_variant]
    changed: list[ComparedConfiguration] = []
    equal: list[ComparedConfiguration] = []
    for configuration in own:
        totals = {memory.total.median for memory in memories[configuration].values()}
        (changed if len(totals) > 1 else equal).append(configuration)

    shown: list[ComparedConfiguration] = []
    lanes = 0
    for configuration in (*changed, *equal):
        lanes += len(memories[configuration])
        if shown and lanes > MOST_LANES:
            break
        shown.append(configuration)
    return [configuration for configuration in own if configuration in shown]
