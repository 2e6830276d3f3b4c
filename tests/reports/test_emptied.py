"""Stored files with empty parts: a report shows them, or refuses them with a message."""

from __future__ import annotations

import gzip
import io
import json
import traceback
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from reusebench.measured.messages import Message
from reusebench.measured.plan import DUP, Context, Plan
from reusebench.reports.base.texts import texts_of
from reusebench.reports.errors import ReportError
from reusebench.reports.history.series import HISTORY_METRICS, histories_of
from reusebench.reports.material import read_material
from reusebench.reports.page.exported_tables import TABLES
from reusebench.reports.page.index import page_values
from reusebench.reports.page.terminal import print_group, print_opening, print_programs
from reusebench.reports.results.labels import labels_of
from reusebench.reports.sections.answer import opening
from reusebench.reports.sections.leaks import leaks_figure
from reusebench.reports.sections.programs import programs_figure
from reusebench.reports.sections.timeline import timeline_figure
from reusebench.scenarios.catalogue import without_reuse
from reusebench.storage.fit_answer import FitAnswer, FitGroup, FitPoint, FitShortage, write_answer
from reusebench.storage.metrics import find_metric
from reusebench.storage.recorded_program import Program
from reusebench.storage.result import Result
from reusebench.storage.run_file import PROGRAMS, WITHOUT_SPEED
from reusebench.storage.runs import run_of
from reusebench.storage.trace import ProgramTrace, Trace
from tests.reports.emptied import emptied
from tests.reports.sections.test_leaks import cycles_result
from tests.reports.sections.test_limit import limited
from tests.reports.stored import (
    FAILED,
    MIB,
    MODELS,
    dup,
    even,
    npu_account,
    result,
    with_short_memory,
    write_run,
)
from tests.reports.stored_programs import Repeat, program, trace, write_programs
from tests.reports.stored_streams import HOT, Frames, streams_result

_ENGLISH = texts_of("en")
_PLAN = Plan(
    "gate",
    "gate.no_reuse",
    "onnxruntime",
    MODELS[:1],
    (Context(0, 0, name="first"), Context(1, 0, DUP, 0, name="second")),
    cores=2,
    rounds=2,
)


@dataclass(frozen=True)
class _Stored:
    """A value in a stored file."""

    file: Path
    #: Keys and indexes from the root of the file's document.
    path: tuple[Any, ...]
    kind: Any

    def document(self) -> Any:
        """Return the document of the file."""
        content = self.file.read_bytes()
        return json.loads(gzip.decompress(content) if self.file.suffix == ".gz" else content)

    def places(self) -> list[str]:
        """Return the names of the value's places that can be empty and are not."""
        return [case.where for case in emptied(self._value(self.document()), self.kind)]

    def written(self, chosen: Container[str]) -> Iterator[str]:
        """Write the file with each chosen place empty, yield that place, and restore the file."""
        before = self.file.read_bytes()
        document = self.document()
        for case in emptied(self._value(document), self.kind):
            if case.where in chosen:
                self._write(self._with(document, case.document))
                yield case.where
        self.file.write_bytes(before)

    def _value(self, document: Any) -> Any:
        value = document
        for key in self.path:
            value = value[key]
        return value

    def _with(self, document: Any, value: Any) -> Any:
        """Return the document with this value in place of its own."""
        if not self.path:
            return value
        *before, last = self.path
        holder = document
        for key in before:
            holder = holder[key]
        holder[last] = value
        return document

    def _write(self, document: Any) -> None:
        content = msgspec.json.encode(document)
        self.file.write_bytes(gzip.compress(content, 1) if self.file.suffix == ".gz" else content)


# Stored values


def _results(storage: Path, *infos: Result) -> list[_Stored]:
    """Write a run of the results, and return each with its file."""
    file = write_run(storage, infos)
    document = json.loads(file.read_bytes())
    places = [
        (part, index)
        for part in ("benchmarks", WITHOUT_SPEED)
        for index in range(len(document[part]))
    ]
    return [_Stored(file, (*place, "extra_info"), Result) for place in places]


