"""Versions of a runtime to compare: the same models and plans on the same target."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from reusebench.measured.runtimes import version_order
from reusebench.reports.results.rows import Group, Row
from reusebench.storage.result_summary import workload_of
from reusebench.storage.runs import plan_digest

#: Digits of a digest, enough to distinguish files with one name.
_DIGITS = 6


@dataclass(frozen=True)
class Version:
    """A version of a runtime's library."""

    #: The version with its build, if known: "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
    full: str
    #: None in results older than this field.
    architecture: str | None
    #: Name in tables: the number, with architecture or build if another version has that number.
    name: str

    def __str__(self) -> str:
        """Return the name with the architecture."""
        if not self.architecture or self.architecture in self.name:
            return self.name
        return f"{self.name} ({self.architecture})"


@dataclass(frozen=True, eq=False)
class ComparedConfiguration:
    """A configuration of equal models and plans, with a row for each version it was tried in."""

    rows: dict[Version, Row]

    @property
    def newest(self) -> Row:
        """The row of the newest version."""
        return list(self.rows.values())[-1]

    def measured(self, version: Version) -> Row | None:
        """Return the row of the version; None if it has no figures."""
        row = self.rows.get(version)
        return row if row and row.measured else None


@dataclass(frozen=True, eq=False)
class VersionSet:
    """The versions of one runtime on one target of one board."""

    #: The group of the newest result; its facts, except the version, hold for all.
    group: Group
    #: The oldest first; two or more.
    versions: tuple[Version, ...]
    #: Configurations in the order of scenarios, each tried in two versions and measured in one.
    configurations: tuple[ComparedConfiguration, ...]

    @property
    def pairs(self) -> list[tuple[Version, Version]]:
        """Each version with the one before it: (before, after)."""
        return list(zip(self.versions, self.versions[1:]))

    def label(self, version: Version) -> str:
        """Return the name of a version, with its architecture if that differs in the set."""
        architectures = {version.architecture for version in self.versions}
        return version.name if len(architectures) == 1 else str(version)

    @cached_property
    def measures_npu(self) -> bool:
        """Whether there are figures of NPU memory."""
        for configuration in self.configurations:
            for row in configuration.rows.values():
                if row.memory("npu_memory_bytes"):
                    return True
        return False

    def names(self, configuration: ComparedConfiguration) -> tuple[str, str | None]:
        """Return the name of the scenario, and of its models if others share the scenario's name.

        Models with equal names get a digest.
        """
        row = configuration.newest
        models = [
            other.newest.models
            for other in self.configurations
            if other.newest.scenario == row.scenario
        ]
        if len(models) == 1:
            return row.scenario, None
        if models.count(row.models) == 1:
            return row.scenario, row.models
        return row.scenario, f"{row.models} {row.info.models[0].digest[:_DIGITS]}"


def versions_of(groups: Iterable[Group]) -> list[VersionSet]:
    """Return the sets of two or more versions among the groups, which come newest first."""
    comparable: dict[Hashable, list[Group]] = {}
    for group in groups:
        info = group.info
        if info.runtime_version:
            place = (group.board, info.runtime, info.target, info.chip, info.npu_memory_limit_bytes)
            comparable.setdefault(place, []).append(group)
    sets = [_version_set(members) for members in comparable.values()]
    return [versions for versions in sets if versions]


def _version_set(groups: Sequence[Group]) -> VersionSet | None:
    """Return the set of these groups; None if no two versions have the same models and plans."""
    libraries = {(str(group.info.runtime_version), group.info.architecture) for group in groups}
    ordered = sorted(libraries, key=lambda library: (version_order(library[0]), library[1] or ""))
    names = _names(ordered)
    versions = {library: Version(*library, names[library]) for library in ordered}

    # The newest result of a configuration in a version counts.
    newest: dict[Hashable, dict[Version, Row]] = {}
    for group in groups:
        version = versions[str(group.info.runtime_version), group.info.architecture]
        for row in group.all_rows:
            models = tuple(model.digest for model in row.info.models)
            key = (row.scenario, models, plan_digest(row.info.plan), workload_of(row.info))
            newest.setdefault(key, {}).setdefault(version, row)

    configurations = []
    tried: set[Version] = set()
    for rows in newest.values():
        # A copy in all versions is left out: its original has the same figures.
        are_copies = all(row.original for row in rows.values())
        if len(rows) > 1 and not are_copies and any(row.measured for row in rows.values()):
            ordered_rows = {
                version: rows[version] for version in versions.values() if version in rows
            }
            configurations.append(ComparedConfiguration(ordered_rows))
            tried.update(rows)
    if not configurations:
        return None
    return VersionSet(
        groups[0],
        tuple(version for version in versions.values() if version in tried),
        tuple(configurations),
    )


def _names(libraries: Sequence[tuple[str, str | None]]) -> dict[tuple[str, str | None], str]:
    """Return the shortest unique name of each version."""
    names = {}
    for version, architecture in libraries:
        number = version.partition(" ")[0]
        same_number = [other for other in libraries if other[0].partition(" ")[0] == number]
        same_architecture = [other for other in same_number if other[1] == architecture]
        name = version
        if len(same_number) == 1:
            name = number
        elif len(same_architecture) == 1:
            name = f"{number} ({architecture})"
        names[version, architecture] = name
    return names
