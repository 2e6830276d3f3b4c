"""The content of the history page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from markupsafe import escape

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.history.history_page import HistoryPage
from reusebench.reports.history.series import History, is_worth_a_page
from reusebench.storage.metrics import METRICS, find_metric
from reusebench.storage.runs import run_of
from tests.reports.history.history_storage import histories_in, histories_of_runs, make_history
from tests.reports.pages import section
from tests.reports.stored import runs_of

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[History]:
    """Return the histories of four configurations, two of them with a change point."""
    return histories_in(tmp_path_factory.mktemp("storage"), 24, 4)


@pytest.fixture(scope="module")
def pages(histories: list[History], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the pages by file name, with a report, Chinese first."""
    paths = HistoryPage(histories).write(tmp_path_factory.mktemp("page"), "zh-CN", "index")
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def english(histories: Sequence[History], folder: Path, most_panels: int = 100) -> str:
    """Return the English page, which comes first."""
    return (
        HistoryPage(histories, most_panels).write(folder, "en", None)[0].read_text(encoding="utf-8")
    )


def test_what_changed_comes_first(pages: dict[str, str]) -> None:
    """Configurations with change points are open, the others are in a closed part."""
    table, _, rest = pages["history.en.html"].partition('id="series"')
    assert table.count('<tr class="ok">') == 2
    opened, _, closed = rest.partition("<details>")
    assert (opened.count("<figure "), closed.count("<figure ")) == (2, 2)
    assert "runtime_version 1.2.3 \N{RIGHTWARDS ARROW} 1.3.0" in opened


def test_the_page_opens_with_the_answer_and_a_figure(pages: dict[str, str]) -> None:
    """The first sentence names the largest change, its size and its run; the figure follows."""
    opening = section(pages["history.en.html"], "changes").partition("<table")[0]
    (first, _, *_) = re.findall("<li>(.*?)</li>", opening)
    assert re.search(r" changed most: .* [+-][\d.]+ .*\([+-][\d.]+ %\), from run \d{4} ", first)
    assert opening.index(first) < opening.index('<figure id="changes-overview-figure">')


def test_pages_lead_to_the_report_and_to_each_other(pages: dict[str, str]) -> None:
    """Pages link to the report in their language, and to nothing outside."""
    assert list(pages) == ["history.html", "history.en.html"]
    for (html, language), report in zip(
        zip(pages.values(), ("zh-CN", "en")), ("index.html", "index.en.html")
    ):
        assert f'<html lang="{language}">' in html
        assert texts_of(language)("section_changes") in html
        links = re.findall(r'(?:src|href)="(?!#|data:)([^"]*)', html)
        assert links == [next(name for name in pages if pages[name] != html), report]
        assert "url(http" not in html


def test_a_page_has_room_for_so_many_panels(histories: list[History], tmp_path: Path) -> None:
    """If there are too many, changed ones are drawn; the page names the option for all."""
    html = english(histories, tmp_path, most_panels=5)
    assert html.count("<figure ") == 3
    assert "<details>" not in html
    assert "Configurations that are not drawn: 2." in html
    assert "--only NAME" in html


def test_a_history_is_worth_a_page_from_three_runs_on(tmp_path: Path) -> None:
    """Fewer runs are no history."""
    make_history(tmp_path, 3, 1)
    runs = [run_of(file) for file in runs_of(tmp_path)]
    worth = [
        is_worth_a_page(histories_of_runs(some, [find_metric("application_memory")]))
        for some in (runs[:2], runs)
    ]
    assert worth == [False, True]


def test_nothing_changed(histories: list[History], tmp_path: Path) -> None:
    """Without a change point the page says so, and has no empty table."""
    html = english([history for history in histories if not history.changes], tmp_path)
    assert texts_of("en")("history_none") in html
    assert "<table" not in html


@pytest.mark.parametrize(
    ("language", "name"), [("zh-CN", "history.html"), ("en", "history.en.html")]
)
def test_every_figure_is_explained(
    pages: dict[str, str], histories: list[History], language: str, name: str
) -> None:
    """The page explains each of its metrics; every metric has an explanation."""
    assert language in LANGUAGES
    shown = {history.series.metric.name for history in histories}
    for metric in METRICS:
        meaning = escape(texts_of(language)(f"meaning_{metric.name}"))
        assert (meaning in pages[name]) == (metric.name in shown)
