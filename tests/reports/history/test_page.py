"""The page of the history: what is on it, and how it reads in a browser."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from reports.base.texts import LANGUAGES, texts_of
from reports.history.series import History, histories_of
from reports.history.page import write_history, write_history_beside
from storage.metrics import METRICS, find_metric
from storage.runs import Run, read_runs
from tests.reports.history.history_storage import make_history
from tests.reports.page import test_browser
from tests.reports.page.test_browser import browser, show
from tests.reports.stored import runs_of

__all__ = ["browser"]

_METRICS = [find_metric(name) for name in ("application_memory", "latency")]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[History]:
    """Return the histories of four configurations, of which two have a change point."""
    folder = tmp_path_factory.mktemp("storage")
    make_history(folder, 24, 4)
    return histories_of([run for run in read_runs(folder) if isinstance(run, Run)], _METRICS)


@pytest.fixture(scope="module")
def page(histories: list[History], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of their page."""
    return write_history(histories, tmp_path_factory.mktemp("page"), LANGUAGES[0], report="index.html")


def test_what_changed_comes_first(page: Path) -> None:
    """The table has the change points, their configurations are open, and the others are in a closed part."""
    html = page.read_text(encoding="utf-8")
    table, _, rest = html.partition('id="series"')
    assert table.count('<tr class="ok">') == 2
    opened, _, closed = rest.partition("<details>")
    assert (opened.count("<figure>"), closed.count("<figure>")) == (2, 2)
    assert "runtime_version 1.2.3 \N{RIGHTWARDS ARROW} 1.3.0" in opened
    assert '<a href="index.html">' in html


def test_the_page_needs_nothing_else(page: Path) -> None:
    """There is no address of another place in the page: style, script and figures stand inside."""
    html = page.read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!#|data:|index\.html)[^"]*', html) == []
    assert "url(http" not in html


def test_every_language_is_on_the_page(histories: list[History], tmp_path: Path) -> None:
    """The words of all languages are there, and the one that was asked for is shown first."""
    html = write_history(histories, tmp_path, "zh-CN").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in html
    for language in LANGUAGES:
        assert texts_of(language)("section_changes") in html


def test_a_page_has_room_for_so_many_panels(histories: list[History], tmp_path: Path) -> None:
    """Of more configurations those with change points are drawn, and the page says which option draws the others."""
    html = write_history(histories, tmp_path, LANGUAGES[0], most_panels=5).read_text(encoding="utf-8")
    assert html.count("<figure>") == 2
    assert "<details>" not in html
    assert "Configurations that are not drawn: 2." in html
    assert "--only NAME" in html


def test_a_report_has_a_history_beside_it_from_three_runs_on(tmp_path: Path) -> None:
    """Fewer runs have no page of a history; more have one that links back to the report."""
    make_history(tmp_path, 3, 1)
    files = runs_of(tmp_path)
    assert write_history_beside("index.html", files[:2], tmp_path / "out", LANGUAGES[0], ()) is None
    path = write_history_beside("index.html", files, tmp_path / "out", LANGUAGES[0], ())
    assert path == tmp_path / "out" / "history.html"
    assert 'href="index.html"' in path.read_text(encoding="utf-8")


def test_nothing_changed(histories: list[History], tmp_path: Path) -> None:
    """Without a change point the page says so, and has no empty table."""
    quiet = [history for history in histories if not history.changes]
    html = write_history(quiet, tmp_path, LANGUAGES[0]).read_text(encoding="utf-8")
    assert texts_of("en")("history_none") in html
    assert "<table" not in html


@test_browser.pytestmark
@pytest.mark.parametrize(
    ("language", "width", "scheme"),
    [
        (language, width, scheme)
        for language, (width, scheme) in itertools.product(LANGUAGES, [(1100, "light"), (390, "dark")])
    ],
)
def test_the_page_reads_well(browser: Any, page: Path, language: str, width: int, scheme: str) -> None:
    """No console message, nothing wider than the window, texts that are readable, apart, and clear of their ground."""
    show(browser, page, width, scheme, language)
    browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(test_browser._OVERLAPS) == []
    assert browser.execute_script(test_browser._SMALLEST_TEXT) >= 11
    assert browser.execute_script(test_browser._CONTRAST) >= 4.5
    assert browser.execute_script(test_browser._UNREACHABLE) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_figure_is_explained(histories: list[History], tmp_path: Path, language: str) -> None:
    """The page says what each of its metrics is, in its own words; every metric has such words."""
    texts = texts_of(language)
    html = write_history(histories, tmp_path, language).read_text(encoding="utf-8")
    shown = {history.series.metric.name for history in histories}
    for metric in METRICS:
        assert (escape(texts(f"meaning_{metric.name}")) in html) == (metric.name in shown)
