"""The terms of a page: each is marked with its meaning, and stands in the glossary."""

from __future__ import annotations

import re
from collections.abc import Mapping

from markupsafe import Markup, escape


class Terms:
    """The terms that a page has used.

    >>> terms = Terms({"PSS": "Pages, each divided by the number of its mappings."})
    >>> terms.named("PSS, MiB")
    Markup('<abbr title="Pages, each divided by the number of its mappings.">PSS</abbr>, MiB')
    """

    def __init__(self, meanings: Mapping[str, str]) -> None:
        """Take the meaning of each term; a title with slashes names several terms."""
        self._meanings = meanings
        self._titles: dict[str, str] = {}
        for title in meanings:
            for form in title.split(" / "):
                self._titles.setdefault(form, title)
        forms = sorted(self._titles, key=len, reverse=True)
        pattern = "|".join(map(re.escape, forms)) or "(?!)"
        # Letters of other scripts have no spaces between words.
        self._pattern = re.compile(rf"(?<![A-Za-z0-9_])({pattern})s?(?![A-Za-z0-9_])")
        self._used: set[str] = set()
        self._marked: set[str] = set()
        self._explained: set[str] = set()

    def begin(self) -> str:
        """Begin a section, in which each term is marked once; the empty text is for a template."""
        self._marked = set()
        return ""

    def explained(self, title: str) -> str:
        """Return the id of a place that explains a term, which the glossary need not have then."""
        self._explained.add(title)
        return _anchor(title)

    def named(self, text: str) -> Markup:
        """Return the text with the meanings of its terms."""
        return self._with_terms(text, is_linked=False)

    def linked(self, text: str) -> Markup:
        """Return the text with the meanings of its terms, and links to the glossary."""
        return self._with_terms(text, is_linked=True)

    @property
    def used(self) -> list[tuple[str, str, str]]:
        """The id, title and meaning of each term that was marked and not explained, by title."""
        titles = sorted(self._used - self._explained, key=str.casefold)
        return [(_anchor(title), title, self._meanings[title]) for title in titles]

    def _with_terms(self, text: str, is_linked: bool) -> Markup:
        parts = []
        end = 0
        for found in self._pattern.finditer(text):
            title = self._titles[found[1]]
            if title in self._marked:
                continue
            self._marked.add(title)
            self._used.add(title)
            parts.append(escape(text[end : found.start()]))
            parts.append(_mark(found[0], title, self._meanings[title], is_linked))
            end = found.end()
        return Markup("").join([*parts, escape(text[end:])])


def _mark(form: str, title: str, meaning: str, is_linked: bool) -> Markup:
    if is_linked:
        link = '<a class="term" href="#{}" title="{}">{}</a>'
        return Markup(link).format(_anchor(title), meaning, form)
    return Markup('<abbr title="{}">{}</abbr>').format(meaning, form)


def _anchor(title: str) -> str:
    return "term-" + re.sub(r"[\W_]+", "-", title.lower()).strip("-")
