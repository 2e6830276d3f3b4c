"""Summaries of stored runs: the compared figures, and their conditions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec

from reusebench.measured.messages import Message
from reusebench.measured.plan import Streams
from reusebench.storage.metrics import find_metric
from reusebench.storage.recorded_program import Program
from reusebench.storage.result import Result
from reusebench.storage.run_file import BadFile
from reusebench.storage.runs import Measured, Run, copies_in, read_run, read_runs
from tests.reports.compare.short_runs import FULL_DUP, NO_REUSE
from tests.reports.compare.short_runs import measured as short
from tests.reports.compare.short_runs import run as short_run
from tests.reports.stored import (
    FAILED,
    MIB,
    MODELS,
    as_measured,
    changed,
    even,
    result,
    with_memory,
    with_speed,
    write_run,
)
from tests.reports.stored_programs import Repeat, program, write_programs
from tests.reports.stored_streams import SCHEDULE, VIDEO, Frames, streams_result

_OF_STREAMS = {"decoder_memory", "latency_p99", "frames_lost"}


def _measured(path: Path) -> tuple[Measured, ...]:
    run = read_run(path)
    assert isinstance(run, Run)
    return run.measured


def test_a_result_has_the_values_of_each_repeat(tmp_path: Path) -> None:
    """Streams have additional figures; a failed result has an outcome and no values."""
    infos = [
        streams_result(tmp_path, "streams_full_dup", [Frames(per_s=60)]),
        result(tmp_path, "full_dup", even(10)),
        result(tmp_path, "no_reuse", [], failure=FAILED),
    ]
    streams, dup, failed = _measured(write_run(tmp_path, infos))
    assert set(streams.values) >= _OF_STREAMS
    assert streams.values["frames_lost"] == (50.0,)
    assert not set(dup.values) & _OF_STREAMS
    assert dup.values["application_memory_over_baseline"] == (120 * MIB,) * 3
    assert str(dup.configuration) == "onnxruntime full_dup (4 x 3, model-a)"
    assert str(failed.configuration) == "onnxruntime no_reuse (4 x 3, model-a +3)"
    assert (failed.outcome, failed.values) == ("crashed", {})


def test_several_models_have_a_latency_each(tmp_path: Path) -> None:
    """Each is a configuration of its own; all of them together have throughput alone."""
    info = result(tmp_path, "no_reuse", even(10, repeats=2), models=MODELS[:2])
    timed = with_speed(info, latency_median_ns=[None] * 2, model_latency_ns=[(1, 100), (3, 104)])
    whole, *models = _measured(write_run(tmp_path, [timed]))
    assert "latency" not in whole.values
    assert "throughput" in whole.values
    assert [(str(one.configuration), one.values) for one in models] == [
        ("onnxruntime no_reuse (4 x 3, one of 2 models, model-a)", {"latency": (1, 3)}),
        ("onnxruntime no_reuse (4 x 3, one of 2 models, model-b)", {"latency": (100, 104)}),
    ]


def test_a_figure_less_another_is_taken_repeat_by_repeat(tmp_path: Path) -> None:
    """Trimmed memory is compared above the baseline of its own process."""
    info = result(tmp_path, "no_reuse", even(10, spread=2))
    trimmed = find_metric("application_memory_trimmed_over_baseline").values(info)
    assert trimmed == tuple(12 * mib * MIB - MIB for mib in (8, 10, 12))


def test_memory_that_was_counted_by_pss_is_pss(tmp_path: Path) -> None:
    """Such results, as earlier versions stored, have no figure that counts pages, and keep PSS."""
    info = result(tmp_path, "no_reuse", even(10))
    old = changed(with_memory(info, application_pss_bytes=[]), counted_by="pss")
    pages, *_ = _measured(write_run(tmp_path, [info]))
    pss, *_ = _measured(write_run(tmp_path, [old], number=2))
    assert pss.values["application_pss"] == pages.values["application_memory"]
    assert (pages.counted_by, pss.counted_by) == ("pages", "pss")
    lacking = pages.values.keys() - pss.values.keys()
    assert lacking == {
        "application_memory",
        "application_memory_over_baseline",
        "application_memory_trimmed",
        "application_memory_trimmed_over_baseline",
        "baseline_memory",
        "residue_memory",
    }


def test_a_copy_knows_what_was_measured(tmp_path: Path) -> None:
    """`original` is the measured configuration of the same run."""
    own = result(tmp_path, "no_reuse_one_model", even(10))
    first, copy = _measured(write_run(tmp_path, [own, as_measured(own, "plain")]))
    assert (first.original, copy.original, copy.configuration.name) == (
        None,
        first.configuration,
        "plain",
    )


def test_copies_have_the_figures_of_others_in_every_run() -> None:
    """A run with one of the two names, or in which both were measured, tells them apart."""
    values = {"latency": [1.0]}
    one = short(values, NO_REUSE)
    two = short(values, original=NO_REUSE)
    turned = (short(values), short(values, NO_REUSE, original=FULL_DUP))
    both = [short_run(1, one, two), short_run(2, *turned)]
    assert copies_in(both) == {FULL_DUP}
    assert copies_in([short_run(0, *turned), *both]) == {NO_REUSE}
    for each in ((one,), (two,), (one, turned[0])):
        assert copies_in([*both, short_run(3, *each)]) == set()


def _conditions(storage: Path, *infos: Result) -> list[dict[str, str | None]]:
    runs = [
        _measured(write_run(storage, [info], number)) for number, info in enumerate(infos, start=1)
    ]
    return [dict(measured.conditions) for measured, *_ in runs]


def test_where_the_video_is_makes_no_other_plan(tmp_path: Path) -> None:
    """Runs of a video are compared wherever its file is; runs at another pace are not."""
    schedules: list[Streams] = [
        SCHEDULE,
        replace(SCHEDULE, video=replace(VIDEO, path="/b.mp4")),
        replace(SCHEDULE, fps=15.0),
    ]
    infos = [
        streams_result(tmp_path, "streams_full_dup", schedule=schedule) for schedule in schedules
    ]
    here, moved, slower = _conditions(tmp_path, *infos)
    assert here == moved
    assert {name for name in here if here[name] != slower[name]} == {"plan"}


def test_plans_of_before_are_the_same_plans(tmp_path: Path) -> None:
    """A plan that was stored before schedules existed equals the same plan of today."""
    path = write_run(tmp_path, [result(tmp_path, "full_dup", even(10))])
    document = json.loads(path.read_bytes())
    del document["benchmarks"][0]["extra_info"]["plan"]["schedule"]
    old = path.with_name("0002_old.json")
    old.write_text(json.dumps(document))
    assert _measured(old)[0].conditions == _measured(path)[0].conditions


def test_each_condition_makes_another_series(tmp_path: Path) -> None:
    """Chip, versions, models and limits make another series; names and files of models do not."""
    info = result(tmp_path, "no_reuse", even(3))
    others = {
        "chip": changed(info, chip="rk3566"),
        "runtime_version": changed(info, runtime_version="9"),
        "driver_version": changed(info, driver_version="9"),
        "python_version": changed(info, python_version="3.9.1"),
        "models": changed(
            info, models=tuple(msgspec.structs.replace(model, digest="f") for model in info.models)
        ),
        "plan": changed(info, plan=replace(info.plan, rounds=7)),
        "npu_memory_limit_bytes": changed(info, npu_memory_limit_bytes=2**29),
    }
    first, *rest = _conditions(tmp_path, info, *others.values())
    for name, conditions in zip(others, rest):
        assert {key for key in first if first[key] != conditions[key]} == {name}
    renamed = tuple(replace(model, name="x", path="/y") for model in info.plan.models)
    assert _conditions(tmp_path, changed(info, plan=replace(info.plan, models=renamed))) == [first]


def test_phases_of_a_program_are_configurations(tmp_path: Path) -> None:
    """A crashed phase has its outcome and no values."""
    repeats = [Repeat({"run": 10}), Repeat({"run": 3})]
    programs = [program("pipeline", repeats, outcome="crashed"), program("other", repeats)]
    crashed, other = _measured(write_programs(tmp_path, programs))
    assert (crashed.outcome, crashed.values) == ("crashed", {})
    assert other.values["application_memory"] == (10 * MIB, 3 * MIB)
    assert str(other.configuration) == "program other (run)"


def test_a_run_has_the_name_and_number_of_its_file(tmp_path: Path) -> None:
    """A file with another name has no number; dates are not names from a user."""
    info = result(tmp_path, "no_reuse", even(3))
    path = write_run(tmp_path, [info], is_finished=False)
    names = {
        "0001_main.json": (1, "main", True),
        "0007_20260102_030405.json": (7, "20260102_030405", False),
    }
    for name, identity in {**names, "copy.json": (None, "copy", True)}.items():
        run = read_run(path.rename(path.with_name(name)))
        path = path.with_name(name)
        assert isinstance(run, Run)
        assert (run.number, run.name, run.is_named) == identity
        assert (run.board, run.commit, run.moment) == ("board-123456", None, "2026-01-02 03:04")
        assert not run.is_finished


def test_damaged_files_are_among_the_runs(tmp_path: Path) -> None:
    """A command can report the files that it leaves out."""
    good = write_run(tmp_path, [result(tmp_path, "no_reuse", even(3))])
    good.with_name("0002_cut.json").write_text("{")
    run, bad = read_runs(tmp_path)
    assert isinstance(run, Run)
    assert isinstance(bad, BadFile)
    assert bad.reason.code == "file_damaged"


def test_a_named_file_without_results_of_ours(tmp_path: Path) -> None:
    """In a storage such a file is skipped; a user who names it gets the reason."""
    path = write_run(tmp_path, [])
    bad = read_run(path)
    assert isinstance(bad, BadFile)
    assert bad.reason.code == "file_without_results"
    assert list(read_runs(tmp_path)) == []


def test_short_memory_of_a_program_is_that_of_each_phase(tmp_path: Path) -> None:
    """Each kind of sign appears once; older files have none."""
    signs = (Message("shortage_swapped", {"mib": "5.0"}),)
    short = program(
        "pipeline", [Repeat({"load": 10, "run": 20}, signs=own) for own in ((), signs, signs)]
    )
    assert [one.shortage_signs for one in _measured(write_programs(tmp_path, [short]))] == [
        signs,
        signs,
    ]
    older = msgspec.to_builtins(short)
    for repeat in older["repeats"]:
        del repeat["shortage"]
    assert msgspec.convert(older, Program).shortage_signs == ()
