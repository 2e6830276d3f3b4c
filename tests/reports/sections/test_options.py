"""The table of a runtime's own options."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.explanation.explanation import explain
from reusebench.reports.results.recommendation import recommendations
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.mechanisms import mechanism_records
from reusebench.reports.sections.options import options_table
from reusebench.reports.sections.speed import speed_comparisons
from tests.reports.pages import page, section
from tests.reports.stored import NOT_SUPPORTED, even, group_of, npu_account, result, with_speed

ENGLISH = texts_of("en")


@pytest.fixture
def group(tmp_path: Path) -> Group:
    """Return a runtime's options: one that takes less and is slower, one with other outputs, one
    that it refuses.
    """
    slower = result(
        tmp_path, "light=1", even(30, spread=0.5), samples=((1.0000003,),), digest="00000002"
    )
    return group_of(
        tmp_path,
        result(tmp_path, "default_options", even(40, spread=0.5), samples=((1.0,),)),
        with_speed(slower, latency_median_ns=[25_000_000] * 3),
        result(tmp_path, "fast=1", even(40, spread=0.5), samples=((1.5,),), digest="00000003"),
        result(tmp_path, "new=1", [], failure=NOT_SUPPORTED),
    )


def test_each_option_beside_the_default(group: Group) -> None:
    """A row has application memory, its change, the change of speed, and outputs."""
    table = options_table(group.rows, ENGLISH)
    assert table is not None
    assert table.heads[:3] == ["Option", "Application memory, MiB", "Change, MiB"]
    rows = {cells[0]: list(cells[1:]) for _, cells in table.rows}
    assert rows["Default options"] == ["70.0 ±0.5", "-", "-", "20.00 ±0.00", "-", "-", "measured"]
    light = rows["light=1"]
    assert light[:3] == ["60.0 ±0.5", "-10.0 ±1.0", "-14.3 ±1.4"]
    assert light[-2:] == ["within 3e-7", "measured"]
    # Fewer bits change outputs on purpose, so the row keeps its figures.
    assert rows["fast=1"][0] == "70.0 ±0.5"
    assert rows["fast=1"][-2:] == ["differ by 0.5", "outputs differ"]
    assert rows["new=1"][-2:] == ["not compared", "not supported"]


def test_options_are_in_no_other_comparison(group: Group) -> None:
    """They are neither layouts nor mechanisms, and nothing predicts them."""
    assert (recommendations(group.rows), speed_comparisons(group), mechanism_records(group)) == (
        [],
        [],
        [],
    )
    assert [explain(row) for row in group.rows] == [None] * len(group.rows)


def test_npu_memory_where_nothing_computes(tmp_path: Path) -> None:
    """NPU memory is compared if there is any; without arithmetic, no speed and no outputs."""
    infos = [
        result(tmp_path, name, even(3), npu=npu_account, computes=False)
        for name in ("default_options", "light=1")
    ]
    table = options_table(group_of(tmp_path, *infos).rows, ENGLISH)
    assert table is not None
    assert list(table.heads) == ["Option", "NPU memory, MiB", "Change, MiB", "Change, %", "Outcome"]
    assert list(table.rows[1][1]) == [
        "light=1",
        "10.00 ±0.00",
        "0.00 ±0.00",
        "0.0 ±0.0",
        "measured",
    ]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.usefixtures("group")
def test_options_have_a_section(tmp_path: Path, language: str) -> None:
    """It has the table of each group; options alone open the page with no answer."""
    texts = texts_of(language)
    html = page(tmp_path, tmp_path / "out", language)
    text = section(html, "options")
    assert f"<h2>{texts('question_options')}<a " in text
    assert "light=1" in text
    assert texts("options_note") in text
    assert texts("answer_nothing_compared") not in html
