"""The page of the history: what changed, then every series in figures, those that changed first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

from reports.base.drawing_pool import draw_all
from reports.base.languages import every_language
from reports.base.messages import in_words
from reports.base.pages import write_html
from reports.base.texts import Texts
from reports.compare.names import common_words, short_names
from reports.history.change_points import LEAST_RUNS
from reports.history.figure import history_figure, history_legend
from reports.history.levels import HISTORY_METRICS, History, changes_of, histories_of, is_worth_a_page
from reports.history.series import Event, Series
from reports.history.table import changes_table
from reports.history.text import event, place
from storage.metrics import find_metric
from storage.run_file import BadFile, StoredRun
from storage.runs import Configuration, run_of

#: The page's name inside the report's folder.
PAGE = "history.html"
#: More would make the page too large to send and too slow to make.
MOST_PANELS = 120
#: Beside a report, which takes its own time.
_PANELS_BESIDE = 24
#: Conditions that changed, of one configuration: the newest.
_MOST_EVENTS = 5

#: Board, chip, runtime and target.
_Place = tuple[str, Optional[str], str, str]
#: What the configurations of a place are called beside each other.
_Names = Mapping[Configuration, str]


@dataclass(frozen=True)
class _Block:
    """One configuration on one board: its histories, one for each metric."""

    #: What the page calls its figure.
    figure: str
    histories: Sequence[History]

    @property
    def series(self) -> Series:
        return self.histories[0].series

    @property
    def is_changed(self) -> bool:
        return any(history.changes for history in self.histories)

    @property
    def place(self) -> _Place:
        return _place(self.series)


def write_history(
    histories: Sequence[History],
    folder: Path,
    language: str,
    bad_files: Sequence[BadFile] = (),
    report: str | None = None,
    most_panels: int = MOST_PANELS,
) -> Path:
    """Write the page into the folder, that language shown first, and return its path.

    Where the report of the newest results stands beside it, it is named, and the page links to it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    blocks = _blocks(histories)
    shown = _shown(blocks, most_panels)
    return write_html(
        folder / PAGE,
        "history.html.j2",
        "history_title",
        language,
        draw_all({block.figure: partial(history_figure, block.histories) for block in shown}),
        report=report,
        bad_files=every_language(lambda texts: [in_words(file.message, texts) for file in bad_files]),
        **every_language(partial(_page_data, histories, blocks, shown, most_panels)),
    )


def write_history_beside(
    report: str, files: Iterable[StoredRun], folder: Path, language: str, bad_files: Sequence[BadFile]
) -> Path | None:
    """Write the page beside that report, or nothing where no series has enough runs; return its path."""
    histories = histories_of(map(run_of, files), [find_metric(name) for name in HISTORY_METRICS])
    if not is_worth_a_page(histories):
        return None
    return write_history(histories, folder, language, bad_files, report, _PANELS_BESIDE)


def _blocks(histories: Sequence[History]) -> list[_Block]:
    """Return the configurations, those with change points first, then those with most runs."""
    found: dict[tuple[str, str | None, Configuration], list[History]] = {}
    for history in histories:
        series = history.series
        found.setdefault((series.board, series.chip, series.configuration), []).append(history)
    blocks = [_Block(f"h{number}", each) for number, each in enumerate(found.values())]
    return sorted(blocks, key=lambda block: (not block.is_changed, -len(block.series.points)))


def _shown(blocks: Sequence[_Block], most_panels: int) -> list[_Block]:
    """Return as many configurations as there is room for, at least one."""
    shown: list[_Block] = []
    for block in blocks:
        if shown and sum(len(each.histories) for each in (*shown, block)) > most_panels:
            break
        shown.append(block)
    return shown


def _page_data(
    histories: Sequence[History], blocks: Sequence[_Block], shown: Sequence[_Block], most_panels: int, texts: Texts
) -> dict[str, Any]:
    groups = _groups(blocks)
    names = {place: short_names(configurations) for place, configurations in groups.items()}
    return {
        "lead": _lead(histories, blocks, texts),
        "opening": _opening(histories, texts),
        "changes": changes_table(changes_of(histories), partial(_full_name, names, texts), texts),
        "key": history_legend(texts),
        "legends": {block.figure: [] for block in shown},
        "meanings": _meanings(histories, texts),
        "left_out": _left_out(len(blocks) - len(shown), most_panels, texts),
        "groups": [
            _group(place, names[place], shown, texts) for place in dict.fromkeys(block.place for block in shown)
        ],
    }


