"""The interface of a section of the page, and the page that sections are made for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.texts import Texts
from reusebench.reports.material import Material
from reusebench.reports.results.labels import group_id, labels_of
from reusebench.reports.results.rows import Group, Row

#: The variables of a section's template, by name.
Values = Mapping[str, Any]
#: Above this number of groups each section folds them, so that a reader does not lose the place.
_MOST_OPEN = 3


@dataclass(frozen=True)
class Page:
    """A report's material in one language."""

    material: Material
    texts: Texts

    @cached_property
    def groups(self) -> list[Group]:
        """The groups that the page shows, scenarios before plans."""
        return self.material.shown

    @cached_property
    def labels(self) -> list[str]:
        """The label of each group."""
        return labels_of(self.groups, self.texts)

    @property
    def group_ids(self) -> list[str]:
        """The element id of each group."""
        return [group_id(number) for number in range(len(self.groups))]

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        rows: list[Row] = []
        for group in self.groups:
            rows += group.rows
        return rows

    @property
    def is_folded(self) -> bool:
        """Whether sections show their groups folded."""
        return len(self.groups) > _MOST_OPEN


class Section(ABC):
    """One section of the page."""

    #: Element id of the section, and the name of its template and of its title's text.
    name: str
    #: Whether the page shows it folded, below its title and its summary.
    is_folded = True
    #: Whether a page without groups lacks the section.
    needs_groups = True

    @property
    def template(self) -> str:
        """The template's path below templates/."""
        return f"sections/{self.name}.html.j2"

    def title(self, texts: Texts) -> str:
        """Return the heading of the section."""
        return texts(f"section_{self.name}")

    def applies(self, page: Page) -> bool:
        """Whether the page has this section."""
        return bool(page.groups) or not self.needs_groups

    @abstractmethod
    def values(self, page: Page) -> Values:
        """Return the variables of the template."""

    def summary(self, page: Page) -> str:  # noqa: ARG002  what is not folded has none
        """Return the answer of the section in one line."""
        return ""

    def is_empty(self, values: Values) -> bool:  # noqa: ARG002  most are never empty
        """Whether there is nothing to show in these variables of the template."""
        return False

    def figures(self, page: Page) -> dict[str, Draw]:  # noqa: ARG002  most sections have none
        """Return the section's figures, by the name that the template shows them under."""
        return {}


@dataclass(frozen=True)
class GroupView:
    """A group of a page, and its rows that a section is about."""

    page: Page
    group: Group
    rows: Sequence[Row]

    @property
    def texts(self) -> Texts:
        """The words of the page."""
        return self.page.texts


class GroupSection(Section):
    """A section with one part for each group."""

    def rows(self, group: Group) -> Sequence[Row]:
        """Return the group's rows that the section is about; if there are none it has no part."""
        return group.rows

    @abstractmethod
    def part(self, view: GroupView) -> Values | None:
        """Return the template's variables of one group; None if the group has no part."""

    def part_summary(self, view: GroupView) -> str | None:  # noqa: ARG002  see summary
        """Return the answer of one group in a few words; None if it has none."""
        return None

    def part_figures(self, view: GroupView) -> dict[str, Draw]:  # noqa: ARG002  many have none
        """Return the figures of one group; the template puts `GROUP_ID-` before their names."""
        return {}

    def values(self, page: Page) -> Values:
        """Return the parts of all groups, each with the group's id and label."""
        labels = dict(zip(page.group_ids, page.labels))
        parts = []
        for element_id, view in self._views(page):
            part = self.part(view)
            if part is not None:
                parts.append({"group": element_id, "label": labels[element_id], **part})
        return {"parts": parts}

    def is_empty(self, values: Values) -> bool:
        """Whether no group has a part."""
        return not values["parts"]

    def summary(self, page: Page) -> str:
        """Return the answers of all groups, each after its label if there are several."""
        labels = dict(zip(page.group_ids, page.labels))
        parts = []
        for element_id, view in self._views(page):
            words = self.part_summary(view)
            if words and len(page.groups) > 1:
                # A full stop would stand before the separator of the next group's words.
                words = words.rstrip(".。")
                words = page.texts("of_group", group=labels[element_id], words=words)
            if words:
                parts.append(words)
        return page.texts.joined(parts)

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figures of groups that have any, each name with the group's id before it."""
        figures = {}
        for element_id, view in self._views(page):
            if view.group not in page.material.drawn:
                continue
            for name, draw in self.part_figures(view).items():
                figures[f"{element_id}-{name}"] = draw
        return figures

    def _views(self, page: Page) -> Iterator[tuple[str, GroupView]]:
        for element_id, group in zip(page.group_ids, page.groups):
            rows = self.rows(group)
            if rows:
                yield element_id, GroupView(page, group, rows)
