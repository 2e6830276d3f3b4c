"""The ids of the places of a page, which links lead to: alike in all languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["Anchors", "group_anchors"]


class Anchors:
    """The ids of one page: a section's name, then a group, then what the place shows.

    >>> anchors = Anchors({"g0": "ncnn-1-0-python"})
    >>> anchors.section("dup"), anchors.part("g0"), anchors.of("g0-contexts")
    ('dup', 'dup-ncnn-1-0-python', 'dup-ncnn-1-0-python-contexts')
    """

    def __init__(self, groups: Mapping[str, str]) -> None:
        """Take the name of each group in ids, by its element id."""
        self._groups = groups
        #: The ids of the section and of the part in it, which all ids inside begin with.
        self._inside: list[str] = []
        self._counts: Counter[str] = Counter()

    def section(self, name: str) -> str:
        """Begin a section, and return its id."""
        self._inside = [name]
        return name

    def part(self, group: str, name: str = "") -> str:
        """Begin what the section says of a group, and return the id; `end_part` ends it."""
        anchor = self.of(f"{name}-{self._groups[group]}")
        self._inside.append(anchor)
        return anchor

    def of_part(self, section: str, group: str) -> str:
        """Return the id of the part of a group in another section."""
        return _slug(f"{section}-{self._groups[group]}")

    def end_part(self) -> str:
        """End the part; the empty text is for a template."""
        self._inside.pop()
        return ""

    def of(self, name: str) -> str:
        """Return the id of a place; the second of the same name ends in 2.

        The element id of a group at the front of the name is left out: the part has it.
        """
        front, dash, rest = name.partition("-")
        if dash and front in self._groups:
            name = rest
        anchor = _slug("-".join([*self._inside[-1:], name]))
        self._counts[anchor] += 1
        count = self._counts[anchor]
        return anchor if count == 1 else f"{anchor}-{count}"


def group_anchors(labels: Sequence[str]) -> list[str]:
    """Return a different name in ids for each group, from its English label."""
    names = []
    counts: Counter[str] = Counter()
    for label in labels:
        name = _slug(label)
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name}-{counts[name]}")
    return names


def _slug(words: str) -> str:
    return re.sub("[^a-z0-9_]+", "-", words.lower()).strip("-")
