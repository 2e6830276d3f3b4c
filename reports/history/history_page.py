"""The page of the history: the changes, then figures of all series, changed ones first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

import numpy as np

from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.drawing_pool import FigureKey, start_drawing
from reusebench.reports.base.pages import page_name, write_page
from reusebench.reports.base.paper import Paper
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.compare.names import common_words, short_names
from reusebench.reports.history.board_counts import counts_by_board
from reusebench.reports.history.change_points import LEAST_RUNS
from reusebench.reports.history.figure import history_figure
from reusebench.reports.history.series import History, LevelChange, MetricSeries, changes_of
from reusebench.reports.history.table import boards_table, changes_table, trends_table
from reusebench.reports.history.words import (
    change_in_words,
    event_in_words,
    outliers_in_words,
    run_in_words,
)
from reusebench.storage.run_file import BadFile
from reusebench.storage.runs import Configuration

#: Name of the page inside the report's folder, without its language.
HISTORY_PAGE = "history"
#: Limit of panels: more would make the page too large and too slow.
MOST_PANELS = 60
#: Limit of panels if not all fit: each takes 0.1 s of CPU time, in two languages and two sizes.
_MOST_OF_MANY = 40
#: Limit of panels together with a report, which takes time of its own.
MOST_PANELS_BESIDE = 24
#: The figure that the page opens with, and the limit of its panels.
_OVERVIEW = "overview"
_MOST_IN_OVERVIEW = 4
#: Limit of the rows of a table; the exported tables have all.
_MOST_ROWS = 500
#: Limit of the changed conditions that are listed for a configuration, the newest first.
_MOST_EVENTS = 5

#: Board, chip, runtime and target.
_Setup = tuple[str, Optional[str], str, str]
#: Names that tell the configurations of a setup apart.
_Names = Mapping[Configuration, str]


@dataclass(frozen=True)
class _Block:
    """One configuration on one board, with a history for each metric."""

    #: Name of the figure in the page: the configuration with its board.
    figure: str
    histories: Sequence[History]

    @property
    def series(self) -> MetricSeries:
        return self.histories[0].series

    @property
    def is_changed(self) -> bool:
        return any(history.changes or history.has_trend for history in self.histories)

    @property
    def has_outliers(self) -> bool:
        return any(history.course.outliers for history in self.histories)

    @property
    def setup(self) -> _Setup:
        return _setup_of(self.series)


class HistoryPage:
    """The page in every language; its figures are drawn in the background."""

    def __init__(self, histories: Sequence[History], most_panels: int = MOST_PANELS) -> None:
        """Begin to draw the configurations that fit into `most_panels`, at least one."""
        self._histories = histories
        is_limited = len(histories) > most_panels
        if is_limited:
            most_panels = min(most_panels, _MOST_OF_MANY)
        self._most_panels = most_panels
        members: dict[str, list[History]] = {}
        for history in histories:
            series = history.series
            facts = (str(series.configuration), series.board, series.chip)
            members.setdefault(" ".join(filter(None, facts)), []).append(history)
        blocks = [_Block(figure, members) for figure, members in members.items()]
        # Configurations with changes, a drift or a wave come first, then those with most runs; if
        # not all are drawn, outliers come before quiet ones.
        self._blocks = sorted(
            blocks,
            key=lambda block: (
                not block.is_changed,
                is_limited and not block.has_outliers,
                -len(block.series),
            ),
        )
        self._shown: list[_Block] = []
        panels = 0
        for block in self._blocks:
            panels += len(block.histories)
            if self._shown and panels > most_panels:
                break
            self._shown.append(block)

        drawings: dict[FigureKey, Draw] = {}
        for language in LANGUAGES:
            texts = texts_of(language)
            drawings[language, _OVERVIEW] = partial(self._draw_overview, texts)
            for block in self._shown:
                drawing = partial(history_figure, block.histories, texts)
                drawings[language, block.figure] = drawing
        self._figures = start_drawing(drawings)

    def write(
        self, folder: Path, first: str, report: str | None, bad_files: Sequence[BadFile] = ()
    ) -> list[Path]:
        """Write the page into the folder in every language, and return the paths.

        The page in the `first` language has the plain name. All link to the page called `report`,
        if there is one.
        """
        paths = []
        for language in sorted(LANGUAGES, key=lambda language: language != first):
            texts = texts_of(language)
            path = write_page(
                folder,
                HISTORY_PAGE,
                language,
                first,
                "history_title",
                self._figures,
                groups_in_ids={},
                report=page_name(report, language, first) if report else None,
                bad_files=[texts.message(file.message) for file in bad_files],
                **self._values(texts),
            )
            paths.append(path)
        return paths

    def _values(self, texts: Texts) -> dict[str, Any]:
        histories = self._histories
        names = self._names()
        full_name = partial(_full_name, names, texts)
        metrics = dict.fromkeys(history.series.metric.name for history in histories)
        left_out = ""
        left_out_count = len(self._blocks) - len(self._shown)
        if left_out_count:
            left_out = texts("history_left_out", count=left_out_count, most=self._most_panels)
        changes = changes_of(histories)
        trends = [history for history in histories if history.has_trend]
        rows_left_out = max(0, len(changes) - _MOST_ROWS) + max(0, len(trends) - _MOST_ROWS)
        shown_setups = dict.fromkeys(block.setup for block in self._shown)
        return {
            "lead": self._lead(texts),
            "overview": _OVERVIEW,
            "opening": self._opening(full_name, texts),
            "boards": boards_table(counts_by_board(histories), texts),
            "changes": changes_table(changes[:_MOST_ROWS], full_name, texts),
            "trends": trends_table(trends[:_MOST_ROWS], full_name, texts),
            "rows_left_out": rows_left_out
            and texts("history_rows_left_out", count=rows_left_out, most=_MOST_ROWS),
            "meanings": [(texts(f"metric_{name}"), texts(f"meaning_{name}")) for name in metrics],
            "left_out": left_out,
            "groups": [self._group(setup, names[setup], texts) for setup in shown_setups],
        }

    def _names(self) -> dict[_Setup, _Names]:
        """Return the names that tell the configurations of each setup apart."""
        configurations: dict[_Setup, list[Configuration]] = {}
        for block in self._blocks:
            configurations.setdefault(block.setup, []).append(block.series.configuration)
        return {setup: short_names(members) for setup, members in configurations.items()}

    def _draw_overview(self, texts: Texts, paper: Paper) -> str:
        """Draw the series that changed most, then others."""
        histories = sorted(self._histories, key=_largest_percent, reverse=True)[:_MOST_IN_OVERVIEW]
        names = self._names()
        titles = [_full_name(names, texts, history.series) for history in histories]
        return history_figure(histories, texts, paper, titles)

    def _lead(self, texts: Texts) -> str:
        days: dict[Path, str] = {}
        for block in self._blocks:
            rows = np.unique(np.concatenate([history.series.rows for history in block.histories]))
            for run in map(block.series.of.runs.__getitem__, rows):
                days[run.path] = run.recorded_at[:10]
        return texts(
            "history_lead",
            series=len(self._histories),
            configurations=len(self._blocks),
            runs=len(days),
            first=min(days.values()),
            last=max(days.values()),
        )

    def _opening(self, full_name: Callable[[MetricSeries], str], texts: Texts) -> list[str]:
        """Return the sentences on all series: the largest change first, and series too short."""
        changed = [history for history in self._histories if history.changes]
        opening = [texts("history_none")]
        if changed:
            count = sum(len(history.changes) for history in changed)
            quiet = len(self._histories) - len(changed)
            opening = [texts("history_changes", changes=count, series=len(changed), quiet=quiet)]
            largest_first = sorted(changes_of(changed), key=_change_percent, reverse=True)
            if _change_percent(largest_first[0]):
                change = largest_first[0]
                size, share, _ = change_in_words(change)
                largest = texts(
                    "history_largest",
                    metric=texts(f"metric_{change.series.metric.name}"),
                    configuration=full_name(change.series),
                    size=size,
                    percent=share,
                    run=run_in_words(change.after.run),
                    date=change.after.run.moment[:10],
                )
                opening.insert(0, largest)
        short = sum(len(history.series.undisturbed) < LEAST_RUNS for history in self._histories)
        trends = sum(history.has_trend for history in self._histories)
        if trends:
            opening.append(texts("history_trends", count=trends))
        if short:
            opening.append(texts("history_too_short", count=short, least=LEAST_RUNS))
        return opening

    def _group(self, setup: _Setup, names: _Names, texts: Texts) -> dict[str, Any]:
        board, chip, runtime, target = setup
        # The setup names runtime and target already.
        common = common_words(list(names)).removeprefix(runtime).removeprefix(", ")
        common = common.removeprefix(target).removeprefix(", ")
        facts = (texts.runtime(runtime), target, board, chip or "", common)
        changed: list[dict[str, Any]] = []
        quiet: list[dict[str, Any]] = []
        for block in self._shown:
            if block.setup != setup:
                continue
            name = _name(block.series.configuration, names, texts)
            values = {
                "name": name,
                "figure": block.figure,
                "note": texts("history_figure_name", configuration=name),
                "remarks": _remarks(block, texts),
            }
            (changed if block.is_changed else quiet).append(values)
        return {
            "name": "-".join(filter(None, (runtime, target, board, chip))),
            "label": ", ".join(filter(None, facts)),
            "changed": changed,
            "quiet": quiet,
            "quiet_words": texts("history_quiet", count=len(quiet)),
        }


def _change_percent(change: LevelChange) -> float:
    """Return the size of a change as a share of the level before; 0 if that was zero."""
    return abs(change.point.difference.percent or 0.0)


def _largest_percent(history: History) -> float:
    return max(map(_change_percent, history.changes), default=0.0)


def _setup_of(series: MetricSeries) -> _Setup:
    return (series.board, series.chip, series.configuration.runtime, series.configuration.target)


def _name(configuration: Configuration, names: _Names, texts: Texts) -> str:
    """Return the name that tells a configuration from others of its setup."""
    return texts.scenario(configuration.name) + names[configuration][len(configuration.name) :]


def _full_name(groups: Mapping[_Setup, _Names], texts: Texts, series: MetricSeries) -> str:
    """Return the name that tells the series' configuration from all others."""
    setup = _setup_of(series)
    name = _name(series.configuration, groups[setup], texts)
    if len(groups) == 1:
        return name
    board, _, runtime, target = setup
    return f"{texts.runtime(runtime)}, {target}, {board}{texts('colon')}{name}"


def _remarks(block: _Block, texts: Texts) -> list[str]:
    """Return the number of failed runs, the outliers, and the newest changes of conditions."""
    points = block.series.points
    remarks = []
    failed = sum(not point.values for point in points)
    if failed:
        remarks.append(texts("history_failed_runs", count=failed, runs=len(points)))
    events = set()
    for history in block.histories:
        outliers = outliers_in_words(history, texts)
        if outliers:
            figure = texts(f"metric_{history.series.metric.name}")
            remarks.append(f"{figure}{texts('colon')}{outliers}")
        for event in history.series.events:
            run = history.series.run(event.position)
            events.add(f"{run.moment}, {run_in_words(run)}: {event_in_words(event)}")
    newest = sorted(events, reverse=True)
    if len(newest) > _MOST_EVENTS:
        newest[_MOST_EVENTS:] = [texts("history_more_events", count=len(newest) - _MOST_EVENTS)]
    return remarks + newest
