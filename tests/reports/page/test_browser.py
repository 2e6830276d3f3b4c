"""The page in a real browser: headless Chromium, driven by selenium; skipped plainly where there is none."""

from __future__ import annotations

import base64
import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.base.texts import LANGUAGES, texts_of
from reports.page.figures import figures_of
from reports.page.page import write_page
from reports.page.reading import read_material, to_be_shown
from reports.results.questions import question_of
from scenarios.catalogue import SCENARIOS
from tests.reports.stored import even, full_run, npu_run, result, write_run
from tests.reports.stored_streams import published_run

_BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_DRIVER = shutil.which("chromedriver")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync"
)
_WIDTHS, _SCHEMES = (1280, 860, 390), ("light", "dark")

pytestmark = pytest.mark.skipif(
    not (_BROWSER and _DRIVER),
    reason="no Chromium with its driver (Debian: apt install chromium chromium-driver)",
)

#: Every pair of texts of a visible figure whose boxes share more than a pixel in both directions.
_OVERLAPS = """
const found = [];
for (const svg of document.querySelectorAll('figure svg')) {
  if (!svg.checkVisibility()) continue;
  const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 &&
        Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1) found.push(a + ' / ' + b);
  }));
}
return found;
"""
#: Height in CSS pixels of the smallest text of a visible figure.
_SMALLEST_TEXT = """
return Math.min(...[...document.querySelectorAll('figure svg')].filter(svg => svg.checkVisibility()).flatMap(
  svg => [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect().height)));
"""
#: The least contrast ratio (WCAG 2.1, relative luminance) of the texts of the page to what is behind them.
_CONTRAST = """
const light = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const paper = element => {
  const colour = getComputedStyle(element).backgroundColor;
  return colour === 'rgba(0, 0, 0, 0)' && element.parentElement ? paper(element.parentElement) : colour;
};
const ratio = element => {
  const values = [light(getComputedStyle(element).color), light(paper(element))].sort((a, b) => b - a);
  return (values[0] + 0.05) / (values[1] + 0.05);
};
const names = 'p, li, td, th, a, summary, figcaption, h1, h2, h3, h4, dt, dd, label';
return Math.min(...[...document.querySelectorAll(names)]
  .filter(element => element.checkVisibility()).map(ratio));
"""
#: Elements that a mouse can use and the keyboard cannot reach, and controls without a name.
_UNREACHABLE = """
const controls = [...document.querySelectorAll('a, button, input, summary, .scroll, pre')]
  .filter(e => e.checkVisibility());
const named = e => (e.getAttribute('aria-labelledby') || e.closest('label') || e.textContent.trim());
return controls.filter(e => e.tabIndex < 0 || (e.tagName !== 'PRE' && !named(e))).map(e => e.outerHTML.slice(0, 80));
"""
#: The texts that are shown, below the heading of the page.
_SHOWN = "return document.querySelector('main').innerText"


def _stored_cpu(folder: Path) -> None:
    """Store dup, copies and streams on a CPU."""
    full_run(folder)
    ways = [each.name for each in SCENARIOS if question_of(each.name, each.baseline) == "io_copies"]
    costs = {name: even(2 + place % 5, spread=1) for place, name in enumerate(ways)}
    write_run(folder, [result(folder, name, costs[name]) for name in ways], number=2)
    published_run(folder, 3)


def _stored_npu(folder: Path) -> None:
    """Store all on a virtual board and on one that computes."""
    npu_run(folder)
    npu_run(folder, number=2, computes=True)


@pytest.fixture(scope="module", params=[_stored_cpu, _stored_npu])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a page."""
    folder = tmp_path_factory.mktemp("browser")
    request.param(folder / "storage")
    material = read_material([folder / "storage"], None)
    shown = to_be_shown(material.groups)
    return write_page(material, shown, figures_of(shown), folder / "report", LANGUAGES[0])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: make test installs it")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    options = selenium.ChromeOptions()
    options.binary_location = _BROWSER
    for flag in _FLAGS.split():
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options, service.Service(_DRIVER))
    yield driver
    driver.quit()


def show(browser: Any, page: Path, width: int = 1280, scheme: str = "light", language: str = LANGUAGES[0]) -> None:
    emulate = browser.execute_cdp_cmd
    emulate(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    emulate("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get(page.as_uri())
    choose(browser, language)


def choose(browser: Any, language: str) -> None:
    browser.execute_script(f"document.getElementById('language-{language}').click()")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("width", "scheme"), list(itertools.product(_WIDTHS, _SCHEMES)))
def test_page_reads_well(browser: Any, report: Path, language: str, width: int, scheme: str) -> None:
    """No console message, nothing wider than the window, texts that are readable, apart, and clear of their ground."""
    show(browser, report, width, scheme, language)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(_OVERLAPS) == []
    assert browser.execute_script(_SMALLEST_TEXT) >= 11
    assert browser.execute_script(_CONTRAST) >= 4.5
    picture = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"])
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_schemes_differ(browser: Any, report: Path) -> None:
    """The page follows the reader's scheme: its background is not the same in light and dark."""
    colours = set()
    for scheme in _SCHEMES:
        show(browser, report, scheme=scheme)
        colours.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == len(_SCHEMES)


