"""Stored files with empty parts: a report shows them, or refuses them with a message."""

from __future__ import annotations

import io
import traceback
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from reusebench.reports.base.texts import texts_of
from reusebench.reports.errors import ReportError
from reusebench.reports.history.series import HISTORY_METRICS
from reusebench.reports.material import read_material
from reusebench.reports.page.exported_tables import TABLES
from reusebench.reports.page.index import page_values
from reusebench.reports.page.terminal import print_answer, print_group, print_programs
from reusebench.reports.sections.leaks import leaks_figure
from reusebench.reports.sections.programs import programs_figure
from reusebench.reports.sections.section import Page
from reusebench.reports.sections.timeline import timeline_figure
from reusebench.storage.metrics import find_metric
from reusebench.storage.trace import ProgramTrace, Trace
from tests.reports.emptied import emptied
from tests.reports.history.history_storage import histories_of_runs
from tests.reports.stored import even, npu_account, result, write_run
from tests.reports.stored_kinds import KINDS, StoredValue
from tests.reports.stored_programs import Repeat, program, trace, write_programs

_ENGLISH = texts_of("en")


def _places(value: StoredValue) -> list[str]:
    """Return the names of the value's places that can be empty and are not."""
    return [case.where for case in emptied(value.value_in(value.document()), value.kind)]


def _written(value: StoredValue, chosen: Container[str]) -> Iterator[str]:
    """Write the file with each chosen place empty, yield that place, and restore the file."""
    before = value.file.read_bytes()
    document = value.document()
    for case in emptied(value.value_in(document), value.kind):
        if case.where in chosen:
            value.file.write_bytes(value.content(value.put(document, case.document)))
            yield case.where
    value.file.write_bytes(before)


# Readers


def _show(storage: Path) -> None:
    """Make the whole report of the storage; a refusal must have a message."""
    try:
        material = read_material([storage], None)
    except ReportError:
        return
    assert all(_ENGLISH.message(file.message) for file in material.bad_files)
    if material.groups or material.programs:
        page_values(material, _ENGLISH)
    for table in TABLES:
        list(table.records(material))
    console = Console(file=io.StringIO(), width=200)
    for group in material.groups:
        print_group(group, "", _ENGLISH, console)
    print_programs(material.programs, _ENGLISH, console)
    if material.groups:
        print_answer(Page(material, _ENGLISH), console)
    metrics = [find_metric(name) for name in HISTORY_METRICS]
    stored = material.results.stored
    histories_of_runs(stored.with_measured(stored.runs, metrics), metrics)


def _draw(storage: Path) -> None:
    """Draw the figures that come from traces and from readings of cycles."""
    try:
        material = read_material([storage], None)
    except ReportError:
        return
    for group in material.groups:
        timeline_figure(group.rows, _ENGLISH)
        leaks_figure(group.questions.get("leaks", ()), _ENGLISH)
    programs_figure(material.programs, _ENGLISH)


def _tracebacks(
    storage: Path,
    stored: Sequence[StoredValue],
    show: Callable[[Path], None],
    chosen: Sequence[Container[str]],
) -> list[str]:
    """Return the chosen places whose empty value ends in a traceback, with its last lines."""
    wrong = []
    for value, places in zip(stored, chosen):
        for where in _written(value, places):
            try:
                show(storage)
            except Exception:
                wrong.append(
                    f"{where}: {''.join(traceback.format_exc().splitlines(keepends=True)[-3:])}"
                )
    return wrong


def _all_places(stored: Sequence[StoredValue]) -> list[list[str]]:
    """Return the places of each value."""
    return [_places(value) for value in stored]


def _one_of_each(stored: Sequence[StoredValue], name: str) -> list[set[str]]:
    """Return places of each value, each place in one value; `name` decides in which."""
    owners: dict[str, list[int]] = {}
    for index, places in enumerate(_all_places(stored)):
        for where in places:
            owners.setdefault(where, []).append(index)
    chosen: list[set[str]] = [set() for _ in stored]
    for where, indexes in owners.items():
        turn = zlib.crc32(f"{name} {where}".encode())
        chosen[indexes[turn % len(indexes)]].add(where)
    return chosen


@pytest.mark.parametrize("name", KINDS)
def test_whatever_is_empty_is_shown_or_refused(name: str, tmp_path: Path) -> None:
    """An empty list, mapping or optional field ends in no traceback."""
    stored = KINDS[name](tmp_path)
    _show(tmp_path)
    chosen = _one_of_each(stored, name)
    assert sum(map(len, chosen)) > len(stored)
    assert _tracebacks(tmp_path, stored, _show, chosen) == []


@pytest.mark.parametrize("name", ["leaks", "programs"])
def test_lists_that_are_empty_together_are_drawn_or_left_out(name: str, tmp_path: Path) -> None:
    """Without any repeat, or any cycle, there is no figure."""
    stored = KINDS[name](tmp_path)
    together = [[where for where in places if " and " in where] for places in _all_places(stored)]
    assert any(together)
    assert _tracebacks(tmp_path, stored, _draw, together) == []


def test_whatever_is_empty_in_a_trace_is_drawn_or_left_out(tmp_path: Path) -> None:
    """The figure of a trace can do without each optional part."""
    info = result(tmp_path, "no_reuse", even(90, repeats=1), npu=npu_account, computes=False)
    write_run(tmp_path, [info])
    stored = [StoredValue(tmp_path / info.repeats[0].trace, (), Trace)]
    places = _all_places(stored)
    assert any(places)
    assert _tracebacks(tmp_path, stored, _draw, places) == []


def test_whatever_is_empty_in_a_trace_of_a_program_is_drawn_or_left_out(tmp_path: Path) -> None:
    """The same holds for a recorded program."""
    path = trace(tmp_path, "player", npu=True)
    write_programs(
        tmp_path, [program("player", [Repeat({"load": 20, "steady": 40}, path, npu=True)])]
    )
    stored = [StoredValue(tmp_path / path, (), ProgramTrace)]
    places = _all_places(stored)
    assert any(places)
    assert _tracebacks(tmp_path, stored, _draw, places) == []
