"""The list of sections: each can be found, and each has what the page shows of it."""

from __future__ import annotations

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import Material
from reusebench.reports.page.index import SECTIONS
from reusebench.reports.sections.section import Page, Section
from reusebench.scenarios.catalogue import OTHER_QUESTION, QUESTIONS
from tests.helpers.support import CHECKOUT

_TEMPLATES = CHECKOUT / "reports" / "templates"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_a_section_has_a_template_and_a_title(section: Section) -> None:
    """The template is a file, and every language has a title."""
    assert (_TEMPLATES / section.template).is_file()
    for language in LANGUAGES:
        assert section.title(texts_of(language))


def test_names_are_unique() -> None:
    """No two sections have the same element id, and every question has a section."""
    names = [section.name for section in SECTIONS]
    assert len(names) == len(set(names))
    assert {*QUESTIONS, OTHER_QUESTION} <= set(names)


def test_every_template_is_shown() -> None:
    """A template belongs to a section, or another template includes it."""
    templates = {path.name for path in (_TEMPLATES / "sections").iterdir()}
    shown = {section.template.removeprefix("sections/") for section in SECTIONS}
    assert templates - shown == {"workload.html.j2"}


def test_an_empty_page_has_few_sections() -> None:
    """Without groups only the sections about runs and machines remain."""
    page = Page(Material([]), texts_of("en"))
    assert [section.name for section in SECTIONS if section.applies(page)] == [
        "runs",
        "environment",
    ]