def _of_scenarios(*names: str, **options: Any) -> Callable[[Path], list[_Stored]]:
    """Return a function that writes a run of these scenarios, the first without reuse."""

    def write(storage: Path) -> list[_Stored]:
        costs = [even(40, spread=0.5), *[dup(40, 10)] * (len(names) - 1)]
        samples = ((1.0, None),)
        return _results(
            storage,
            *(
                result(storage, name, cost, samples=samples, **options)
                for name, cost in zip(names, costs)
            ),
        )

    return write


def _short_and_failed(storage: Path) -> list[_Stored]:
    failed = result(storage, "shared_context", [], failure=FAILED)
    return _results(
        storage, with_short_memory(result(storage, "no_reuse_one_model", even(40))), failed
    )


def _streams(storage: Path) -> list[_Stored]:
    frames = [Frames(machine=HOT, seconds=20.0)] * 3
    names = ("streams_decode_only", "streams_no_reuse_one_model", "streams_full_dup")
    return _results(storage, *(streams_result(storage, name, frames) for name in names))


def _leaks(storage: Path) -> list[_Stored]:
    return _results(
        storage,
        cycles_result(storage, memory=lambda cycle: MIB * cycle),
        cycles_result(storage, "cycles_dups"),
    )


def _limit(storage: Path) -> list[_Stored]:
    return _results(
        storage, limited(storage, "limit_no_reuse", 4), limited(storage, "limit_full_dup", 9)
    )


def _plans(storage: Path) -> list[_Stored]:
    plans = (without_reuse(_PLAN), _PLAN)
    costs = [[40 * MIB, 20 * MIB]] * 3
    return _results(
        storage,
        *(result(storage, plan.scenario, costs, plan=plan, models=plan.models) for plan in plans),
    )


def _programs(storage: Path) -> list[_Stored]:
    repeat = Repeat(
        {"load": 20, "steady": 40}, npu=True, signs=(Message("shortage_evicted", {"mib": "30.0"}),)
    )
    file = write_programs(storage, [program("player", [repeat] * 2), program("other", [repeat])])
    return [_Stored(file, (PROGRAMS, 0), Program)]


def _fit(storage: Path) -> list[_Stored]:
    info = result(storage, "no_reuse", even(40))
    write_run(storage, [info])
    words = (Message("shortage_evicted", {"mib": "30.0"}),)
    point = FitPoint(
        layout=(FitGroup("model-a", ()),),
        contexts=2,
        lanes=1,
        bytes=MIB,
        limited_bytes=MIB,
        frames_per_s=30.0,
    )
    optional: dict[str, Any] = {
        name: 40 * MIB
        for name in FitAnswer.__struct_fields__
        if name.startswith(("predicted_", "measured_"))
    }
    components = {name: {"weights": MIB} for name in optional if name.endswith("components_bytes")}
    answer = FitAnswer(
        recorded_at="2026-11-30T12:00:00+00:00",
        runtime="onnxruntime",
        runtime_version="1.2.3",
        target="python",
        chip=None,
        models=("model-a",),
        streams=(1,),
        contexts=2,
        cores=2,
        fps=25.0,
        limit_of="application_memory",
        limit_bytes=64 * MIB,
        fits=True,
        recommended=info.plan,
        least_bytes=MIB,
        today=point,
        best=point,
        frontier=(point,),
        points=(point, msgspec.structs.replace(point, bytes=2.0 * MIB)),
        layouts=2,
        busy_percent=0.0,
        short=(FitShortage("fit", words),),
        **{**optional, **components},
    )
    return [_Stored(write_answer(storage, answer), (), FitAnswer)]


