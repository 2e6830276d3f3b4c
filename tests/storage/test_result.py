"""The form of a result: figures have a unit and a definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.storage.result import (
    OF_STEADY_STATE,
    FrameCount,
    MemoryFigures,
    Series,
    Speed,
    StreamsRun,
)
from tests.helpers.support import CHECKOUT
from tests.reports.stored import even, result, with_memory


def test_sizes_and_times_have_units_in_their_names() -> None:
    """Every figure of memory and speed has its unit in its name."""
    for name in MemoryFigures.__struct_fields__ + Speed.__struct_fields__:
        assert name.endswith(("_bytes", "_ns", "_per_s", "_percent")), name


@pytest.mark.parametrize("page", ["reference/results.md", "reference/results.zh-CN.md"])
def test_every_figure_is_defined_in_the_documentation(page: str) -> None:
    """A metric whose definition nobody can find is worth nothing."""
    text = (CHECKOUT / "docs" / page).read_text(encoding="utf-8")
    for form in (MemoryFigures, Speed, FrameCount, Series, StreamsRun):
        assert [name for name in form.__struct_fields__ if name not in text] == []


@pytest.mark.parametrize("name", OF_STEADY_STATE)
def test_figures_of_one_reading_go_together(name: str, tmp_path: Path) -> None:
    """Reports calculate one from the other: a file in which one is missing is damaged."""
    info = result(tmp_path, "no_reuse", even(3))
    for figures in ((), [None] * len(info.repeats)):
        with pytest.raises(ValueError, match="steady state are not of the same repeats"):
            with_memory(info, **{name: figures})


def test_what_came_to_its_end_has_memory(tmp_path: Path) -> None:
    """Every repeat of a successful result has memory, or the file is damaged."""
    info = result(tmp_path, "no_reuse", even(3))
    for figures in ((), [None] * len(info.repeats)):
        with pytest.raises(ValueError, match="repeat that came to its end has no memory"):
            with_memory(info, **dict.fromkeys(OF_STEADY_STATE, figures))
