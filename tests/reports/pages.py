"""A page without figures, its sections, and its visible text."""

from __future__ import annotations

import html as entities
import re
from html.parser import HTMLParser
from pathlib import Path

from reusebench.reports.material import read_material
from reusebench.reports.page.index import write_report

_SKIPPED = ("svg", "style", "script", "template", "title", "code")
_LINES = (
    "p",
    "li",
    "tr",
    "summary",
    "figcaption",
    "h1",
    "h2",
    "h3",
    "h4",
    "dt",
    "dd",
    "legend",
    "label",
    "pre",
)


def plain(html: str) -> str:
    """Return the page without the marks of terms."""
    return re.sub(r'<abbr title="[^"]*">(.*?)</abbr>|<a class="term"[^>]*>(.*?)</a>', r"\1\2", html)


def page(storage: Path, folder: Path, language: str = "en") -> str:
    """Return the page of a storage in a language, without figures and marks of terms."""
    path = write_report(read_material([storage], None), {}, folder, language)[0]
    return plain(path.read_text(encoding="utf-8"))


def section(html: str, name: str) -> str:
    """Return one section of the page, with entities as characters."""
    start = html.index(f'<section id="{name}">')
    ends = [
        index
        for index in (html.find("\n<section id=", start + 1), html.find("</main>"))
        if index > 0
    ]
    return entities.unescape(html[start : min(ends)])


def sections(html: str) -> list[str]:
    """Return the names of the sections in their order."""
    return re.findall(r'<section id="([^"]+)">', html)


class _Reader(HTMLParser):
    """A parser that collects the lines of a page; cells of a row share a line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._line: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in _SKIPPED
        if tag in _LINES:
            self._end_line()
        if tag in ("h1", "h2", "h3", "h4"):
            self._line.append("#" * int(tag[1]))
        if tag == "svg":
            self._line.append("[figure]")

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in _SKIPPED
        if tag in ("td", "th"):
            self._line.append("|")
        if tag in _LINES:
            self._end_line()

    def handle_data(self, data: str) -> None:
        if not self._skipped and data.strip():
            self._line.append(" ".join(data.split()))

    def _end_line(self) -> None:
        if self._line:
            self.lines.append(" ".join(self._line))
        self._line = []


def readable(html: str) -> str:
    """Return the visible text: a line for each paragraph, item, heading and row."""
    reader = _Reader()
    reader.feed(re.sub('<div class="narrow".*?</div>', "", html))
    return "\n".join(reader.lines) + "\n"
