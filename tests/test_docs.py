"""Statements of the pages about this repository: paths, links, languages, and imports."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import test_imports

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "src" / "reusebench"

_DOCS = sorted((_ROOT / "docs").rglob("*.md"))
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


def _short(page: Path) -> str:
    """Return the page's path from the root."""
    return page.relative_to(_ROOT).as_posix()


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


@pytest.mark.parametrize("page", _PAGES, ids=_short)
def test_paths_exist(page: Path) -> None:
    """A file that a page names is at the root or below src/reusebench/."""
    assert {path for path in _paths(page) if not _is_here(path)} == set()


def test_paths_are_found() -> None:
    """A path that does not exist would be noticed, and a placeholder stands for any name."""
    assert _is_here("measured/runtimes/NAME/adapter.py")
    assert _is_here("docs/explanation/design.md")
    assert not _is_here("measured/runtimes/NAME/nothing.py")
    assert "storage/result.py" in _paths(_ROOT / "CONTRIBUTING.md")


@pytest.mark.parametrize("page", [*_PAGES, _ROOT / "CHANGELOG.md"], ids=_short)
def test_links_lead_somewhere(page: Path) -> None:
    """A link to another page, or to a heading of one, finds it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", _text(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.process
def test_pages_that_texts_name_exist() -> None:
    """A page of docs/ that a message, comment or other file names is there."""
    texts = subprocess.run(
        [
            "git",
            "grep",
            "-IohE",
            r"docs/[A-Za-z/-]+(\.zh-CN)?\.md",
            ":!CHANGELOG.md",
            ":!CONTRIBUTING.md",
        ],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = set(texts.stdout.split())
    assert named
    assert {page for page in named if not (_ROOT / page).is_file()} == set()


@pytest.mark.parametrize("page", _ENGLISH, ids=_short)
def test_every_page_is_in_both_languages(page: Path) -> None:
    """A page has a Chinese one with as many headings of each level."""
    chinese = page.with_suffix(".zh-CN.md")
    assert [_level(heading) for heading in _headings(chinese)] == [
        _level(heading) for heading in _headings(page)
    ]


def test_no_page_is_in_chinese_alone() -> None:
    """A Chinese page has an English one."""
    chinese = {page for page in _PAGES if page.name.endswith(".zh-CN.md")}
    assert chinese == {page.with_suffix(".zh-CN.md") for page in _ENGLISH}


def _level(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))


@pytest.mark.parametrize("name", ["explanation/design.md", "explanation/design.zh-CN.md"])
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


def test_the_site_has_every_page() -> None:
    """The navigation of mkdocs.yml lists each page once; `make docs` would stop otherwise."""
    navigation = re.findall(
        r"^ +- ([\w/-]+\.md)$", (_ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    pages = [page.relative_to(_ROOT / "docs").as_posix() for page in _ENGLISH if page in _DOCS]
    assert sorted(navigation) == sorted(pages)


def test_the_first_page_is_short() -> None:
    """README has at most 700 words, blocks of code and links included, as `wc -w` counts."""
    assert len((_ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700
