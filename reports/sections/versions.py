"""Versions of one runtime that have measured the same."""

from __future__ import annotations

from functools import partial

from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.versions.figure import versions_figure
from reusebench.reports.versions.sentences import version_sentences
from reusebench.reports.versions.table import VERSION_METRICS, component_table, version_table
from reusebench.reports.versions.versions import VersionSet


class VersionsSection(Section):
    """Changes from version to version, for each runtime and target."""

    name = "versions"

    def applies(self, page: Page) -> bool:
        """Whether the page shows groups, and two versions have measured the same."""
        return bool(page.groups and page.material.versions)

    def summary(self, page: Page) -> str:
        """Return the versions that are compared."""
        return page.texts.joined(_label(one, page.texts) for one in page.material.shown_versions)

    def values(self, page: Page) -> Values:
        """Return a part for each set of versions."""
        parts = []
        for number, versions in enumerate(page.material.shown_versions):
            part = {
                "label": _label(versions, page.texts),
                "sentences": version_sentences(versions, page.texts),
                "figure": f"versions-{number}",
                "tables": _tables(versions, page.texts),
                "components": component_table(versions, page.texts),
            }
            parts.append(part)
        return {"parts": parts, "left_out": len(page.material.versions) - len(parts)}

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return a figure for each set of versions."""
        return {
            f"versions-{number}": partial(versions_figure, versions, page.texts)
            for number, versions in enumerate(page.material.drawn_versions)
        }


def _label(versions: VersionSet, texts: Texts) -> str:
    info = versions.group.info
    return texts(
        "versions_label",
        runtime=texts.runtime(info.runtime),
        target=info.target,
        versions=texts.joined(map(str, versions.versions)),
    )


def _tables(versions: VersionSet, texts: Texts) -> list[tuple[str, Table]]:
    """Return (title, table) of each metric that any version has."""
    tables = []
    for metric in VERSION_METRICS:
        table = version_table(versions, metric, texts)
        if table:
            tables.append((texts(f"versions_{metric.name}"), table))
    return tables
