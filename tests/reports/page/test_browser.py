"""The pages in headless Chromium, driven by selenium; skipped if it is not installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.history.history_page import HistoryPage
from tests.reports.browser import browser, needs_browser
from tests.reports.conftest import WrittenReport
from tests.reports.history.history_storage import histories_in

__all__ = ["browser"]

pytestmark = [pytest.mark.process, needs_browser]

#: Every pair of texts of a figure whose boxes share more than a pixel in both directions.
_OVERLAPS = """
const pairs = [];
for (const svg of document.querySelectorAll('figure svg')) {
  const texts = [...svg.querySelectorAll('text')]
    .map(t => [t.textContent, t.getBoundingClientRect()]);
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 &&
        Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1) pairs.push(a + ' / ' + b);
  }));
}
return pairs;
"""
#: Texts of a figure that reach beyond its edges.
_CUT = """
return [...document.querySelectorAll('figure svg')].flatMap(svg => {
  const edge = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < edge.left - 1 || box.right > edge.right + 1 || box.bottom > edge.bottom + 1;
  }).map(text => text.textContent);
});
"""
#: Size in CSS pixels of the smallest text of a figure that is shown.
_SMALLEST_TEXT = """
const shown = [...document.querySelectorAll('figure svg')].filter(svg => svg.checkVisibility());
return Math.min(...shown.flatMap(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll('text')]
    .map(text => parseFloat(getComputedStyle(text).fontSize) * scale);
}));
"""
#: The widths in pixels of figures, and of tables that cannot be scrolled, beyond the window.
_TOO_WIDE = """
return [...document.querySelectorAll('figure svg, .scroll')].filter(e => e.checkVisibility())
  .map(e => e.getBoundingClientRect().right).filter(right => right > innerWidth);
"""
#: The least contrast ratio (WCAG 2.1, relative luminance) of the texts of the page to what is
#: behind them.
_CONTRAST = """
const light = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const paper = element => {
  const colour = getComputedStyle(element).backgroundColor;
  const parent = element.parentElement;
  return colour === 'rgba(0, 0, 0, 0)' && parent ? paper(parent) : colour;
};
const ratio = element => {
  const values = [getComputedStyle(element).color, paper(element)].map(light).sort((a, b) => b - a);
  return (values[0] + 0.05) / (values[1] + 0.05);
};
const names = 'p, li, td, th, a, summary, figcaption, h1, h2, h3, h4, dt, dd, label, figure svg';
return Math.min(...[...document.querySelectorAll(names)]
  .filter(element => element.checkVisibility()).map(ratio));
"""
#: Elements that a mouse can use and the keyboard cannot reach, and controls without a name.
_UNREACHABLE = """
const controls = [...document.querySelectorAll('a, button, input, summary, .scroll, pre')]
  .filter(e => e.checkVisibility());
const named = e => e.ariaLabel || e.getAttribute('aria-labelledby') || e.closest('label')
  || e.textContent.trim();
return controls.filter(e => e.tabIndex < 0 || (e.tagName !== 'PRE' && !named(e)))
  .map(e => e.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def history_page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the path of a history's page by language."""
    folder = tmp_path_factory.mktemp("history")
    histories = histories_in(folder / "storage", 24, 4)
    return dict(zip(LANGUAGES, HistoryPage(histories).write(folder / "report", LANGUAGES[0], None)))


def set_width(browser: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def show(browser: Any, page: Path, width: int = 1280, scheme: str = "light") -> None:
    set_width(browser, width)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.as_uri())
    browser.execute_script(
        "for (const part of document.querySelectorAll('details')) part.open = true"
    )


@pytest.mark.parametrize(
    ("language", "width", "scheme"),
    [("en", 1280, "light"), ("zh-CN", 1280, "dark"), ("zh-CN", 400, "light")],
)
@pytest.mark.parametrize("name", ["report", "history"])
def test_page_reads_well(
    browser: Any,
    written: WrittenReport,
    history_page: dict[str, Path],
    name: str,
    language: str,
    width: int,
    scheme: str,
) -> None:
    """Nothing is wider than the window; texts are large enough, apart, and rich in contrast."""
    show(browser, (written.paths if name == "report" else history_page)[language], width, scheme)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(_OVERLAPS) == []
    assert browser.execute_script(_CUT) == []
    assert browser.execute_script(_SMALLEST_TEXT) >= 9.5
    assert browser.execute_script(_TOO_WIDE) == []
    assert browser.execute_script(_CONTRAST) >= 4.5
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 380) == (scheme == "light")


