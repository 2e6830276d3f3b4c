from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.page import page_name, write_pages
from reports.published import published_rows
from reports.texts import LANGUAGES
from storage.files import BadFile
from tests.reports.stored import full_run
from tests.reports.test_comparison import groups_of


def pages(storage: Path, output: Path) -> list[str]:
    write_pages(groups_of(storage), published_rows(), [BadFile(Path("x/0009_bad.json"), "is cut short")], output)
    return [(output / page_name(language)).read_text(encoding="utf-8") for language in LANGUAGES]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage")
    full_run(folder)
    return folder


@pytest.fixture(scope="module")
def written(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return pages(storage, tmp_path_factory.mktemp("report"))


def test_page_is_the_same_every_time(storage: Path, written: list[str], tmp_path: Path) -> None:
    """The same storage gives the same bytes."""
    assert pages(storage, tmp_path) == written


def test_page_asks_for_nothing_outside(written: list[str]) -> None:
    """No element of the page loads anything: no script, no address but the other language's page."""
    for html in written:
        assert "<script" not in html
        loaded = re.findall(r'(?:src|href)="([^"#]+)"', html)
        assert set(loaded) <= {"data:,", *map(page_name, LANGUAGES)}
        assert "@import" not in html
        assert not re.search(r"url\((?!#)", html)


def test_ids_are_unique(written: list[str]) -> None:
    """Figures that stand in one page share no id, so none takes another's clipping path."""
    for html in written:
        ids = re.findall(r'\bid="([^"]+)"', html)
        assert len(ids) == len(set(ids))


def test_words_of_a_crashed_process_are_text(written: list[str]) -> None:
    """What a measured process wrote is shown, and is never markup of the page."""
    assert "SIGSEGV" in written[0]
    assert "&lt;script&gt;alert" in written[0]


def test_bad_files_are_named(written: list[str]) -> None:
    """A stored file that could not be read is named in the page, with the reason."""
    for html in written:
        assert "0009_bad.json: is cut short" in html


def test_a_lost_trace_costs_only_its_figure(tmp_path: Path) -> None:
    """Without the traces the page has all its tables, and says that the timeline is missing."""
    full_run(tmp_path)
    for trace in tmp_path.glob("traces/*/*.json.gz"):
        trace.write_bytes(b"cut")
    html = pages(tmp_path, tmp_path / "out")[0]
    assert "traces of this group are not in the storage" in html
    assert "330.0" in html
