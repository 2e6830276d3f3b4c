"""Published figures: the data file, and its tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.results.published import (
    Reference,
    Source,
    published_breakdown,
    published_rows,
    published_throughput,
)
from tests.reports.stored import numbers

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


def test_throughput_rises_from_one_thread_to_twelve() -> None:
    """The published throughputs by threads are there, and one of a single core."""
    rates = {cells[2]: cells[3] for _, cells in published_throughput(ENGLISH).table.rows}
    threads = [ENGLISH("reference_threads", threads=count) for count in (1, 3, 6, 9, 12)]
    assert [rates[how] for how in threads] == ["41.6", "98.6", "114.7", "129.6", "140.9"]
    assert rates[ENGLISH("reference_one_core")] == "66.2"


def test_parts_add_up_to_the_published_total() -> None:
    """All parts add up to the total; if the source lacks some, they have a dash and the sum is
    less.
    """
    rows = [cells for _, cells in published_breakdown(ENGLISH).table.rows]
    assert rows[0][2:6] == ["3.53", "1.67", "-", "5.58"]
    assert rows[1][:2] == ["-", "-"]
    for cells in rows:
        known = sum(float(cell) for cell in cells[2:5] if cell != "-")
        whole = float(cells[5])
        if "-" in cells[2:5]:
            assert known < whole
        else:
            assert known == pytest.approx(whole)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reference", [published_throughput, published_breakdown])
def test_reference_tables_name_their_sources(
    reference: Callable[[Texts], Reference], language: str
) -> None:
    """Every row is marked as published and names a source that the list has once, with dates."""
    published = reference(texts_of(language))
    assert {look for look, _ in published.table.rows} == {"published"}
    assert {len(cells) for _, cells in published.table.rows} == {len(published.table.heads)}
    titles = [title for title, _, _ in published.sources]
    assert {cells[-1] for _, cells in published.table.rows} == set(titles)
    assert len(titles) == len(set(titles))
    assert all(url is None or url.startswith("https://") for _, url, _ in published.sources)
    assert all("2026" in dates for _, _, dates in published.sources)


def test_the_date_of_publishing_is_shown_if_it_is_known() -> None:
    """A source without one only has the date when it was read."""
    known, unknown = (
        Source({"en": "A"}, None, published, "2026-11-21") for published in ("2024-11-06", None)
    )
    assert known.dates(ENGLISH) == "published 2024-11-06, read 2026-11-21"
    assert unknown.dates(ENGLISH) == "read 2026-11-21"
