"""The list of stored runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reusebench.reports.base.formatting import EMPTY, to_the_minute
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.stored_results import StoredResults
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.storage.result_summary import PROGRAM, ResultSummary
from reusebench.storage.run_file import file_name
from reusebench.storage.runs import RunSummary

#: Length of the shown part of a commit's id.
_COMMIT = 10
#: Runs that the table shows. With more the page would be too large to read.
MOST_RUNS = 200


class RunsSection(Section):
    """The newest stored runs."""

    name = "runs"
    needs_groups = False

    def summary(self, page: Page) -> str:
        """Return the number of stored runs, and the time of the newest."""
        runs = page.material.results.runs
        return _runs_in_words(runs, page.texts) if runs else ""

    def is_empty(self, values: Values) -> bool:
        """Whether there is nothing beyond what the groups' conditions say: a single run."""
        table = values["table"]
        return table is None or (values["is_told"] and len(table.rows) == 1)

    def values(self, page: Page) -> Values:
        """Return the table of runs, and what is wrong with unreadable files."""
        # If the page shows groups, the section of failures has these files.
        bad_files = [] if page.groups else page.material.bad_files
        results = page.material.results
        return {
            "is_told": bool(page.groups) and all(run.is_finished for run in results.runs),
            "table": runs_table(results, page.texts),
            "left_out": max(0, len(results.runs) - MOST_RUNS),
            "shown": MOST_RUNS,
            "bad_files": [page.texts.message(file.message) for file in bad_files],
        }


def _runs_in_words(runs: Sequence[RunSummary], texts: Texts) -> str:
    newest = max(runs, key=lambda run: run.order)
    date = to_the_minute(newest.recorded_at)
    return texts("summary_runs", count=len(runs), date=date)


def runs_table(results: StoredResults, texts: Texts) -> Table | None:
    """Return a row for each runtime and each program of a run, newest first; None without runs."""
    lines = []
    shown = results.newest_first[:MOST_RUNS]
    summaries: dict[int, list[ResultSummary]] = {run: [] for run in shown}
    for place, summary in results.summaries(shown):
        summaries[place.run].append(summary)
    for number, of_run in summaries.items():
        run = results.runs[number]
        name = file_name(run.path)
        if not run.is_finished:
            end = results.end_of(number)
            name = texts("run_unfinished", file=name, end=texts(f"outcome_{end}"))
        commit = (of_run[0].commit or EMPTY)[:_COMMIT] if of_run else EMPTY
        for measured in (*_runtimes(of_run, texts), *_programs(of_run, texts)):
            ok = measured.outcomes.count("ok")
            lacking = measured.outcomes.count("not_supported")
            failed = len(measured.outcomes) - ok - lacking
            cells = [
                to_the_minute(run.recorded_at),
                name,
                run.board,
                measured.subject,
                measured.target,
                str(ok),
                str(lacking),
                str(failed),
                commit,
            ]
            lines.append(("ok", cells))
    if not lines:
        return None
    names = (
        "date",
        "file",
        "board",
        "runtime",
        "target",
        "measured",
        "lacking",
        "failed",
        "commit",
    )
    heads = heads_of((f"column_run_{name}" for name in names), texts)
    return Table(heads, lines, words=(0, 1, 2, 3, 4, 8), exported="runs")


class _Measured(NamedTuple):
    """A runtime or program of a run, with the outcomes of its results."""

    subject: str
    target: str
    outcomes: list[str]


def _runtimes(summaries: Iterable[ResultSummary], texts: Texts) -> list[_Measured]:
    outcomes: dict[tuple[str, str, str], list[str]] = {}
    for summary in summaries:
        if summary.runtime != PROGRAM:
            version = (summary.runtime_version or EMPTY).partition(" ")[0]
            key = (summary.runtime, version, summary.target or "")
            outcomes.setdefault(key, []).append(summary.outcome)
    return [
        _Measured(f"{texts.runtime(runtime)} {version}", target, outcomes_of_runtime)
        for (runtime, version, target), outcomes_of_runtime in outcomes.items()
    ]


def _programs(summaries: Iterable[ResultSummary], texts: Texts) -> list[_Measured]:
    return [
        _Measured(texts("program_run", name=summary.scenario), EMPTY, [summary.outcome])
        for summary in summaries
        if summary.runtime == PROGRAM
    ]
