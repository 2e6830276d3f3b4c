"""The list of stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reusebench.reports.base.formatting import EMPTY, to_the_minute
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.storage.run_file import StoredRun

#: Length of the shown part of a commit's id.
_COMMIT = 10


class RunsSection(Section):
    """Every stored run."""

    name = "runs"
    needs_groups = False

    def summary(self, page: Page) -> str:
        """Return the number of stored runs, and the time of the newest."""
        files = page.material.files
        return _runs_in_words(files, page.texts) if files else ""

    def is_empty(self, values: Values) -> bool:
        """Whether there is nothing beyond what the groups' conditions say: a single run."""
        table = values["table"]
        return table is None or (values["is_told"] and len(table.rows) == 1)

    def values(self, page: Page) -> Values:
        """Return the table of runs, and what is wrong with unreadable files."""
        # If the page shows groups, the section of failures has these files.
        bad_files = [] if page.groups else page.material.bad_files
        return {
            "is_told": bool(page.groups) and all(file.is_finished for file in page.material.files),
            "table": runs_table(page.material.files, page.texts),
            "bad_files": [page.texts.message(file.message) for file in bad_files],
        }


def _runs_in_words(files: Sequence[StoredRun], texts: Texts) -> str:
    newest = max(files, key=lambda file: file.order)
    date = to_the_minute(newest.recorded_at)
    return texts("summary_runs", count=len(files), date=date)


def runs_table(files: Sequence[StoredRun], texts: Texts) -> Table | None:
    """Return a row for each runtime and each program of a run, newest first; None without runs."""
    lines = []
    for file in sorted(files, key=lambda file: file.order, reverse=True):
        name = file.file_name
        if not file.is_finished:
            name = texts("run_unfinished", file=name, end=texts(f"outcome_{file.end}"))
        commit = (file.commit.id or EMPTY)[:_COMMIT]
        for measured in (*_runtimes(file, texts), *_programs(file, texts)):
            ok = measured.outcomes.count("ok")
            lacking = measured.outcomes.count("not_supported")
            failed = len(measured.outcomes) - ok - lacking
            cells = [
                to_the_minute(file.recorded_at),
                name,
                file.board,
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


def _runtimes(file: StoredRun, texts: Texts) -> list[_Measured]:
    outcomes: dict[tuple[str, str, str], list[str]] = {}
    for result in file.results:
        info = result.info
        version = (info.runtime_version or EMPTY).partition(" ")[0]
        outcomes.setdefault((info.runtime, version, info.target), []).append(info.outcome)
    return [
        _Measured(f"{texts.runtime(runtime)} {version}", target, outcomes_of_runtime)
        for (runtime, version, target), outcomes_of_runtime in outcomes.items()
    ]


def _programs(file: StoredRun, texts: Texts) -> list[_Measured]:
    return [
        _Measured(texts("program_run", name=program.name), EMPTY, [program.outcome])
        for program in file.programs
    ]
