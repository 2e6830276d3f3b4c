"""The site of docs/, built as `make docs` does and read from a server by a browser."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.support import CHECKOUT
from tests.reports.browser import browser, needs_browser

__all__ = ["browser"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(
        importlib.util.find_spec("material") is None, reason="needs the extra docs: make docs"
    ),
]

_FOREIGN = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
_CHINESE = "zh-CN"
#: The longest time that a search may take.
_SEARCH_S = 20


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site; it is built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Yield the address of a server of the site."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_nothing_comes_from_another_host(site: Path) -> None:
    """Pages need no network."""
    pages = list(site.rglob("*.html"))
    assert pages
    assert [page for page in pages if _FOREIGN.search(page.read_text(encoding="utf-8"))] == []


def test_each_language_has_an_index_of_its_own(site: Path) -> None:
    """A search finds pages of its language alone."""
    english, chinese = (_places(site / folder) for folder in (".", _CHINESE))
    assert english == chinese != set()
    assert not any(place.startswith(_CHINESE) for place in english)
    assert all((site / place).is_file() for place in english)


def _places(folder: Path) -> set[str]:
    index = json.loads((folder / "search" / "search_index.json").read_text(encoding="utf-8"))
    return {page["location"].partition("#")[0] for page in index["docs"]}


#: In one step, as the search replaces its results while it is typed in.
_LINKS = """
return Array.from(document.querySelectorAll(".md-search-result__link"), link => link.href)
"""


@needs_browser
@pytest.mark.parametrize(
    ("page", "word"), [("how-to/fit.html", "ledger"), (f"{_CHINESE}/how-to/fit.html", "账本")]
)
def test_a_word_is_found(browser: Any, address: str, page: str, word: str) -> None:
    """The search finds pages in the language of the page, whose links lead to them."""
    browser.get(f"{address}/{page}")
    browser.execute_script("document.querySelector('#__search').click()")
    browser.find_element("css selector", "input.md-search__input").send_keys(word)
    deadline = time.monotonic() + _SEARCH_S
    links: list[str] = []
    while not links and time.monotonic() < deadline:
        links = browser.execute_script(_LINKS)
    assert links
    assert {f"/{_CHINESE}/" in link for link in links} == {page.startswith(_CHINESE)}, links
    browser.get(links[0])
    assert word in browser.find_element("css selector", "article").text.lower()
