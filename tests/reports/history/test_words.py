"""The words for drifts, waves and outliers, in both languages."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reusebench.reports.base.texts import texts_of
from reusebench.reports.history.history_page import HistoryPage
from reusebench.reports.history.series import History
from reusebench.reports.history.table import history_records, trend_records
from reusebench.reports.history.words import course_in_words, outliers_in_words
from reusebench.storage.metrics import find_metric
from tests.reports.compare.short_runs import MIB, memory
from tests.reports.history.history_storage import histories_of_runs

_METRIC = find_metric("application_memory_trimmed_over_baseline")
_HOURS = 96


def history_of(*mib: float) -> History:
    """Return the history of runs an hour apart, each with three repeats around a value."""
    runs = []
    for number, value in enumerate(mib):
        # Repeats differ, and each run is a little off.
        off = 0.05 * math.sin(37.0 * number * number)
        runs.append(memory(number, value + off - 0.05, value + off, value + off + 0.05))
    (history,) = histories_of_runs(runs, [_METRIC])
    return history


def test_a_drift_is_told_by_the_time() -> None:
    """A rise is told in the longest unit of which the series has two, and as a whole."""
    history = history_of(*(50 + 4 * hour / (_HOURS - 1) for hour in range(_HOURS)))
    assert not history.changes
    (words,) = course_in_words(history, texts_of("en"))
    assert words.startswith("rises by 1.0")
    assert " MiB a day: +4.0" in words
    (chinese,) = course_in_words(history, texts_of("zh-CN"))
    assert chinese.startswith("每天上升 1.0")
    falling = history_of(*(50 - 4 * hour / (_HOURS - 1) for hour in range(_HOURS)))
    assert next(course_in_words(falling, texts_of("en"))).startswith("falls by 1.0")


@pytest.mark.parametrize(
    ("period", "english", "chinese"),
    [
        (24, "every 24 hours, 4 times so far", "每 24 小时起伏"),
        (90, "; whether that returns cannot be told yet", "还看不出来"),
    ],
)
def test_a_wave_is_told_with_its_period(period: int, english: str, chinese: str) -> None:
    """A wave has its period and its height; one that was seen once is not said to return."""
    wave = [50 + 0.5 * math.sin(2 * math.pi * hour / period) for hour in range(_HOURS)]
    history = history_of(*wave)
    assert not history.changes
    (words,) = course_in_words(history, texts_of("en"))
    assert words.startswith("rises and falls by ±0.")
    assert english in words
    assert chinese in next(course_in_words(history, texts_of("zh-CN")))


def test_outliers_are_named_newest_first() -> None:
    """Five outliers are named with their distance, earlier ones are counted."""
    mib = [50.0] * _HOURS
    for place in range(5, 80, 12):
        mib[place] += 3
    words = outliers_in_words(history_of(*mib), texts_of("en"))
    assert words is not None
    assert words.index("0077") < words.index("0065")
    assert "(+3.0" in words
    assert words.endswith("2 earlier ones")
    assert outliers_in_words(history_of(*[50.0] * _HOURS), texts_of("en")) is None


def test_tables_have_drift_wave_and_outliers() -> None:
    """Each drift and wave is a row of its own; a run has its wave and its distance."""
    mib = []
    for hour in range(_HOURS):
        mib.append(50 + 4 * hour / (_HOURS - 1) + 0.5 * math.sin(2 * math.pi * hour / 24))
    mib[30] += 5
    history = history_of(*mib)
    drift, wave = trend_records([history])
    assert (drift["kind"], wave["kind"]) == ("drift", "wave")
    assert drift["rise_per_day"] == pytest.approx(MIB, rel=0.1)
    assert wave["period_days"] == pytest.approx(1, rel=0.02)
    assert wave["amplitude"] == pytest.approx(0.5 * MIB, rel=0.1)
    rows = list(history_records([history]))
    assert [number for number, row in enumerate(rows) if row["outlier"]] == [30]
    assert max(row["wave"] for row in rows) == pytest.approx(0.5 * MIB, rel=0.1)


@pytest.mark.process
def test_the_page_tells_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page has the sentence of a drift, and draws its configuration openly."""
    history = history_of(*(50 + 4 * hour / (_HOURS - 1) for hour in range(_HOURS)))
    for path in HistoryPage([history]).write(tmp_path_factory.mktemp("page"), "en", None):
        html = path.read_text(encoding="utf-8")
        texts = texts_of("en" if path.name == "history.html" else "zh-CN")
        assert next(course_in_words(history, texts)) in html
        assert texts("section_trends") in html
        assert "<details>" not in html


def test_a_wrong_clock_leaves_the_number_of_runs() -> None:
    """If a run has no date, a drift is told by the run."""
    runs = []
    for number in range(40):
        level = 50 + number / 10
        runs.append(memory(number, level - 0.05, level, level + 0.05))
    runs[20] = replace(runs[20], is_dated=False)
    (history,) = histories_of_runs(runs, [_METRIC])
    assert "a run:" in next(course_in_words(history, texts_of("en")))
