"""The terms that the page uses."""

from __future__ import annotations

from reusebench.reports.base.terms import Term
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.sessions import has_conversations
from reusebench.reports.sections.section import Page, Section, Values

__all__ = ["GlossarySection", "glossary", "terms_of"]

#: Words that the page marks; the others are too common to be marked wherever they stand.
_ON_PAGE = (
    "context",
    "stream",
    "layout",
    "dup",
    "baseline",
    "in_turn",
    "chain",
    "barrier",
    "ledger",
    "virtual_board",
    "delegate",
    "partition",
    "crossing",
    "rss",
    "pss",
)


class GlossarySection(Section):
    """The terms of the page, each with its meaning; the page's template knows them."""

    name = "glossary"
    is_folded = False

    def values(self, page: Page) -> Values:  # noqa: ARG002  the template has them
        """Return nothing: which terms are used is known when all else has been written."""
        return {}


def glossary(texts: Texts) -> dict[str, tuple[str, str]]:
    """Return (word, meaning) of every word; docs/reference/glossary.md has more. Key: its name."""
    meanings = {}
    for name, meaning in texts.starting_with("meaning_of_").items():
        meanings[name] = (texts(f"word_{name}"), meaning)
    return meanings


def terms_of(page: Page) -> dict[str, Term]:
    """Return each term that the page may mark, by title: words, figures and scenarios.

    Figures of streams, leaks and recorded programs are marked if the page has any.
    """
    texts = page.texts
    words = glossary(texts)
    terms = {}
    for name in _ON_PAGE:
        word, meaning = words[name]
        terms[word] = Term(f"word_{name}", meaning)
    kinds = {
        "program_": bool(page.material.programs) and not page.groups,
        "": True,
        "session_": any(has_conversations(row) for row in page.rows),
        "stream_": any(row.schedule for row in page.rows),
        "leak_": any(row.info.cycles for row in page.rows),
    }
    for kind in [kind for kind, is_used in kinds.items() if is_used]:
        for key, definition in texts.starting_with(f"{kind}define_").items():
            terms.setdefault(texts(f"{kind}term_{key}"), Term(f"{kind}figure_{key}", definition))
    shown = {row.scenario for row in page.rows}
    for name, meaning in texts.starting_with("about_").items():
        # The answer explains a layout that scenarios of streams have too.
        if name in shown and name.replace("streams_", "") not in shown - {name}:
            terms.setdefault(texts.scenario(name), Term(name, meaning))
    for name in {row.scenario for row in page.rows if row.stored_scenario.plan_without_reuse}:
        terms[texts.scenario(name)] = Term(name, texts("about_plan_without_reuse"))
    return terms
