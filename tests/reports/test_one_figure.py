"""Each figure of a row is one text, wherever it is shown: terminal, page, tables and exports."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from reusebench.harness.result_text import result_text
from reusebench.recorder.summary import print_figures
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import TABLE_FORMATS
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.compare.changes import compare_runs
from reusebench.reports.compare.exports.figures import name_of
from reusebench.reports.compare.exports.formats import EXPORTS, absent_metrics, export_runs
from reusebench.reports.compare.names import short_names
from reusebench.reports.compare.text import as_text
from reusebench.reports.material import Material, read_material
from reusebench.reports.page.exported_tables import write_tables
from reusebench.reports.page.index import write_report
from reusebench.reports.page.terminal import print_group, print_programs
from reusebench.reports.sections.programs import program_records
from reusebench.storage.formatting import mib, seconds
from reusebench.storage.metrics import METRICS
from reusebench.storage.result import Result
from reusebench.storage.runs import Run
from tests.reports.pages import plain, readable
from tests.reports.sightings import (
    ANY,
    Sighting,
    in_comparison,
    in_export,
    in_line,
    in_tables,
    in_terminal,
    on_page,
)
from tests.reports.stored import (
    FAILED,
    MIB,
    MODELS,
    changed,
    dup,
    even,
    npu_account,
    result,
    with_memory,
    with_short_memory,
    with_speed,
    write_run,
)
from tests.reports.stored_kinds import plan_results
from tests.reports.stored_programs import Repeat, program, write_programs
from tests.reports.stored_streams import Frames, streams_result

_ENGLISH = texts_of("en")
_NAMES = ("no_reuse_one_model", "full_dup", "full_dup_internal_reuse", "lean")


def _scenarios(storage: Path) -> list[Result]:
    infos = [result(storage, name, cost) for name, cost in zip(_NAMES, _COSTS)]
    return [infos[0], with_short_memory(infos[1]), *infos[2:]]


def _unmeasured_baseline(storage: Path) -> list[Result]:
    failed = result(storage, _NAMES[0], [], failure=FAILED)
    others = [result(storage, name, cost) for name, cost in zip(_NAMES[1:], _COSTS[1:])]
    return [failed, with_short_memory(others[0]), *others[1:]]


def _npu(storage: Path, computes: bool = True) -> list[Result]:
    names = [*_NAMES[:3], "copied_io", "zero_copy_io"]
    costs = [*_COSTS[:3], even(9), even(8)]
    return [
        result(storage, name, cost, npu=npu_account, computes=computes)
        for name, cost in zip(names, costs)
    ]


def _several_models(storage: Path) -> list[Result]:
    names = ("no_reuse", "partial_dup", "in_turn", "internal_reuse")
    costs = (even(40), even(20), even(40), even(39.9))
    return [result(storage, name, cost, models=MODELS[:2]) for name, cost in zip(names, costs)]


def _streams(storage: Path) -> list[Result]:
    names = ("streams_decode_only", "streams_no_reuse_one_model", "streams_full_dup")
    frames = [Frames(per_s=rate, latency_ms=rate) for rate in (43.26, 44.15, 44.4)]
    return [streams_result(storage, name, frames) for name in names]


_COSTS = (even(40), dup(40, 10), dup(20, 9), dup(20, 9.1))
#: Places that show figures of every kind of run.
_PLACES = {
    "page en",
    "page zh-CN",
    "terminal columns",
    "live line",
    "bencher",
    "github",
    "compare",
    "comparison table",
}
#: Key: a kind of run; value: a function that makes its results.
_KINDS: dict[str, Callable[[Path], list[Result]]] = {
    "scenarios": _scenarios,
    "unmeasured baseline": _unmeasured_baseline,
    "options": lambda storage: [
        result(storage, name, cost)
        for name, cost in (("default_options", even(40)), ("light=1", even(30)))
    ],
    "npu": _npu,
    "virtual board": lambda storage: _npu(storage, computes=False),
    "several models": _several_models,
    "streams": _streams,
    "plans": plan_results,
}


def _of_repeats(info: Result, count: int) -> Result:
    """Return the result with its first repeats alone."""

    def first(part: msgspec.Struct) -> Any:
        values = msgspec.structs.asdict(part)
        return msgspec.structs.replace(
            part, **{name: kept[:count] for name, kept in values.items()}
        )

    return changed(
        info,
        memory=first(info.memory),
        speed=first(info.speed),
        frames=info.frames[:count],
        repeats=info.repeats[:count],
    )


def _noisy(info: Result, draw: random.Random) -> Result:
    """Return the result with other figures in each repeat, so that no two ways to compute agree."""
    count = len(info.repeats)
    memory = info.memory
    if info.limit or any(size is None for size in memory.application_memory_bytes):
        return info

    def around(values: Iterable[int | None], spread_bytes: int) -> list[int]:
        return [(value or 0) + draw.randrange(spread_bytes) for value in values]

    application = around(memory.application_memory_bytes, 9 * MIB)
    imported = around(memory.baseline_memory_bytes, 5 * MIB)
    noisy = with_memory(
        info,
        application_memory_bytes=application,
        baseline_memory_bytes=imported,
        application_memory_over_baseline_bytes=[
            whole - before for whole, before in zip(application, imported)
        ],
        system_memory_bytes=around(memory.system_memory_bytes, 30 * MIB),
    )
    if info.plan.schedule or not info.computes:
        return noisy
    latencies = [
        tuple(draw.randrange(8_000_000, 13_000_000) for _ in info.models) for _ in range(count)
    ]
    medians = [models[0] if len(models) == 1 else None for models in latencies]
    rates = [draw.uniform(80, 120) for _ in range(count)]
    return with_speed(
        noisy,
        latency_median_ns=medians,
        model_latency_ns=latencies,
        throughput_per_s=rates,
    )


def _printed(material: Material) -> str:
    file = io.StringIO()
    console = Console(file=file, width=2000)
    for group in material.groups:
        print_group(group, "", _ENGLISH, console)
    return file.getvalue()


def _live(infos: Iterable[Result]) -> Iterable[Sighting]:
    by_name = {info.scenario: info for info in infos}
    for info in by_name.values():
        baseline = by_name.get(info.baseline or "")
        line = result_text(info, baseline)
        yield from in_line(info.scenario, line, is_npu=info.runtime == "rknn")


def _exported(material: Material) -> Iterable[Sighting]:
    (run,) = _measured(material)
    forms = {form.name: form for form in EXPORTS}
    names = {name_of(measured.configuration): measured for measured in run.measured}
    bencher = json.loads("".join(export_runs([run], forms["bencher"])))
    values = {
        f"{name}: {metric}": Figure(each["value"])
        for name, metrics in bencher.items()
        for metric, each in metrics.items()
    }
    yield from in_export("bencher", values, names)
    for form in ("github", "github-bigger"):
        if len(absent_metrics([run], forms[form].metrics)) == len(forms[form].metrics):
            continue
        entries = json.loads("".join(export_runs([run], forms[form])))
        values = {
            entry["name"].replace("_memory", "-memory").replace("frames_", "frames-"): Figure(
                entry["value"], float(entry["range"].lstrip("± "))
            )
            for entry in entries
        }
        named = {name.replace("_memory", "-memory"): each for name, each in names.items()}
        yield from in_export(form, values, named)


def _measured(material: Material) -> list[Run]:
    stored = material.results.stored
    return stored.with_measured(stored.runs)


def _compared(material: Material) -> Iterable[Sighting]:
    (run,) = _measured(material)
    changes = compare_runs([run], [run], (), METRICS)
    short = short_names([change.subject.configuration for change in changes.rows])
    of_configuration = {measured.configuration: measured for measured in run.measured}
    names = {name: of_configuration[configuration] for configuration, name in short.items()}
    yield from in_comparison(as_text(changes, None, shows_all=True), names)


def _sightings(storage: Path, infos: list[Result]) -> list[Sighting]:
    write_run(storage, infos)
    material = read_material([storage], None)
    scenarios = [info.scenario for info in infos]
    paths = write_report(material, {}, storage / "page", LANGUAGES[0])
    found: list[Sighting] = []
    for path, language in zip(paths, LANGUAGES):
        html = plain(path.read_text(encoding="utf-8"))
        found += on_page(html, texts_of(language), scenarios)
    found += in_terminal(_printed(material), _ENGLISH, scenarios)
    found += _live(infos)
    found += _exported(material)
    found += _compared(material)
    found += in_tables(write_tables(material, storage / "tables", TABLE_FORMATS))
    has_npu = any(sighting.figure == "npu" for sighting in found)
    return [_without_main(sighting, has_npu) for sighting in found]


def _without_main(sighting: Sighting, has_npu: bool) -> Sighting:
    """Return the sighting with the memory that decides by its own name."""
    names = {"main": "npu" if has_npu else "application"}
    for figure in ("saved", "saved_percent"):
        names[f"main_{figure}"] = f"npu_{figure}" if has_npu else figure
    return sighting._replace(figure=names.get(sighting.figure, sighting.figure))


def test_a_figure_of_a_program_is_one_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorder's summary, the report's terminal and page, the table and the exports agree."""
    repeats = [Repeat({"load": size, "steady": size + 7}, npu=True) for size in (20.1, 23.4, 21.2)]
    recorded = program("player", repeats)
    write_programs(tmp_path, [recorded])
    material = read_material([tmp_path], None)
    paths = write_report(material, {}, tmp_path / "page", LANGUAGES[0])
    print_figures(recorded)
    console = Console(file=io.StringIO(), width=2000)
    print_programs(material.programs, _ENGLISH, console)
    assert isinstance(console.file, io.StringIO)
    places = [
        capsys.readouterr().err,
        console.file.getvalue(),
        *(readable(path.read_text(encoding="utf-8")) for path in paths),
    ]
    (run,) = _measured(material)
    compared = as_text(compare_runs([run], [run], (), METRICS), None, shows_all=True)
    records = {record["phase"]: record for record in program_records(material.programs)}
    for phase in recorded.phases:
        memory = phase.memory
        application = Figure.of(memory.application_memory_bytes)
        npu = Figure.of(memory.npu_memory_bytes)
        duration = Figure.of(phase.durations_ns)
        assert application is not None
        assert npu is not None
        assert duration is not None
        record = records[phase.name]
        assert record["application_memory_bytes"] == application.median
        assert record["application_memory_spread_bytes"] == application.spread
        assert record["npu_memory_bytes"] == npu.median
        assert record["duration_ns"] == duration.median
        texts = [phase.name, seconds(duration, spread=False), mib(application)]
        for place in places:
            lines = place.splitlines()
            assert any(all(text in line for text in texts) for line in lines), (texts, place)
        for place in (places[0], *places[2:]):
            assert mib(npu, npu=True) in place
        assert mib(application, spread=False) in compared
        assert mib(npu, npu=True, spread=False) in compared


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("repeats", [2, 3])
def test_a_figure_is_one_text(tmp_path: Path, kind: str, repeats: int) -> None:
    """Every place shows a figure of a row in the same digits, and its spread, if it shows that."""
    draw = random.Random(repeats)
    infos = [_noisy(_of_repeats(info, repeats), draw) for info in _KINDS[kind](tmp_path)]
    by_figure: dict[tuple[str, str], list[Sighting]] = {}
    for sighting in _sightings(tmp_path, infos):
        by_figure.setdefault((sighting.scenario, sighting.figure), []).append(sighting)

    differing = {}
    known = set()
    unnamed = []
    for (scenario, figure), sightings in by_figure.items():
        if scenario == ANY:
            unnamed += sightings
            continue
        known |= {(figure, sighting.median) for sighting in sightings}
        medians = {sighting.median for sighting in sightings}
        spreads = {sighting.spread for sighting in sightings} - {None}
        if len(medians) > 1 or len(spreads) > 1:
            differing[scenario, figure] = sorted({each[2:] for each in sightings}, key=str)
    assert differing == {}
    assert {(sighting.figure, sighting.median) for sighting in unnamed} <= known
    places = {each.place.partition(",")[0] for found in by_figure.values() for each in found}
    assert places >= _PLACES
