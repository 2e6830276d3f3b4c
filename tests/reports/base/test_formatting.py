"""Numbers as people read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reusebench.reports.base import formatting
from reusebench.reports.base.formatting import (
    MIB,
    component_mib,
    counted,
    counted_mib,
    metric_amount,
    metric_number,
    mib,
    mib_per_minute,
    milliseconds,
    percent,
    plain,
    ranges,
    share,
    sized,
)
from reusebench.reports.base.statistics import Figure
from reusebench.storage.metrics import find_metric

MEMORY, LATENCY, RATE = (find_metric(name) for name in ("npu_memory", "latency", "throughput"))


@pytest.mark.parametrize(
    ("values", "text"),
    [((), ""), ((4,), "4"), ((2, 3), "2-3"), ((1, 4, 5, 6, 9), "1, 4-6, 9"), ((1, 3), "1, 3")],
)
def test_runs_of_numbers_are_drawn_together(values: tuple[int, ...], text: str) -> None:
    """Twelve contexts are named in a few characters."""
    assert ranges(values) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(4096, "<0.01"), (0, "0.00"), (-1, "0.00"), (-MIB, "-1.00"), (1234 * MIB, "1,234.00")],
)
def test_a_page_of_npu_memory_is_more_than_nothing(size: float, text: str) -> None:
    """A size that two decimals would round to zero is <0.01; zero is zero, without a sign."""
    assert mib(Figure(size), npu=True) == text


def test_figures_have_their_unit_decimals_and_spread() -> None:
    """Application memory has one decimal, ledger sizes two; missing figures are a dash."""
    figure = Figure(2.25 * MIB, MIB / 4)
    assert [mib(figure), mib(figure, npu=True), mib(figure, spread=False)] == [
        "2.2 ±0.2",
        "2.25 ±0.25",
        "2.2",
    ]
    assert milliseconds(Figure(7_268_000, 10_000)) == "7.27 ±0.01"
    assert [percent(Figure(12.34, 0.5), spread=True), percent(-0.04), percent(None)] == [
        "12.3 ±0.5",
        "0.0",
        "-",
    ]
    assert [plain(12.0), plain(1234.56)] == ["12", "1,234.6"]
    assert mib(None) == "-"


def test_counted_and_component_sizes() -> None:
    """A ledger mostly repeats exactly, and then its sizes have no spread; no copy is 0."""
    assert component_mib(Figure(MIB, 0.0)) == "1.00"
    assert component_mib(Figure(MIB, MIB / 4)) == "1.00 ±0.25"
    assert [counted_mib(size) for size in (0, 1, 3 * MIB, None)] == ["0", "<0.01", "3.00", "-"]


def test_large_rates_have_no_decimals() -> None:
    """A resolution of gigabytes a minute, from six seconds, is no exact figure."""
    assert [mib_per_minute(rate * MIB / 60) for rate in (1.02, -0.001, 2205.65)] == [
        "1.02",
        "0.00",
        "2,206",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00"),
        (2**20, "+1.00"),
        (-(2**20), "-1.00"),
        (6000, "+0.01"),
        (4096, "+4 KiB"),
        (1, "+1 B"),
        (-1.5, "-1.5 B"),
    ],
)
def test_a_small_value_is_not_shown_as_zero(value: float, text: str) -> None:
    """A byte more of counted memory is a change, and is shown as one byte."""
    assert metric_number(value, MEMORY, sign=True) == text


def test_amounts_have_one_unit() -> None:
    """The unit belongs to the number, also if it is a smaller one."""
    assert [metric_amount(value, MEMORY) for value in (2**21, 1)] == ["2.00 MiB", "1 B"]
    assert [metric_amount(value, LATENCY) for value in (7_268_000, 100)] == ["7.268 ms", "100 ns"]
    assert metric_amount(0.0001, RATE) == "0.00 /s"


@pytest.mark.parametrize(
    ("size", "spread", "shown"),
    [
        (0, None, "0 B"),
        (-300, None, "-300 B"),
        (40 * 1024, 128, "40.0 ±0.1 KiB"),
        (4, 1800, "0.0 ±1.8 KiB"),
        (2**20 - 0.01, None, "1.0 MiB"),
    ],
)
def test_sizes_have_the_unit_of_their_digits(size: float, spread: float | None, shown: str) -> None:
    """The larger of a size and its spread decides, so that both are read at once."""
    assert sized(size, spread) == shown


@pytest.mark.parametrize(
    ("count", "spread", "shown"), [(3, None, "3"), (0.19, None, "0.19"), (1, 0.125, "1.00 ±0.12")]
)
def test_counts_have_decimals_if_they_need_them(
    count: float, spread: float | None, shown: str
) -> None:
    """A whole count has no decimals, a rate and its spread have two."""
    assert counted(count, spread) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2.24e-6, "3e-6"),
        (3e-7, "3e-7"),
        (9.2e-7, "1e-6"),
        (0.001, "1e-3"),
        (0.0095, "0.01"),
        (0.0121, "0.013"),
        (31.0, "31"),
    ],
)
def test_a_share_is_rounded_up(value: float, shown: str) -> None:
    """A value is never above its shown bound."""
    assert share(value) == shown


#: Modules that may write decimals or take a median: formats, statistics, and what is no figure of
#: a row, such as a change in percent or the age of a reading.
_ROUNDING = {
    "base/formatting.py",
    "base/trend.py",
    "compare/difference.py",
    "compare/exports/openmetrics.py",
    "compare/gate_words.py",
    "compare/headline.py",
    "compare/text.py",
    "explanation/sentences.py",
    "history/change_points.py",
    "history/figure.py",
    "history/series.py",
    "history/table.py",
    "history/words.py",
    "results/published.py",
    "sections/programs.py",
    "streams/growth.py",
    "streams/tables.py",
}


def test_figures_are_rounded_in_one_place() -> None:
    """No other module of the report formats decimals, or takes a median, by itself."""
    reports = Path(formatting.__file__).parent.parent
    own_way = re.compile(r":[+,]*\.\w+f\}|statistics\.median")
    found = set()
    for path in reports.rglob("*.py"):
        if own_way.search(path.read_text(encoding="utf-8")):
            found.add(path.relative_to(reports).as_posix())
    assert found <= _ROUNDING
