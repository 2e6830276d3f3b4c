"""The terms of a page: each is marked with its meaning, and stands in the glossary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True)
class Term:
    """A term of a page."""

    #: The same in all languages.
    name: str
    meaning: str

    @property
    def id(self) -> str:
        """The id of the place that explains the term."""
        return "term-" + re.sub(r"[\W_]+", "-", self.name.lower()).strip("-")


class Terms:
    """The terms that a page has used.

    >>> terms = Terms({"PSS": Term("pss", "Pages, each divided by the number of its mappings.")})
    >>> terms.named("PSS, MiB")
    Markup('<abbr title="Pages, each divided by the number of its mappings.">PSS</abbr>, MiB')
    """

    def __init__(self, terms: Mapping[str, Term]) -> None:
        """Take the term of each title; a title has forms between slashes, and a remark."""
        self._terms = terms
        self._titles: dict[str, str] = {}
        for title in terms:
            for form in title.split(" / "):
                self._titles.setdefault(form.partition("（")[0], title)  # noqa: RUF001
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

    def explained(self, title: str, term: Term) -> str:
        """Return the id of a place that explains a term, which the glossary need not have then."""
        self._explained.add(title)
        return term.id

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
        return [(self._terms[title].id, title, self._terms[title].meaning) for title in titles]

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
            parts.append(_mark(found[0], self._terms[title], is_linked))
            end = found.end()
        return Markup("").join([*parts, escape(text[end:])])


def _mark(form: str, term: Term, is_linked: bool) -> Markup:
    if is_linked:
        link = '<a class="term" href="#{}" title="{}">{}</a>'
        return Markup(link).format(term.id, term.meaning, form)
    return Markup('<abbr title="{}">{}</abbr>').format(term.meaning, form)
