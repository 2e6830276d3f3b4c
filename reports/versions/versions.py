"""Versions of a runtime beside each other: the same models and plans on the same target."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from reusebench.measured.runtimes import version_order
from reusebench.reports.results.rows import Group, Row, workload_key
from reusebench.storage.runs import plan_digest

#: Of a digest, which distinguish files of one name.
_DIGITS = 6


@dataclass(frozen=True)
class Version:
    """A runtime's library."""

    #: With its build, where the runtime says it, as in "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)".
    full: str
    #: None in results that are older than this field.
    architecture: str | None
    #: What tables call it: its number, and where another one has that too, its architecture or its
    #: build.
    name: str

    def __str__(self) -> str:
        """Return its name, with the architecture."""
        known = self.architecture and self.architecture not in self.name
        return f"{self.name} ({self.architecture})" if known else self.name


@dataclass(frozen=True, eq=False)
class ComparedConfiguration:
    """Equal models and an equal plan, by the version that they were tried in."""

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

    #: The group of the newest result; all but its version holds for all.
    group: Group
    #: The oldest first; two or more.
    versions: tuple[Version, ...]
    #: In the order of scenarios; each was measured in one of the versions, and tried in another.
    configurations: tuple[ComparedConfiguration, ...]

    @property
    def pairs(self) -> list[tuple[Version, Version]]:
        """Each version with the one before it: (before, after)."""
        return list(zip(self.versions, self.versions[1:]))

    def label(self, version: Version) -> str:
        """Return what a version is called beside the others: with the architecture where that
        differs.
        """
        alike = len({one.architecture for one in self.versions}) == 1
        return version.name if alike else str(version)

    @property
    def measures_npu(self) -> bool:
        """Whether there are figures of NPU memory."""
        return any(
            row.memory("npu_memory_bytes")
            for one in self.configurations
            for row in one.rows.values()
        )

    def names(self, of: ComparedConfiguration) -> tuple[str, str | None]:
        """Return the scenario's name, and where another has it too the models; of equal names with
        a digest.
        """
        row = of.newest
        models = [
            other.newest.models
            for other in self.configurations
            if other.newest.scenario == row.scenario
        ]
        if len(models) == 1:
            return row.scenario, None
        digest = row.info.models[0].digest[:_DIGITS]
        return row.scenario, (
            f"{row.models} {digest}" if models.count(row.models) > 1 else row.models
        )


def versions_of(groups: Iterable[Group]) -> list[VersionSet]:
    """Return the sets of two or more versions that there are among groups, which come newest
    first.
    """
    alike: dict[Hashable, list[Group]] = {}
    for group in groups:
        info = group.info
        if info.runtime_version:
            place = (group.board, info.runtime, info.target, info.chip, info.npu_memory_limit_bytes)
            alike.setdefault(place, []).append(group)
    return [found for members in alike.values() if (found := _version_set(members))]


def _version_set(groups: Sequence[Group]) -> VersionSet | None:
    """Return the set of groups that differ in their versions; None if no two have the same
    models and plans.
    """
    libraries = {(str(group.info.runtime_version), group.info.architecture) for group in groups}
    ordered = sorted(libraries, key=lambda library: (version_order(library[0]), library[1] or ""))
    names = _names(ordered)
    versions = {library: Version(*library, names[library]) for library in ordered}
    # Of a configuration that was measured again the newest result stands.
    newest: dict[Hashable, dict[Version, Row]] = {}
    for group in groups:
        version = versions[str(group.info.runtime_version), group.info.architecture]
        for row in group.all_rows:
            models = tuple(model.digest for model in row.info.models)
            key = (row.scenario, models, plan_digest(row.info.plan), workload_key(row.info))
            newest.setdefault(key, {}).setdefault(version, row)
    configurations = []
    for rows in newest.values():
        # Copies of all versions are compared as what they are copies of.
        are_copies = all(row.original for row in rows.values())
        if len(rows) > 1 and not are_copies and any(row.measured for row in rows.values()):
            configurations.append(
                ComparedConfiguration({one: rows[one] for one in versions.values() if one in rows})
            )
    tried = [
        one
        for one in versions.values()
        if any(one in configuration.rows for configuration in configurations)
    ]
    return VersionSet(groups[0], tuple(tried), tuple(configurations)) if configurations else None


def _names(libraries: Sequence[tuple[str, str | None]]) -> dict[tuple[str, str | None], str]:
    """Return the shortest name of each version that no other has."""
    names = {}
    for version, architecture in libraries:
        number = version.partition(" ")[0]
        same = [other for other in libraries if other[0].partition(" ")[0] == number]
        of_architecture = [other for other in same if other[1] == architecture]
        name = (
            number
            if len(same) == 1
            else f"{number} ({architecture})"
            if len(of_architecture) == 1
            else version
        )
        names[version, architecture] = name
    return names
