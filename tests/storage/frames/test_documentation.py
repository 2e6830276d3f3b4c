"""The pages on data frames have every column, in both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from reusebench.accounting.sizes import COMPONENTS
from reusebench.storage.frames.columns import (
    CONFIGURATION_COLUMNS,
    LEDGER_KEYS,
    METRICS_OF,
    RESULT_KEYS,
    TRACE_KEYS,
    UNITS,
)
from tests.helpers.support import CHECKOUT

_FIGURE = ("metric", "unit", "value")
_LINK = re.compile(r"\]\(([^)#]+)")


@pytest.fixture(params=["reference/frames.md", "reference/frames.zh-CN.md"])
def page(request: pytest.FixtureRequest) -> str:
    """Return a page."""
    name: str = request.param
    return (CHECKOUT / "docs" / name).read_text(encoding="utf-8")


def _named(lines: list[str]) -> Iterator[str]:
    """Yield the names in the first column of the tables."""
    for line in lines:
        if line.startswith("| `"):
            yield from re.findall(r"`(\w+)`", line.split(" | ")[0])


def test_every_column_has_a_line(page: str) -> None:
    """Each table of the page has the columns of its part, and no others."""
    _, _, call, common, results, traces, ledgers = re.split(r"^#+ ", page, flags=re.MULTILINE)
    assert list(_named(call.splitlines())) == ["places", "table", "wide", "metrics", "runs"]
    assert list(_named(common.splitlines())) == list(CONFIGURATION_COLUMNS)
    of_results = list(_named(results.splitlines()))
    assert sorted(of_results) == sorted([*RESULT_KEYS, *_FIGURE, *METRICS_OF["results"]])
    assert list(_named(traces.splitlines())) == [*TRACE_KEYS, *_FIGURE]
    assert set(METRICS_OF["traces"]) <= {*of_results, *re.findall(r"`(\w+)`", traces)}
    assert list(_named(ledgers.splitlines())) == list(LEDGER_KEYS)


def test_units_and_components_are_named(page: str) -> None:
    """Every unit and component is named on the page."""
    assert {name for name in (*UNITS.values(), *COMPONENTS) if f"`{name}`" not in page} == set()


def test_links_lead_to_files(page: str) -> None:
    """Relative links lead to files."""
    assert [
        name
        for name in _LINK.findall(page)
        if not (CHECKOUT / "docs" / "reference" / name).is_file()
    ] == []
