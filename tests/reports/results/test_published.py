"""Published figures: the data file, and the groups that they are comparable with."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.reports.base.texts import texts_of
from reusebench.reports.results.published import Source, comparable_rows, published_rows
from tests.reports.stored import changed, even, group_of, npu_account, numbers, result

ENGLISH = texts_of("en")


def test_the_published_dup_test_saves_what_it_says() -> None:
    """17.4 % with partial dup and 29.6 % with full dup, of the same 368 MB."""
    rows = {row.scenario: row for row in published_rows()}
    assert rows["no_reuse"].saving is None
    for name, share in (("partial_dup", 17.4), ("full_dup", 29.6)):
        saving = rows[name].saving
        assert saving is not None
        assert numbers(saving.percent)[0] == pytest.approx(share, abs=0.05)
    assert rows["full_dup"].cell("column_saved") == "109 MB"
    assert all(row.source.startswith("https://") for row in rows.values())


def test_rows_are_shown_where_they_are_comparable(tmp_path: Path) -> None:
    """A real board of the chip with as many streams and contexts has them; no other group has."""
    info = changed(result(tmp_path, "no_reuse", even(3), npu=npu_account), chip="rk3588")
    assert comparable_rows(group_of(tmp_path / "board", info)) == published_rows()
    others = {
        "chip": changed(info, chip="rk3576"),
        "contexts": changed(info, contexts=2),
        "virtual": changed(info, computes=False),
        "runtime": changed(info, runtime="onnxruntime"),
    }
    for name, other in others.items():
        assert comparable_rows(group_of(tmp_path / name, other)) == []


def test_the_date_of_publishing_is_shown_if_it_is_known() -> None:
    """A source without one only has the date when it was read."""
    known, unknown = (
        Source({"en": "A"}, None, published, "2026-11-21") for published in ("2024-11-06", None)
    )
    assert known.dates(ENGLISH) == "published 2024-11-06, read 2026-11-21"
    assert unknown.dates(ENGLISH) == "read 2026-11-21"
