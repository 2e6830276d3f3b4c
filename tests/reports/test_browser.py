"""The page in a real browser: headless Chromium, driven by selenium; skipped plainly where there is none."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.material import Material
from reports.page import page_name, write_pages
from reports.published import published_rows
from reports.questions import question_of
from reports.texts import LANGUAGES
from scenarios.catalogue import SCENARIOS
from tests.reports.stored import even, full_run, npu_run, result, tried, write_run
from tests.reports.test_comparison import groups_of

_BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_DRIVER = shutil.which("chromedriver")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync"
)

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
#: Contrast ratio of the text to the page (WCAG 2.1, relative luminance).
_CONTRAST = """
const light = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const style = getComputedStyle(document.body);
const values = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
return (values[0] + 0.05) / (values[1] + 0.05);
"""


@pytest.fixture(scope="module", params=["cpu", "npu"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of dup and of copies on a CPU, or of all on a virtual board and on one that computes."""
    folder = tmp_path_factory.mktemp("browser")
    if request.param == "cpu":
        full_run(folder / "storage")
        ways = [each.name for each in SCENARIOS if question_of(each.name, each.baseline) == "io_copies"]
        costs = {name: even(2 + place % 5, spread=1) for place, name in enumerate(ways)}
        write_run(folder / "storage", [result(folder / "storage", name, costs[name]) for name in ways], number=2)
    else:
        npu_run(folder / "storage")
        npu_run(folder / "storage", number=2, computes=True)
    write_pages(Material(groups_of(folder / "storage"), published_rows(), [tried()]), folder / "report")
    return folder / "report"


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


def show(browser: Any, page: Path, width: int, scheme: str) -> None:
    emulate = browser.execute_cdp_cmd
    emulate(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    emulate("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get(page.as_uri())


@pytest.mark.parametrize(
    ("language", "width", "scheme"),
    [*itertools.product(LANGUAGES, (1280, 860, 400), ("light",)), (LANGUAGES[0], 1280, "dark")],
)
def test_page_reads_well(browser: Any, report: Path, language: str, width: int, scheme: str) -> None:
    """No console message, nothing wider than the window, readable and separate texts, no empty lines on cards."""
    show(browser, report / page_name(language), width, scheme)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(_OVERLAPS) == []
    assert browser.execute_script(_SMALLEST_TEXT) >= 11
    assert browser.execute_script(_CONTRAST) >= 7
    if width == 400:
        assert not any(cell.is_displayed() for cell in browser.find_elements("css selector", ".cards td.empty"))


def test_schemes_differ(browser: Any, report: Path) -> None:
    """The page follows the reader's scheme: its background is not the same in light and dark."""
    colours = set()
    for scheme in ("light", "dark"):
        show(browser, report / "index.html", 1280, scheme)
        colours.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_languages_lead_to_each_other(browser: Any, report: Path) -> None:
    """The link of the other language opens that page, and its language is declared."""
    show(browser, report / "index.html", 1280, "light")
    browser.find_element("css selector", "nav a").click()
    assert browser.execute_script("return document.documentElement.lang") == LANGUAGES[1]
