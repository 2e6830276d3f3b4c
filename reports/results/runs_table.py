"""Every stored run, newest first: when, where, of which runtime, and how much of it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.base.formatting import EMPTY
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from storage.run_file import StoredResult, StoredRun

_HEADS = ("date", "file", "board", "runtime", "target", "measured", "lacking", "failed", "commit")
#: Characters of a commit's id that are shown.
_COMMIT = 10


def runs_table(files: Sequence[StoredRun], texts: Texts) -> Table | None:
    """Return a row for each run and runtime, and for each recorded program; None where there is no run."""
    newest_first = sorted(files, key=lambda file: file.recorded_at, reverse=True)
    rows = [("ok", cells) for file in newest_first for cells in _of_file(file, texts)]
    return Table([texts(f"column_run_{head}") for head in _HEADS], rows) if rows else None


def _of_file(file: StoredRun, texts: Texts) -> Iterator[list[Cell]]:
    yield from (_of_runtime(file, results, texts) for results in _by_runtime(file))
    for program in file.programs:
        yield _cells(file, texts("program_run", name=program.name), EMPTY, [program.outcome], texts)


def _by_runtime(file: StoredRun) -> Iterator[list[StoredResult]]:
    of_runtimes: dict[tuple[str, str | None, str], list[StoredResult]] = {}
    for result in file.results:
        key = (result.info.runtime, result.info.runtime_version, result.info.target)
        of_runtimes.setdefault(key, []).append(result)
    yield from of_runtimes.values()


def _of_runtime(file: StoredRun, results: Sequence[StoredResult], texts: Texts) -> list[Cell]:
    info = results[0].info
    version = (info.runtime_version or EMPTY).partition(" ")[0]
    outcomes = [result.info.outcome for result in results]
    return _cells(file, f"{texts.runtime(info.runtime)} {version}", info.target, outcomes, texts)


def _cells(file: StoredRun, what: str, target: str, outcomes: Sequence[str], texts: Texts) -> list[Cell]:
    measured, lacking = outcomes.count("ok"), outcomes.count("not_supported")
    return [
        Cell(file.recorded_at[:16].replace("T", " "), False),
        Cell(file.path.name if file.is_finished else texts("run_unfinished", file=file.path.name), False),
        Cell(file.board, False),
        Cell(what, False),
        Cell(target, False),
        *(Cell(str(count)) for count in (measured, lacking, len(outcomes) - measured - lacking)),
        Cell((file.commit.id or EMPTY)[:_COMMIT], False),
    ]