def test_languages_are_changed_in_place(browser: Any, written: WrittenReport) -> None:
    """The link leads to the same place of the page in the other language, and back."""
    show(browser, written.paths["en"])
    browser.execute_script("location.hash = 'speed'")
    for language in reversed(LANGUAGES):
        browser.find_element("css selector", f'a[hreflang="{language}"]').click()
        assert browser.current_url == f"{written.paths[language].as_uri()}#speed"
        assert browser.execute_script("return document.documentElement.lang") == language
        assert texts_of(language)("title") in browser.title


def test_a_column_sorts_by_number_both_ways(browser: Any, written: WrittenReport) -> None:
    """A press sorts by number, the next one reverses the order; a dash stays last."""
    show(browser, written.paths["en"])
    table = browser.find_element("css selector", "#dup table.sortable")
    heads = table.find_elements("css selector", "thead th")
    column = next(
        index for index, head in enumerate(heads) if "n" in head.get_attribute("class").split()
    )
    for direction, reverse in (("ascending", False), ("descending", True)):
        heads[column].find_element("css selector", "button").send_keys(" ")
        assert heads[column].get_attribute("aria-sort") == direction
        cells = browser.execute_script(
            "return [...arguments[0].tBodies[0].rows].map(row =>"
            " row.cells[arguments[1]].innerText)",
            table,
            column,
        )
        numbers = [float(cell.split()[0].replace(",", "")) for cell in cells if cell != "-"]
        assert numbers == sorted(numbers, reverse=reverse)
        assert cells[len(numbers) :] == ["-"] * (len(cells) - len(numbers))


def test_rows_are_filtered(browser: Any, written: WrittenReport) -> None:
    """Words above a long table hide the rows that lack them; without words all are back."""
    show(browser, written.paths["en"])
    field = browser.find_element("css selector", "#mechanisms .filter input")
    visible = (
        "return [...document.querySelectorAll('#mechanisms .matrix tbody tr')].filter(r =>"
        " r.checkVisibility()).length"
    )
    count = browser.execute_script(visible)
    field.send_keys("Lean")
    assert browser.execute_script(visible) == 1
    field.send_keys(*["\b"] * 4)
    assert browser.execute_script(visible) == count > 10


def test_keyboard_and_screen_readers_reach_everything(browser: Any, written: WrittenReport) -> None:
    """Every control can be reached and named; headings skip no level; figures have a name."""
    show(browser, written.paths["en"])
    assert browser.execute_script(_UNREACHABLE) == []
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:]))
    unnamed = (
        "return [...document.querySelectorAll('[role=img], table')].filter(e => e.tagName ==="
        " 'TABLE' ? !e.caption :"
        " !document.getElementById(e.getAttribute('aria-labelledby')).innerText.trim()).length"
    )
    assert browser.execute_script(unnamed) == 0


