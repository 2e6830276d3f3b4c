"""The page of a report: the list of its sections, its figures, and its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reusebench.reports.base.anchors import group_anchors
from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.drawing_pool import FigureKey, Figures, start_drawing
from reusebench.reports.base.formatting import to_the_minute, whole_mib
from reusebench.reports.base.pages import page_name, write_page
from reusebench.reports.base.paper import PAPERS, Paper
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.material import Material
from reusebench.reports.results.labels import labels_of
from reusebench.reports.sections.answer import AnswerSection
from reusebench.reports.sections.boards import BoardsSection
from reusebench.reports.sections.claims import ClaimsSection
from reusebench.reports.sections.contexts import ContextsSection
from reusebench.reports.sections.copies import CopiesSection
from reusebench.reports.sections.dup import DupSection
from reusebench.reports.sections.environment import EnvironmentSection
from reusebench.reports.sections.failures import FailuresSection
from reusebench.reports.sections.fit import FitSection
from reusebench.reports.sections.glossary import GlossarySection, terms_of
from reusebench.reports.sections.leaks import LeaksSection
from reusebench.reports.sections.limit import LimitSection
from reusebench.reports.sections.measured import MeasuredSection
from reusebench.reports.sections.mechanisms import MechanismsSection
from reusebench.reports.sections.options import OptionsSection
from reusebench.reports.sections.placement import PlacementSection
from reusebench.reports.sections.plans import PlansSection
from reusebench.reports.sections.programs import ProgramsSection
from reusebench.reports.sections.question import ComparisonSection, QuestionSection
from reusebench.reports.sections.runs import RunsSection
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.sections.sessions import SessionsSection
from reusebench.reports.sections.shared_weights import SharedWeightsSection
from reusebench.reports.sections.side_by_side import SideBySideSection
from reusebench.reports.sections.speed import SpeedSection
from reusebench.reports.sections.streams import StreamsSection
from reusebench.reports.sections.timeline import TimelineSection
from reusebench.reports.sections.versions import VersionsSection
from reusebench.scenarios.catalogue import OTHER_QUESTION, QUESTIONS
from reusebench.storage.run_file import StoredRun

#: The page's name inside the report's folder, without its language.
REPORT_PAGE = "index"
#: Questions that show more than a comparison, or something else.
_QUESTIONS: tuple[QuestionSection, ...] = (
    PlansSection(),
    DupSection(),
    SharedWeightsSection(),
    CopiesSection(),
    SessionsSection(),
    OptionsSection(),
    StreamsSection(),
    LeaksSection(),
    LimitSection(),
)
_BY_QUESTION = {section.name: section for section in _QUESTIONS}
#: Every section, in the order of the page.
SECTIONS: tuple[Section, ...] = (
    AnswerSection(),
    FitSection(),
    SideBySideSection(),
    *(
        _BY_QUESTION.get(question) or ComparisonSection(question)
        for question in (*QUESTIONS, OTHER_QUESTION)
    ),
    ClaimsSection(),
    ContextsSection(),
    SpeedSection(),
    TimelineSection(),
    MechanismsSection(),
    PlacementSection(),
    BoardsSection(),
    VersionsSection(),
    ProgramsSection(),
    FailuresSection(),
    MeasuredSection(),
    RunsSection(),
    EnvironmentSection(),
    GlossarySection(),
)


def start_figures(
    material: Material, languages: Sequence[str], papers: Sequence[Paper] = PAPERS
) -> Figures:
    """Have every figure of the page drawn in these languages on these papers."""
    jobs: dict[FigureKey, Draw] = {}
    for language in languages:
        page = Page(material, texts_of(language))
        for section in SECTIONS:
            for name, draw in section.figures(page).items():
                jobs[language, name] = draw
    return start_drawing(jobs, papers)


def figures_by_file(material: Material, figures: Mapping[str, str]) -> dict[str, str]:
    """Return the figures by the names of their files, which name the group in English."""
    page = Page(material, texts_of(LANGUAGES[0]))
    labels = dict(zip(page.group_ids, page.labels))
    by_file = {}
    for name, svg in figures.items():
        group_id, dash, figure = name.partition("-")
        by_file[f"{labels.get(group_id, group_id)}{dash}{figure}"] = svg
    return by_file


def write_report(
    material: Material,
    figures: Figures,
    folder: Path,
    first: str,
    history: str | None = None,
    table_format: str | None = None,
) -> list[Path]:
    """Write the page in every language, and return the paths; `first` has the plain name.

    `history` is the name of the history's page, if there is one to link to. `table_format` is the
    ending of the exported tables beside the page, if they were written.
    """
    languages = sorted(LANGUAGES, key=lambda language: language != first)
    # All that does not wait for the figures.
    values = {language: page_values(material, texts_of(language)) for language in languages}
    paths = []
    for language in languages:
        link = page_name(history, language, first) if history else None
        path = write_page(
            folder,
            REPORT_PAGE,
            language,
            first,
            "title",
            figures,
            table_format=table_format,
            history=link,
            **values[language],
        )
        paths.append(path)
    return paths


def page_values(material: Material, texts: Texts) -> dict[str, Any]:
    """Return the variables of the page's template."""
    page = Page(material, texts)
    english_labels = labels_of(page.groups, texts_of(LANGUAGES[0]))
    sections: list[dict[str, Any]] = []
    for section in SECTIONS:
        if section.applies(page):
            values = section.values(page)
            if not section.is_empty(values):
                # The first section is the answer, whatever it is.
                is_folded = section.is_folded and bool(sections)
                sections.append({**_shown(section, page, values), "is_folded": is_folded})
    return {
        "lead": _lead(page),
        "groups": page.group_ids,
        "groups_in_ids": dict(zip(page.group_ids, group_anchors(english_labels))),
        "folded": page.is_folded,
        "page_terms": terms_of(page),
        "sections": sections,
    }


def _shown(section: Section, page: Page, values: Values) -> dict[str, Any]:
    """Return the variables of a section: its name, title, summary, template and values."""
    return {
        "name": section.name,
        "title": section.title(page.texts),
        "summary": section.summary(page),
        "template": section.template,
        **values,
    }


def _lead(page: Page) -> str:
    """Return the sentence below the page's title: what was measured on which board, and when."""
    if not page.groups:
        return _machine_lead("programs_lead", page.material.programs[0].file, page.texts)
    boards = list(dict.fromkeys(group.board for group in reversed(page.groups)))
    if len(boards) > 1:
        return page.texts("lead_boards", boards=page.texts.joined(reversed(boards)))
    newest = max((group.newest for group in page.groups), key=lambda file: file.order)
    return _machine_lead("lead", newest, page.texts)


def _machine_lead(key: str, file: StoredRun, texts: Texts) -> str:
    machine = file.machine.reusebench
    return texts(
        key,
        board=machine.board,
        cpus=machine.usable_cpus,
        memory=f"{whole_mib(machine.memory_total_bytes)} MiB",
        date=to_the_minute(file.recorded_at),
    )
