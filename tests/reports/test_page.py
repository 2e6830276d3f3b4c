from __future__ import annotations

import re
from pathlib import Path

from reports.page import page_name, write_pages
from reports.published import published_rows
from reports.texts import LANGUAGES
from storage.files import BadFile
from tests.reports.stored import full_run
from tests.reports.test_comparison import groups_of


def pages(storage: Path, output: Path) -> list[str]:
    write_pages(groups_of(storage), published_rows(), [BadFile(Path("x/0009_bad.json"), "is cut short")], output)
    return [(output / page_name(language)).read_text(encoding="utf-8") for language in LANGUAGES]


def test_page_is_the_same_every_time(tmp_path: Path) -> None:
    """The same storage gives the same bytes."""
    full_run(tmp_path)
    assert pages(tmp_path, tmp_path / "a") == pages(tmp_path, tmp_path / "b")


def test_page_asks_for_nothing_outside(tmp_path: Path) -> None:
    """No element of the page loads anything: no script, no address but the other language's page."""
    full_run(tmp_path)
    for html in pages(tmp_path, tmp_path / "out"):
        assert "<script" not in html
        loaded = re.findall(r'(?:src|href)="([^"#]+)"', html)
        assert set(loaded) <= {"data:,", *map(page_name, LANGUAGES)}
        assert "@import" not in html
        assert not re.search(r"url\((?!#)", html)


def test_ids_are_unique(tmp_path: Path) -> None:
    """Figures that stand in one page share no id, so none takes another's clipping path."""
    full_run(tmp_path)
    for html in pages(tmp_path, tmp_path / "out"):
        ids = re.findall(r'\bid="([^"]+)"', html)
        assert len(ids) == len(set(ids))


def test_words_of_a_crashed_process_are_text(tmp_path: Path) -> None:
    """What a measured process wrote is shown, and is never markup of the page."""
    full_run(tmp_path)
    html = pages(tmp_path, tmp_path / "out")[0]
    assert "SIGSEGV" in html
    assert "&lt;script&gt;alert" in html


def test_bad_files_are_named(tmp_path: Path) -> None:
    """A stored file that could not be read is named in the page, with the reason."""
    full_run(tmp_path)
    for html in pages(tmp_path, tmp_path / "out"):
        assert "0009_bad.json: is cut short" in html


def test_a_lost_trace_costs_only_its_figure(tmp_path: Path) -> None:
    """Without the traces the page has all its tables, and says that the timeline is missing."""
    full_run(tmp_path)
    for trace in tmp_path.glob("traces/*/*.json.gz"):
        trace.write_bytes(b"cut")
    html = pages(tmp_path, tmp_path / "out")[0]
    assert "traces of this group are not in the storage" in html
    assert "330.0" in html