def _groups(blocks: Sequence[_Block]) -> dict[_Place, list[Configuration]]:
    found: dict[_Place, list[Configuration]] = {}
    for block in blocks:
        found.setdefault(block.place, []).append(block.series.configuration)
    return found


def _place(series: Series) -> _Place:
    return (series.board, series.chip, series.configuration.runtime, series.configuration.target)


def _lead(histories: Sequence[History], blocks: Sequence[_Block], texts: Texts) -> str:
    runs = {point.run.path: point.run for history in histories for point in history.series.points}
    days = sorted(run.recorded_at[:10] for run in runs.values())
    counts = {"series": len(histories), "configurations": len(blocks), "runs": len(runs)}
    return texts("history_lead", **counts, first=days[0], last=days[-1])


def _opening(histories: Sequence[History], texts: Texts) -> list[str]:
    changed = [history for history in histories if history.changes]
    short = sum(len(history.series.undisturbed) < LEAST_RUNS for history in histories)
    count, quiet = sum(len(history.changes) for history in changed), len(histories) - len(changed)
    first = texts("history_changes", changes=count, series=len(changed), quiet=quiet)
    said = [first if changed else texts("history_none")]
    return said + ([texts("history_too_short", count=short, least=LEAST_RUNS)] if short else [])


def _meanings(histories: Sequence[History], texts: Texts) -> list[tuple[str, str]]:
    """Return what each metric of the page is."""
    names = dict.fromkeys(history.series.metric.name for history in histories)
    return [(texts(f"metric_{name}"), texts(f"meaning_{name}")) for name in names]


def _left_out(count: int, most_panels: int, texts: Texts) -> str:
    return texts("history_left_out", count=count, most=most_panels) if count else ""


def _group(place: _Place, names: _Names, shown: Sequence[_Block], texts: Texts) -> dict[str, Any]:
    own = [block for block in shown if block.place == place]
    changed, quiet = (
        [
            _block(block, _name(block.series.configuration, names, texts), texts)
            for block in own
            if block.is_changed == side
        ]
        for side in (True, False)
    )
    return {
        "label": _label(place, list(names), texts),
        "changed": changed,
        "quiet": quiet,
        "quiet_words": texts("history_quiet", count=len(quiet)),
    }


def _label(place: _Place, configurations: Sequence[Configuration], texts: Texts) -> str:
    """Return where these configurations ran, and what else they have in common."""
    board, chip, runtime, target = place
    common = common_words(configurations).removeprefix(runtime).removeprefix(", ").removeprefix(target)
    facts = (texts.runtime(runtime), target, board, chip or "", common.removeprefix(", "))
    return ", ".join(fact for fact in facts if fact)


def _name(configuration: Configuration, names: _Names, texts: Texts) -> str:
    """Return what a configuration is called beside the others of its group."""
    return texts.scenario(configuration.name) + names[configuration][len(configuration.name) :]


def _full_name(groups: Mapping[_Place, _Names], texts: Texts, series: Series) -> str:
    """Return what a series' configuration is called beside all others."""
    place = _place(series)
    name = _name(series.configuration, groups[place], texts)
    return name if len(groups) == 1 else f"{texts.runtime(place[2])}, {place[3]}, {place[0]}{texts('colon')}{name}"


def _block(block: _Block, name: str, texts: Texts) -> dict[str, Any]:
    failed = sum(not point.values for point in block.series.points)
    remarks = [texts("history_failed_runs", count=failed, runs=len(block.series.points))] if failed else []
    note = texts("history_figure_name", configuration=name)
    return {"name": name, "figure": block.figure, "note": note, "remarks": remarks + _events(block, texts)}


def _events(block: _Block, texts: Texts) -> list[str]:
    """Return the newest conditions that changed, of all metrics."""
    found = {_event(history.series, each): None for history in block.histories for each in history.series.events}
    newest = sorted(found, reverse=True)
    more = [texts("history_more_events", count=len(newest) - _MOST_EVENTS)] if len(newest) > _MOST_EVENTS else []
    return newest[:_MOST_EVENTS] + more


def _event(series: Series, each: Event) -> str:
    run = series.points[each.place].run
    return f"{run.moment}, {place(run)}: {event(each)}"
