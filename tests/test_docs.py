"""Statements of the pages about this repository: paths, links, languages, and imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import test_imports

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "src" / "reusebench"

_DOCS = sorted((_ROOT / "docs").glob("*.md"))
_PAGES = [*sorted(_ROOT.glob("README*.md")), _ROOT / "CONTRIBUTING.md", *_DOCS]
_ENGLISH = [page for page in _PAGES if page.name.count(".") == 1 and page.name != "CONTRIBUTING.md"]

#: These stand in paths for any name.
_PLACEHOLDERS = re.compile("NAME|QUESTION|LANGUAGE")
_SOURCES = {".py", ".c", ".h", ".j2", ".in"}
#: A path that begins so is one of this repository.
_FOLDERS = {
    ".ci",
    "benchmarks",
    "docs",
    "src",
    "tests",
    *(path.name for path in _PACKAGE.iterdir() if path.is_dir()),
}


def _text(page: Path) -> str:
    """Return the page without its blocks of code."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return re.sub(r"^    .*$", "", text, flags=re.MULTILINE)


def _headings(page: Path) -> list[str]:
    return re.findall(r"^#+ .*$", _text(page), flags=re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings."""
    titles = [heading.lstrip("#").strip().lower() for heading in _headings(page)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def _paths(page: Path) -> set[str]:
    """Return the words in backticks that look like paths of this repository."""
    words = re.findall(r"`([\w.*-]+(?:/[\w.*-]*)+)`", _text(page))
    return {
        word
        for word in words
        if Path(word).suffix in _SOURCES or word.partition("/")[0] in _FOLDERS
    }


def _is_here(path: str) -> bool:
    """Whether the path names a file or a folder, at the root or in the package."""
    pattern = _PLACEHOLDERS.sub("*", path).rstrip("/")
    return any(True for folder in (_ROOT, _PACKAGE) for _ in folder.glob(pattern))


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    """A file that a page names is at the root or below src/reusebench/."""
    assert {path for path in _paths(page) if not _is_here(path)} == set()


def test_paths_are_found() -> None:
    """A path that does not exist would be noticed, and a placeholder stands for any name."""
    assert _is_here("measured/runtimes/NAME/adapter.py")
    assert _is_here("docs/design.md")
    assert not _is_here("measured/runtimes/NAME/nothing.py")
    assert "storage/result.py" in _paths(_ROOT / "CONTRIBUTING.md")


@pytest.mark.parametrize("page", [*_PAGES, _ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link to another page, or to a heading of one, finds it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", _text(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("page", _ENGLISH, ids=lambda page: page.name)
def test_every_page_is_in_both_languages(page: Path) -> None:
    """A page has a Chinese one with as many headings of each level."""
    chinese = page.with_suffix(".zh-CN.md")
    assert [_level(heading) for heading in _headings(chinese)] == [
        _level(heading) for heading in _headings(page)
    ]


def test_no_page_is_in_chinese_alone() -> None:
    """A Chinese page has an English one."""
    chinese = {page.name for page in _PAGES if page.name.endswith(".zh-CN.md")}
    assert chinese == {page.with_suffix(".zh-CN.md").name for page in _ENGLISH}


def _level(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))


@pytest.mark.parametrize("name", ["design.md", "design.zh-CN.md"])
def test_the_table_of_imports_is_the_one_that_is_held(name: str) -> None:
    """The page of the design lists what each package may import."""
    rows = re.findall(
        r"^\| (`[a-z`,、 ]+`) \| ([a-z`,、 ]*)\|$", _text(_ROOT / "docs" / name), flags=re.MULTILINE
    )
    table = {
        package: set(_quoted(others)) for packages, others in rows for package in _quoted(packages)
    }
    assert table == test_imports._PACKAGES


def _quoted(text: str) -> list[str]:
    return re.findall("`([a-z]+)`", text)