_SAMPLES: dict[str, Callable[[Path], list[_Stored]]] = {
    "reuse": _of_scenarios("no_reuse_one_model", "full_dup"),
    "npu": _of_scenarios(
        "no_reuse_one_model", "full_dup_internal_reuse", npu=npu_account, computes=False
    ),
    "shared weights": _of_scenarios("resolutions_2", "shared_weights_2", npu=npu_account),
    "copies": _of_scenarios("copied_io", "zero_copy_io", npu=npu_account),
    "options": _of_scenarios("default_options", "light=1"),
    "short memory, a failure": _short_and_failed,
    "streams": _streams,
    "leaks": _leaks,
    "limit": _limit,
    "plans": _plans,
    "programs": _programs,
    "fit": _fit,
}


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
        print_group(group, _ENGLISH, console)
    print_programs(material.programs, _ENGLISH, console)
    if material.groups:
        print_opening(
            opening(material.groups, labels_of(material.groups, _ENGLISH), _ENGLISH),
            _ENGLISH,
            console,
        )
    histories_of(map(run_of, material.files), [find_metric(name) for name in HISTORY_METRICS])


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
    stored: Sequence[_Stored],
    show: Callable[[Path], None],
    chosen: Sequence[Container[str]],
) -> list[str]:
    """Return the chosen places whose empty value ends in a traceback, with its last lines."""
    wrong = []
    for value, places in zip(stored, chosen):
        for where in value.written(places):
            try:
                show(storage)
            except Exception:
                wrong.append(
                    f"{where}: {''.join(traceback.format_exc().splitlines(keepends=True)[-3:])}"
                )
    return wrong


def _all_places(stored: Sequence[_Stored]) -> list[list[str]]:
    """Return the places of each value."""
    return [value.places() for value in stored]


def _one_of_each(stored: Sequence[_Stored], name: str) -> list[set[str]]:
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


@pytest.mark.parametrize("name", _SAMPLES)
def test_whatever_is_empty_is_shown_or_refused(name: str, tmp_path: Path) -> None:
    """An empty list, mapping or optional field ends in no traceback."""
    stored = _SAMPLES[name](tmp_path)
    _show(tmp_path)
    chosen = _one_of_each(stored, name)
    assert sum(map(len, chosen)) > len(stored)
    assert _tracebacks(tmp_path, stored, _show, chosen) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", _SAMPLES)
def test_whatever_is_empty_is_shown_or_refused_in_every_result(name: str, tmp_path: Path) -> None:
    """The same holds for other results with the same places."""
    stored = _SAMPLES[name](tmp_path)
    others = [
        set(places) - tried
        for places, tried in zip(_all_places(stored), _one_of_each(stored, name))
    ]
    assert _tracebacks(tmp_path, stored, _show, others) == []


@pytest.mark.parametrize("name", ["leaks", "programs"])
def test_lists_that_are_empty_together_are_drawn_or_left_out(name: str, tmp_path: Path) -> None:
    """Without any repeat, or any cycle, there is no figure."""
    stored = _SAMPLES[name](tmp_path)
    together = [[where for where in places if " and " in where] for places in _all_places(stored)]
    assert any(together)
    assert _tracebacks(tmp_path, stored, _draw, together) == []


def test_whatever_is_empty_in_a_trace_is_drawn_or_left_out(tmp_path: Path) -> None:
    """The figure of a trace can do without each optional part."""
    info = result(tmp_path, "no_reuse", even(90, repeats=1), npu=npu_account, computes=False)
    write_run(tmp_path, [info])
    stored = [_Stored(tmp_path / info.repeats[0].trace, (), Trace)]
    places = _all_places(stored)
    assert any(places)
    assert _tracebacks(tmp_path, stored, _draw, places) == []


def test_whatever_is_empty_in_a_trace_of_a_program_is_drawn_or_left_out(tmp_path: Path) -> None:
    """The same holds for a recorded program."""
    path = trace(tmp_path, "player", npu=True)
    write_programs(
        tmp_path, [program("player", [Repeat({"load": 20, "steady": 40}, path, npu=True)])]
    )
    stored = [_Stored(tmp_path / path, (), ProgramTrace)]
    places = _all_places(stored)
    assert any(places)
    assert _tracebacks(tmp_path, stored, _draw, places) == []