def test_language_is_switched_in_the_page(browser: Any, report: Path) -> None:
    """The switch changes every text, those of figures too, the document's language and its title; and back again."""
    show(browser, report)
    english = browser.execute_script(_SHOWN)
    figure = "return [...document.querySelectorAll('figure .wide text')].map(t => t.textContent && t.getBBox().width)"
    assert texts_of("en")("section_answer") in english
    assert not re.search("[\u3400-\u9fff]", english)
    choose(browser, "zh-CN")
    chinese = browser.execute_script(_SHOWN)
    assert texts_of("zh-CN")("section_answer") in chinese
    assert texts_of("en")("section_answer") not in chinese
    assert browser.execute_script("return document.documentElement.lang") == "zh-CN"
    assert texts_of("zh-CN")("title") in browser.title
    widths = browser.execute_script(figure)
    choose(browser, "en")
    assert browser.execute_script(_SHOWN) == english
    assert browser.execute_script(figure) != widths


def test_a_column_sorts_by_number_both_ways(browser: Any, report: Path) -> None:
    """A press on a head sorts by its numbers, and says so; another press turns the order round; a dash stays last."""
    show(browser, report)
    table = browser.find_element("css selector", "#dup table.sortable")
    heads = table.find_elements("css selector", "thead th")
    column = next(place for place, head in enumerate(heads) if "n" in head.get_attribute("class").split())
    for direction, reverse in (("ascending", False), ("descending", True)):
        heads[column].find_element("css selector", "button").send_keys(" ")
        assert heads[column].get_attribute("aria-sort") == direction
        cells = [
            row.find_elements("css selector", "th, td")[column].text
            for row in table.find_elements("css selector", "tbody tr")
        ]
        numbers = [float(cell.split()[0].replace(",", "")) for cell in cells if cell != "-"]
        assert numbers == sorted(numbers, reverse=reverse)
        assert cells[len(numbers) :] == ["-"] * (len(cells) - len(numbers))


def test_rows_are_filtered(browser: Any, report: Path) -> None:
    """What is typed above a long table leaves the rows that have it; without it all are back."""
    show(browser, report)
    field = next(each for each in browser.find_elements("css selector", ".filter input") if each.is_displayed())
    rows = browser.execute_script(
        "return [...arguments[0].closest('.filter').nextElementSibling.querySelectorAll('tbody tr')]", field
    )
    wanted = rows[-1].find_element("css selector", "th").text
    field.send_keys(wanted)
    left = [row for row in rows if row.is_displayed()]
    assert 0 < len(left) < len(rows)
    assert all(wanted in row.text for row in left)
    field.send_keys(*["\b"] * len(wanted))
    assert all(row.is_displayed() for row in rows)


def test_groups_are_chosen(browser: Any, report: Path) -> None:
    """A box that is cleared hides its group in every section, and brings it back."""
    show(browser, report)
    box = browser.find_element("id", "show-g0")
    visible = "return [...document.querySelectorAll('.g0')].filter(e => e.checkVisibility()).length"
    before = browser.execute_script(visible)
    assert before > 10
    box.click()
    assert browser.execute_script(visible) == 0
    box.click()
    assert browser.execute_script(visible) == before


def test_keyboard_and_screen_readers_reach_everything(browser: Any, report: Path) -> None:
    """Every control is in the order of the tabulator and has a name; headings skip no level; figures have a name."""
    show(browser, report)
    assert browser.execute_script(_UNREACHABLE) == []
    levels = browser.execute_script("return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:]))
    unnamed = (
        "return [...document.querySelectorAll('[role=img], table')].filter(e => e.tagName === 'TABLE' "
        "? !e.caption : !document.getElementById(e.getAttribute('aria-labelledby')).innerText.trim()).length"
    )
    assert browser.execute_script(unnamed) == 0


def test_without_scripts_languages_and_groups_can_be_chosen(browser: Any, report: Path) -> None:
    """With scripts turned off the tables are whole, and the boxes still choose language and groups."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(report.as_uri())
        assert browser.find_elements("css selector", "th button, .filter") == []
        browser.find_element("id", "language-zh-CN").click()
        assert browser.find_element("css selector", "#answer h2").text == texts_of("zh-CN")("section_answer")
        assert browser.find_element("css selector", "#answer table").is_displayed()
        browser.find_element("id", "show-g0").click()
        assert not browser.find_element("css selector", "section.part.g0").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_prints_whole(browser: Any, report: Path) -> None:
    """On paper nothing is cut at the side, opened parts neither, and controls are gone; closed parts take no room."""
    show(browser, report)
    assert not browser.find_element("css selector", "details").get_attribute("open")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    # A4 across, less its margins, in CSS pixels.
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1040, "height": 710, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        assert not browser.find_element("css selector", "details summary").is_displayed()
        browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
        assert not browser.find_element("css selector", ".switch").is_displayed()
        wide = (
            "return [...document.querySelectorAll('table, figure')].filter(e => e.checkVisibility() && "
            "e.getBoundingClientRect().right > 1041).map(e => e.innerText.slice(0, 60))"
        )
        assert browser.execute_script(wide) == []
        # A browser may ask for the width of a sheet that stands upright.
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 700, "height": 1000, "deviceScaleFactor": 1, "mobile": False},
        )
        assert browser.find_element("css selector", "figure .wide").is_displayed()
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