def test_without_scripts_groups_can_be_chosen(browser: Any, written: WrittenReport) -> None:
    """Without scripts tables are whole, and a cleared box hides its group everywhere."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(written.paths["en"].as_uri())
        assert browser.find_elements("css selector", "th button, .filter") == []
        assert browser.find_element("css selector", "#answer table").is_displayed()
        for name in ("dup", "measured"):
            browser.find_element("css selector", f"#{name} summary").click()
        part = browser.find_element("css selector", "#dup section.part.g0")
        box = browser.find_element("id", "show-g0")
        for is_shown in (False, True):
            box.click()
            assert part.is_displayed() == is_shown
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


#: The texts that were written to the clipboard, in place of which this stands.
_CLIPBOARD = """
window.written = [];
const clipboard = {writeText: async text => { window.written.push(text); }};
Object.defineProperty(navigator, 'clipboard', {value: clipboard, configurable: true});
"""
#: The clipboard refuses, as from a page without a secure origin; a copied selection is noted.
_NO_CLIPBOARD = """
window.written = [];
Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true});
document.execCommand = () => window.written.push(document.activeElement.value);
"""


@pytest.mark.parametrize("clipboard", [_CLIPBOARD, _NO_CLIPBOARD])
def test_tables_and_code_are_copied(browser: Any, written: WrittenReport, clipboard: str) -> None:
    """A key copies the cells that are shown, as Markdown too, and a program; it says so."""
    show(browser, written.paths["en"])
    browser.execute_script(clipboard)
    cells, markdown = browser.find_elements("css selector", "#dup .table:has(.n) .copy")[:2]
    program = browser.find_element("css selector", "#answer .code .copy")
    for button in (cells, markdown, program):
        button.send_keys(" ")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    table, as_markdown, code = browser.execute_script("return window.written")
    lines = [line.split("\t") for line in table.splitlines()]
    assert {len(line) for line in lines} == {len(lines[0])}
    assert "Full dup" in [line[0] for line in lines]
    assert as_markdown.splitlines()[0] == f"| {' | '.join(lines[0])} |"
    assert "---:" in as_markdown.splitlines()[1]
    assert code.rstrip() == browser.find_element("css selector", "#answer pre").text
    assert {cells.text, markdown.text, program.text} == {texts_of("en")("copied")}
    assert browser.find_element("id", "said").get_attribute("textContent") == "copied"


def test_links_lead_to_places(browser: Any, written: WrittenReport) -> None:
    """Ids are alike in all languages; each link leads to one; what is folded is opened."""
    ids: dict[str, list[str]] = {}
    terms: dict[str, set[str]] = {}
    for language, html in written.html.items():
        found = re.findall('<(?:h[34]|figure|section|div)[^>]* id="([^"]+)"', html)
        # Which terms a page marks depends on the words of its language.
        ids[language] = [name for name in found if not name.startswith("term-")]
        terms[language] = set(found) - set(ids[language])
        links = re.findall('href="#([^"]+)"', html)
        assert set(links) <= set(re.findall(' id="([^"]+)"', html))
        assert len(ids[language]) == len(set(ids[language]))
        assert set(ids[language]) - set(links) <= {"contents"}
    assert ids["en"] == ids["zh-CN"]
    common = terms["en"] & terms["zh-CN"]
    assert {"term-figure-saved", "term-word-context", "term-full-dup"} <= common
    show(browser, written.paths["en"])
    folded = browser.execute_script("return document.querySelector('details .table').id")
    browser.get(f"{written.paths['en'].as_uri()}#{folded}")
    browser.refresh()
    assert browser.find_element("id", folded).is_displayed()


def test_prints_whole(browser: Any, written: WrittenReport) -> None:
    """Paper has what is folded too, but programs; nothing is cut, and no control is on it."""
    browser.get(written.paths["en"].as_uri())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    unfolded = "return [...document.querySelectorAll('details')].map(part => part.open)"
    folded = browser.execute_script(unfolded)
    try:
        # A4, less its margins, in CSS pixels.
        set_width(browser, 710)
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
        wide = (
            "return [...document.querySelectorAll('table, figure svg')].filter(e =>"
            " e.checkVisibility() && e.getBoundingClientRect().right > 711).map(e =>"
            " e.innerHTML.slice(0, 60))"
        )
        assert browser.execute_script(wide) == []
        assert not browser.find_element("css selector", "a[hreflang]").is_displayed()
        assert browser.find_element("css selector", "#environment table").is_displayed()
        programs = "return [...document.querySelectorAll('pre > code')].map(e => e.offsetHeight)"
        assert set(browser.execute_script(programs)) == {0}
    finally:
        browser.execute_script("dispatchEvent(new Event('afterprint'))")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert browser.execute_script(unfolded) == folded != [True] * len(folded)
