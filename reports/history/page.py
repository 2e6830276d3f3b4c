"""The page of the history: what changed, then every series in figures, those that changed first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

from reusebench.reports.base.drawing_pool import finished, start_drawing
from reusebench.reports.base.pages import page_name, write_page
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.compare.names import common_words, short_names
from reusebench.reports.history.change_points import LEAST_RUNS
from reusebench.reports.history.figure import history_figure
from reusebench.reports.history.series import History, MetricSeries, changes_of
from reusebench.reports.history.table import changes_table, event_in_words, run_in_words
from reusebench.storage.run_file import BadFile
from reusebench.storage.runs import Configuration

#: The page's name inside the report's folder, without its language.
HISTORY_PAGE = "history"
#: More would make the page too large to send and too slow to make; beside a report, which takes its
#: own time, fewer.
MOST_PANELS = 120
MOST_PANELS_BESIDE = 24
#: Conditions that changed, of one configuration: the newest.
_MOST_EVENTS = 5

#: Board, chip, runtime and target.
_Setup = tuple[str, Optional[str], str, str]
#: What the configurations of a setup are called beside each other.
_Names = Mapping[Configuration, str]


@dataclass(frozen=True)
class _Block:
    """One configuration on one board: its histories, one for each metric."""

    #: What the page calls its figure.
    figure: str
    histories: Sequence[History]

    @property
    def series(self) -> MetricSeries:
        return self.histories[0].series

    @property
    def is_changed(self) -> bool:
        return any(history.changes for history in self.histories)

    @property
    def setup(self) -> _Setup:
        return _setup_of(self.series)


class HistoryPage:
    """The page in every language, whose figures are drawn while something else is done."""

    def __init__(self, histories: Sequence[History], most_panels: int = MOST_PANELS) -> None:
        """Begin to draw as many configurations as fit into so many panels, at least one."""
        self._histories = histories
        self._most_panels = most_panels
        members: dict[tuple[str, str | None, Configuration], list[History]] = {}
        for history in histories:
            series = history.series
            members.setdefault((series.board, series.chip, series.configuration), []).append(
                history
            )
        blocks = [_Block(f"h{number}", members) for number, members in enumerate(members.values())]
        # Those with change points first, then those with most runs.
        self._blocks = sorted(
            blocks, key=lambda block: (not block.is_changed, -len(block.series.points))
        )
        self._shown: list[_Block] = []
        panels = 0
        for block in self._blocks:
            panels += len(block.histories)
            if self._shown and panels > most_panels:
                break
            self._shown.append(block)
        self._figures = start_drawing(
            {
                (language, block.figure): partial(
                    history_figure, block.histories, texts_of(language)
                )
                for language in LANGUAGES
                for block in self._shown
            }
        )

    def write(
        self, folder: Path, first: str, report: str | None, bad_files: Sequence[BadFile] = ()
    ) -> list[Path]:
        """Write the page into the folder in every language, the plain name for the first, and
        return the paths.

        It links to the report of this name where that is written beside it.
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
                finished(self._figures, language),
                report=page_name(report, language, first) if report else None,
                bad_files=[texts.message(file.message) for file in bad_files],
                **self._values(texts),
            )
            paths.append(path)
        return paths

    def _values(self, texts: Texts) -> dict[str, Any]:
        histories = self._histories
        runs = {
            point.run.path: point.run for history in histories for point in history.series.points
        }
        days = sorted(run.recorded_at[:10] for run in runs.values())
        counts = {"series": len(histories), "configurations": len(self._blocks), "runs": len(runs)}
        changed = [history for history in histories if history.changes]
        opening = [texts("history_none")]
        if changed:
            count = sum(len(history.changes) for history in changed)
            quiet = len(histories) - len(changed)
            opening = [texts("history_changes", changes=count, series=len(changed), quiet=quiet)]
        short = sum(len(history.series.undisturbed) < LEAST_RUNS for history in histories)
        if short:
            opening.append(texts("history_too_short", count=short, least=LEAST_RUNS))
        configurations: dict[_Setup, list[Configuration]] = {}
        for block in self._blocks:
            configurations.setdefault(block.setup, []).append(block.series.configuration)
        names = {setup: short_names(members) for setup, members in configurations.items()}
        metrics = dict.fromkeys(history.series.metric.name for history in histories)
        left_out = len(self._blocks) - len(self._shown)
        return {
            "lead": texts("history_lead", **counts, first=days[0], last=days[-1]),
            "opening": opening,
            "changes": changes_table(
                changes_of(histories), partial(_full_name, names, texts), texts
            ),
            "meanings": [(texts(f"metric_{name}"), texts(f"meaning_{name}")) for name in metrics],
            "left_out": texts("history_left_out", count=left_out, most=self._most_panels)
            if left_out
            else "",
            "groups": [
                self._group(setup, names[setup], texts)
                for setup in dict.fromkeys(block.setup for block in self._shown)
            ],
        }

    def _group(self, setup: _Setup, names: _Names, texts: Texts) -> dict[str, Any]:
        board, chip, runtime, target = setup
        # Where these configurations ran, and what else they have in common.
        common = (
            common_words(list(names)).removeprefix(runtime).removeprefix(", ").removeprefix(target)
        )
        facts = (texts.runtime(runtime), target, board, chip or "", common.removeprefix(", "))
        changed: list[dict[str, Any]] = []
        quiet: list[dict[str, Any]] = []
        for block in self._shown:
            if block.setup == setup:
                name = _name(block.series.configuration, names, texts)
                note = texts("history_figure_name", configuration=name)
                values = {
                    "name": name,
                    "figure": block.figure,
                    "note": note,
                    "remarks": _remarks(block, texts),
                }
                (changed if block.is_changed else quiet).append(values)
        return {
            "label": ", ".join(filter(None, facts)),
            "changed": changed,
            "quiet": quiet,
            "quiet_words": texts("history_quiet", count=len(quiet)),
        }


def _setup_of(series: MetricSeries) -> _Setup:
    return (series.board, series.chip, series.configuration.runtime, series.configuration.target)


def _name(configuration: Configuration, names: _Names, texts: Texts) -> str:
    """Return what a configuration is called beside the others of its group."""
    return texts.scenario(configuration.name) + names[configuration][len(configuration.name) :]


def _full_name(groups: Mapping[_Setup, _Names], texts: Texts, series: MetricSeries) -> str:
    """Return what a series' configuration is called beside all others."""
    setup = _setup_of(series)
    name = _name(series.configuration, groups[setup], texts)
    return (
        name
        if len(groups) == 1
        else f"{texts.runtime(setup[2])}, {setup[3]}, {setup[0]}{texts('colon')}{name}"
    )


def _remarks(block: _Block, texts: Texts) -> list[str]:
    """Return how many runs failed, and the newest conditions that changed, of all metrics."""
    points = block.series.points
    failed = sum(not point.values for point in points)
    remarks = [texts("history_failed_runs", count=failed, runs=len(points))] if failed else []
    events = set()
    for history in block.histories:
        for event in history.series.events:
            run = history.series.points[event.position].run
            events.add(f"{run.moment}, {run_in_words(run)}: {event_in_words(event)}")
    newest = sorted(events, reverse=True)
    if len(newest) > _MOST_EVENTS:
        newest[_MOST_EVENTS:] = [texts("history_more_events", count=len(newest) - _MOST_EVENTS)]
    return remarks + newest
