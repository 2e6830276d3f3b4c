"""What others have published: the data file, and the tables of it."""

from __future__ import annotations

import pytest

from reports.base.texts import LANGUAGES, texts_of
from reports.results.published import Source, listed
from reports.results.published import published_breakdowns, published_rows, published_throughputs
from reports.results.published import breakdown_sources, breakdown_table, throughput_sources, throughput_table

ENGLISH = texts_of("en")


def test_the_published_dup_test_saves_what_it_says() -> None:
    """17.4 % with partial dup and 29.6 % with full dup, of the same 368 MB."""
    rows = {row.scenario: row for row in published_rows()}
    assert rows["no_reuse"].saved_percent is None
    assert rows["partial_dup"].saved_percent == pytest.approx(17.4, abs=0.05)
    assert rows["full_dup"].saved_percent == pytest.approx(29.6, abs=0.05)
    assert all(row.source.startswith("https://") for row in rows.values())


def test_throughput_rises_from_one_thread_to_twelve() -> None:
    """The published throughputs by threads are there, and one of a single core."""
    rates = {row.threads: row.throughput_per_s for row in published_throughputs()}
    assert [round(rates[threads], 1) for threads in (1, 3, 6, 9, 12)] == [41.6, 98.6, 114.7, 129.6, 140.9]
    assert rates[None] == 66.2


def test_parts_add_up_to_the_published_total() -> None:
    """Where the source tells all parts their sum is its total; elsewhere they are less."""
    for row in published_breakdowns():
        told = row.weights_mib + row.internal_mib + (row.other_mib or 0)
        assert told < row.total_mib if row.other_mib is None else told == pytest.approx(row.total_mib)


@pytest.mark.parametrize("language", LANGUAGES)
def test_reference_tables_name_their_sources(language: str) -> None:
    """Every row is marked as published, and names a source that stands in the list with its dates."""
    texts = texts_of(language)
    for table, sources in (
        (throughput_table(texts), throughput_sources(texts)),
        (breakdown_table(texts), breakdown_sources(texts)),
    ):
        assert {look for look, _ in table.rows} == {"published"}
        assert {len(cells) for _, cells in table.rows} == {len(table.heads)}
        assert {cells[-1] for _, cells in table.rows} == {title for title, _, _ in sources}
        assert all(url is None or url.startswith("https://") for _, url, _ in sources)
        assert all("2026" in dates for _, _, dates in sources)


def test_what_a_source_does_not_tell_is_a_dash() -> None:
    """A part that was not printed is not zero."""
    cells = [list(row) for _, row in breakdown_table(ENGLISH).rows]
    assert cells[0][2:6] == ["3.53", "1.67", "-", "5.58"]
    assert cells[1][:2] == ["-", "-"]


def test_the_date_of_publishing_is_said_where_it_is_known() -> None:
    """A source without one says when it was read."""
    known = Source({"en": "A"}, None, "2024-11-06", "2026-11-21")
    unknown = Source({"en": "B"}, "https://b.example", None, "2026-11-21")
    assert listed([known, unknown, known], ENGLISH) == [
        ("A", None, "published 2024-11-06, read 2026-11-21"),
        ("B", "https://b.example", "read 2026-11-21"),
    ]
