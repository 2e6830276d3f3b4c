"""The section of boards: its table, its figure, and the boards that were not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.boards.boards import board_names, compared_boards
from reusebench.reports.boards.table import board_records
from reusebench.reports.material import read_material
from reusebench.reports.page.index import start_figures, write_report
from tests.reports.boards.stored_boards import MIB_OF, REASON, three_boards
from tests.reports.pages import page, section
from tests.reports.stored import MIB


def test_boards_stand_side_by_side(tmp_path: Path) -> None:
    """Each configuration has the figures of each board; savings are from the board's own
    baseline.
    """
    three_boards(tmp_path)
    compared = compared_boards(read_material([tmp_path], None).groups)
    assert board_names(compared) == ["rock5a", "rock5b"]
    assert [boards.first.scenario for boards in compared] == ["no_reuse_one_model", "full_dup"]
    saved = {}
    for row, record in board_records(compared):
        if row.scenario == "full_dup":
            saved[record["board_name"]] = record["saved_bytes"]
            assert record["baseline"] == "no_reuse_one_model"
            assert record["application_memory_spread_bytes"] is not None
    # 11 of the 12 contexts are dups of 5 MiB.
    assert saved == {
        board: pytest.approx(11 * (size - 5) * MIB, abs=MIB) for board, size in MIB_OF.items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_section_of_boards(language: str, tmp_path: Path, full_storage: Path) -> None:
    """It has all boards, and why one is missing; pages of one board have no such section."""
    texts = texts_of(language)
    three_boards(tmp_path / "storage")
    shown = section(page(tmp_path / "storage", tmp_path / "report", language), "boards")
    for text in (texts("section_boards"), "rock5a", "rock5b", "rk3588", REASON):
        assert text in shown
    assert texts("section_boards") not in page(full_storage, tmp_path / "other", language)


@pytest.mark.process
def test_the_figure_of_boards(tmp_path: Path) -> None:
    """The section shows it."""
    three_boards(tmp_path / "storage")
    material = read_material([tmp_path / "storage"], None)
    paths = write_report(material, start_figures(material, ["en"]), tmp_path / "report", "en")
    assert "<svg" in section(paths[0].read_text(encoding="utf-8"), "boards")
