"""The words of a history, on the page and in the terminal: changes, drifts, waves, outliers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reusebench.reports.base.formatting import EMPTY, metric_amount, metric_number, plain
from reusebench.reports.base.texts import Texts
from reusebench.reports.history.change_points import Drift, Wave
from reusebench.reports.history.series import Event, History, LevelChange
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import RunSummary

#: Highest confidence that is shown: the noise itself is only an estimate.
_MOST_SURE = 0.9999
DAY_S = 86_400.0
_HOUR_S = 3_600.0
_MONTH_S = 30.44 * DAY_S
#: Units of time with their lengths, the longest first.
_RATE_UNITS = {"month": _MONTH_S, "day": DAY_S, "hour": _HOUR_S}
_PERIOD_UNITS = {"days": DAY_S, "hours": _HOUR_S}
#: Number of units from which a length of time is told in a unit.
_ENOUGH = 2
#: Number of periods from which a wave is known to return.
_RETURNED = 1.5
#: Limit of the outliers that are named, the newest first.
_MOST_OUTLIERS = 5


def run_in_words(run: RunSummary) -> str:
    """Return the number of the run and its commit, if it has one."""
    number = f"{run.number:04}" if run.number is not None else str(run)
    return f"{number} {run.short_commit}".rstrip()


def event_in_words(event: Event) -> str:
    """Return the condition with its old and new value."""
    return f"{event.condition} {event.old} \N{RIGHTWARDS ARROW} {event.new}"


def change_in_words(change: LevelChange) -> tuple[str, str, str]:
    """Return the change with its interval, its percentage of the old level, and the confidence."""
    difference = change.point.difference
    metric = change.series.metric
    size = metric_amount(difference.change, metric, sign=True)
    if difference.error:
        amount = metric_number(difference.change, metric, sign=True)
        size = f"{amount} ±{metric_amount(difference.error, metric)}"
    share = EMPTY if difference.percent is None else f"{difference.percent:+.1f}"
    confidence = f"{100 * change.confidence:.2f}"
    if change.confidence > _MOST_SURE:
        confidence = f">{100 * _MOST_SURE:g}"
    return size, share, confidence


def course_in_words(history: History, texts: Texts) -> Iterator[str]:
    """Yield a sentence for the drift and one for the wave, without the name of the figure."""
    metric = history.series.metric
    if history.course.drift:
        yield _drift_in_words(history.course.drift, metric, texts)
    if history.course.wave:
        yield _wave_in_words(history.course.wave, metric, texts)


def outliers_in_words(history: History, texts: Texts) -> str | None:
    """Return the newest outliers with their distances from the level; None without any."""
    outliers = sorted(history.outliers.items(), reverse=True)
    if not outliers:
        return None
    runs = []
    for position, distance in outliers[:_MOST_OUTLIERS]:
        size = metric_amount(distance, history.series.metric, sign=True)
        runs.append(f"{run_in_words(history.series.run(position))} ({size})")
    if len(outliers) > _MOST_OUTLIERS:
        runs.append(texts("history_more_outliers", count=len(outliers) - _MOST_OUTLIERS))
    return texts("history_outliers", count=len(outliers), runs=", ".join(runs))


def _drift_in_words(drift: Drift, metric: Metric, texts: Texts) -> str:
    unit = "run"
    rate = drift.rise / drift.runs
    if drift.seconds is not None:
        unit = _unit(drift.seconds, _RATE_UNITS)
        rate = drift.rise / drift.seconds * _RATE_UNITS[unit]
    return texts(
        "history_rises" if drift.rise > 0 else "history_falls",
        rate=metric_amount(abs(rate), metric),
        unit=texts(f"history_per_{unit}"),
        total=metric_amount(drift.rise, metric, sign=True),
        error=metric_amount(drift.error, metric),
    )


def _wave_in_words(wave: Wave, metric: Metric, texts: Texts) -> str:
    unit = "runs"
    period = wave.runs
    if wave.seconds is not None:
        unit = _unit(wave.seconds, _PERIOD_UNITS)
        period = wave.seconds / _PERIOD_UNITS[unit]
    key = "history_wave" if wave.periods >= _RETURNED else "history_wave_once"
    return texts(
        key,
        amplitude=metric_amount(wave.amplitude, metric),
        period=texts(f"history_period_{unit}", count=plain(period)),
        periods=plain(wave.periods),
    )


def _unit(seconds: float, units: Mapping[str, float]) -> str:
    """Return the longest unit of which this is a few, or the shortest one."""
    for name, length in units.items():
        if seconds >= _ENOUGH * length:
            return name
    return list(units)[-1]
