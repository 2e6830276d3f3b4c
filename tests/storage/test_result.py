"""The form of a result: figures have a unit and a definition."""

from __future__ import annotations

import pytest

from storage.result import FrameCount, Memory, Series, Speed, StreamsRun
from tests.support import CHECKOUT


def test_sizes_and_times_have_units_in_their_names() -> None:
    """Every figure of memory and speed has one."""
    for name in Memory.__struct_fields__ + Speed.__struct_fields__:
        assert name.endswith(("_bytes", "_ns", "_per_s", "_percent")), name


@pytest.mark.parametrize("page", ["results.md", "results.zh-CN.md"])
def test_every_figure_is_defined_in_the_documentation(page: str) -> None:
    """A metric whose definition nobody can find is worth nothing."""
    text = (CHECKOUT / "docs" / page).read_text(encoding="utf-8")
    for form in (Memory, Speed, FrameCount, Series, StreamsRun):
        assert [name for name in form.__struct_fields__ if name not in text] == []
