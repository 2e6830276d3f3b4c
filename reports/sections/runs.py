"""The list of stored runs."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.reports.base.formatting import EMPTY, to_the_minute
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.storage.run_file import StoredResult, StoredRun

#: Characters of a commit's id that are shown.
_COMMIT = 10


class RunsSection(Section):
    """Every stored run."""

    name = "runs"
    needs_groups = False

    def values(self, page: Page) -> Values:
        """Return the table of runs, and what is wrong with unreadable files."""
        # If the page shows groups, the section of failures has these files.
        bad_files = [] if page.groups else page.material.bad_files
        return {
            "table": runs_table(page.material.files, page.texts),
            "bad_files": [page.texts.message(file.message) for file in bad_files],
        }


def runs_table(files: Sequence[StoredRun], texts: Texts) -> Table | None:
    """Return a row for each runtime and each recorded program of a run, newest first; None without
    runs.
    """
    lines = []
    for file in sorted(files, key=lambda file: file.order, reverse=True):
        measured: list[tuple[str, str, list[str]]] = []
        of_runtimes: dict[tuple[str, str, str], list[StoredResult]] = {}
        for result in file.results:
            version = (result.info.runtime_version or EMPTY).partition(" ")[0]
            of_runtimes.setdefault((result.info.runtime, version, result.info.target), []).append(
                result
            )
        for (runtime, version, target), results in of_runtimes.items():
            outcomes = [result.info.outcome for result in results]
            measured.append((f"{texts.runtime(runtime)} {version}", target, outcomes))
        for program in file.programs:
            measured.append((texts("program_run", name=program.name), EMPTY, [program.outcome]))
        name = file.file_name if file.is_finished else texts("run_unfinished", file=file.file_name)
        for subject, target, outcomes in measured:
            ok = outcomes.count("ok")
            lacking = outcomes.count("not_supported")
            counts = [str(count) for count in (ok, lacking, len(outcomes) - ok - lacking)]
            cells = [to_the_minute(file.recorded_at), name, file.board, subject, target, *counts]
            lines.append(("ok", [*cells, (file.commit.id or EMPTY)[:_COMMIT]]))
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
    return Table(heads, lines, words=(0, 1, 2, 3, 4, 8)) if lines else None
