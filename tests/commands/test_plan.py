"""`reusebench plan`: scenarios and stored plans, as files that `pytest bench/ --plan` reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from reusebench.harness.plans.reading import read_plan_file
from reusebench.measured.plan import DUP, Plan
from tests.helpers.support import Reusebench
from tests.reports.stored import MODELS, changed, dup, even, full_run, result, runs_of, write_run


def test_a_scenario(tmp_path: Path, reusebench: Reusebench) -> None:
    """The plan has the given streams, contexts and cores; by default those of `pytest bench/`."""
    done = reusebench(
        "plan", "full_dup_internal_reuse", "--streams", 2, "--contexts", 1, "--cores", 3
    )
    assert (done.exit_code, done.err) == (0, "")
    path = tmp_path / "mine.toml"
    path.write_text(done.out)
    file = read_plan_file(path)
    assert (file.name, file.cores) == ("my_full_dup_internal_reuse", 3)
    assert [(context.mechanism, context.core, context.internal) for context in file.contexts] == [
        ("load", 0, 0),
        (DUP, 1, 1),
    ]
    path.write_text(reusebench("plan", "no_reuse").out)
    assert (len(read_plan_file(path).contexts), len(read_plan_file(path).models)) == (12, 4)


def test_a_scenario_as_a_runtime_runs_it(tmp_path: Path, reusebench: Reusebench) -> None:
    """On an NPU the contexts of streams are bound to cores."""
    path = tmp_path / "mine.toml"
    cores = {}
    for runtime in ("onnxruntime", "rknn"):
        path.write_text(
            reusebench("plan", "streams_full_dup", "--runtime", runtime, "--cores", 2).out
        )
        cores[runtime] = {context.core for context in read_plan_file(path).contexts}
    assert cores == {"onnxruntime": {None}, "rknn": {0, 1}}


def test_a_stored_plan(tmp_path: Path, reusebench: Reusebench) -> None:
    """The JSON equals the stored plan of the newest run that has it."""
    full_run(tmp_path)
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))], 2, at="2026-01-03T03:04:05")
    done = reusebench("plan", "full_dup", "--run", "1..2", "--storage", tmp_path)
    assert done.exit_code == 0, done.err
    stored = next(
        one.info for one in runs_of(tmp_path)[0].results if one.info.scenario == "full_dup"
    )
    assert Plan.from_json(json.loads(done.out)) == stored.plan


def test_a_stored_plan_that_is_not_there(tmp_path: Path, reusebench: Reusebench) -> None:
    """The message names the run's scenarios, or the option if several runtimes have one."""
    infos = [result(tmp_path, "full_dup", dup(40, 10), models=MODELS)]
    infos.append(changed(infos[0], runtime="megengine_lite"))
    write_run(tmp_path, infos)
    for words, sentence in (
        (["gate"], "latest has no 'gate'; it has: full_dup"),
        (["full_dup", "--runtime", "rknn"], "latest has no 'full_dup' on rknn; it has: full_dup"),
        (
            ["full_dup"],
            "has 'full_dup' on several runtimes; add --runtime, one of onnxruntime, megengine_lite",
        ),
    ):
        done = reusebench("plan", *words, "--run", "latest", "--storage", tmp_path)
        assert (done.exit_code, done.out) == (2, "")
        assert sentence in done.err
    assert (
        reusebench(
            "plan", "full_dup", "--run", 1, "--runtime", "onnxruntime", "--storage", tmp_path
        ).exit_code
        == 0
    )


def test_an_unknown_scenario(reusebench: Reusebench) -> None:
    """The nearest is named; exit code 2."""
    done = reusebench("plan", "ful_dup")
    assert (done.exit_code, done.out) == (2, "")
    assert "there is no scenario 'ful_dup'; did you mean 'full_dup'?" in done.err


def test_the_code_of_a_scenario(reusebench: Reusebench) -> None:
    """The program is for the runtime and chip; if it lacks a mechanism, the scenario's next plan
    is taken.
    """
    assert "import onnxruntime" in reusebench("plan", "full_dup", "--code").out
    full = reusebench("plan", "lean", "--code", "--chip", "rk3588")
    assert full.exit_code == 0
    assert full.err.endswith("do not change: reusebench apply -- PROGRAM\n")
    assert "rknn_dup_context(&" in full.out
    assert "1 << (i % 3)" in full.out
    mini = reusebench("plan", "lean", "--code", "--chip", "rv1106").out
    assert "-lrknnmrt" in mini
    assert "rknn_dup_context(&" not in mini


def test_the_code_of_a_file_and_of_a_stored_plan(tmp_path: Path, reusebench: Reusebench) -> None:
    """The files and names of the plan, the chip of the result."""
    (tmp_path / "detector.onnx").write_bytes(b"model")
    path = tmp_path / "gate.toml"
    path.write_text(
        '[models]\nm = "detector.onnx"\n[contexts]\none = { model = "m" }\ntwo = { dup = "one" }\n'
    )
    done = reusebench("plan", path, "--code", "--runtime", "rknn")
    assert done.exit_code == 0
    assert f"reusebench apply --plan {path} -- PROGRAM" in done.err
    assert "./gate detector.rknn" in done.out
    assert "0 one, 1 two" in done.out
    info = changed(result(tmp_path, "no_reuse", even(40)), runtime="rknn", chip="rv1106")
    plan = replace(info.plan, runtime="rknn", cores=1)
    write_run(tmp_path, [changed(info, plan=plan)])
    done = reusebench("plan", "no_reuse", "--run", "latest", "--storage", tmp_path, "--code")
    assert done.exit_code == 0, done.err
    assert "-lrknnmrt" in done.out


def test_no_code(tmp_path: Path, reusebench: Reusebench) -> None:
    """A sentence of what is lacking, or of what contradicts itself; exit code 2."""
    for words, sentence in (
        (
            ["full_dup", "--code", "--chip", "rv1106"],
            "rv1106 runs librknnmrt, which lacks rknn_dup_context",
        ),
        (["full_dup", "--chip", "rv1106"], "--chip is the chip that a program is for: add --code"),
        (
            ["full_dup", "--code", "--chip", "rk3588", "--runtime", "onnxruntime"],
            "leave one of them out",
        ),
        (
            ["shared_context", "--code", "--runtime", "rknn"],
            "runs a context from one thread at a time",
        ),
        ([tmp_path / "gate.toml"], "is a plan file already; with --code its program is printed"),
        ([tmp_path / "gate.toml", "--code"], "gate.toml: it does not exist"),
    ):
        done = reusebench("plan", *words)
        assert (done.exit_code, done.out) == (2, "")
        assert sentence in done.err
