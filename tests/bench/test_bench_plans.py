"""`pytest bench/ --plan FILE` as a user runs it, on ONNX Runtime, with small models."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from reusebench.storage.result import Result
from reusebench.video.clip import Clip, ensure_clip
from tests.bench.bench_process import Bench, Done, repeated
from tests.bench.pipelines import pipeline_file, saved_bytes
from tests.helpers.support import Reusebench

pytestmark = pytest.mark.process

_STREAMS = '\n[streams]\ncount = 2\nfps = 10\nqueue = 4\nduration = "1s"\n'


@dataclass
class _Measured:
    """A pipeline in rounds with its baseline, and one of video."""

    done: Done
    results: dict[str, Result]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> _Measured:
    """Return a run of two plans."""
    bench = Bench(tmp_path_factory.mktemp("plans"), cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        clip = ensure_clip(Clip(320, 180, fps=30, seconds=0.5))
    plans = (pipeline_file(bench.folder), pipeline_file(bench.folder, "video", _STREAMS))
    chosen = ("-k", "not video.no_reuse")
    done = bench.run(*repeated("--plan", plans), "--video", clip, *chosen)
    assert done.code == 0, done.words
    return _Measured(done, done.results())


def test_plans_alone_are_measured(measured: _Measured) -> None:
    """Each plan has its own name and stands after its baseline; no built-in question runs."""
    assert list(measured.results) == ["pipeline.no_reuse", "pipeline", "video"]
    for name, info in measured.results.items():
        assert (info.outcome, info.failure) == ("ok", None)
        assert (info.streams, info.contexts, info.model_files) == (2, 2, 2)
        assert [model.name for model in info.models] == ["detector", "recogniser"]
        assert info.baseline == (None if name.endswith(".no_reuse") else f"{name}.no_reuse")
        assert info.plan.chains == ((0, 1), (2, 3))
    assert "3 passed, 1 deselected" in measured.done.words


def test_without_reuse_every_context_is_loaded(measured: _Measured) -> None:
    """The outputs are the same bit by bit, and memory is not."""
    whole = measured.results["pipeline.no_reuse"]
    own = measured.results["pipeline"]
    assert {context.mechanism for context in whole.plan.contexts} == {"load"}
    assert {context.internal for context in whole.plan.contexts} == {None}
    assert whole.output_digests == own.output_digests
    assert saved_bytes(measured.results) > 0


def test_frames_go_through_the_chain(measured: _Measured) -> None:
    """Every frame that was due is counted once for both contexts of its chain."""
    (streams,) = measured.results["video"].frames
    assert streams is not None
    assert streams.all is not None
    assert streams.all.due == streams.all.done + streams.all.dropped + streams.all.missed == 20
    assert streams.all.done > 0
    schedule = measured.results["video"].plan.schedule
    assert schedule is not None
    assert (schedule.count, schedule.fps, schedule.queue, schedule.duration_s) == (2, 10.0, 4, 1.0)


def test_a_stored_plan_is_compared_and_printed(
    measured: _Measured, tmp_path: Path, reusebench: Reusebench
) -> None:
    """The plan has a row of its own in the comparison, and its JSON is a plan file."""
    storage = ("--storage", measured.done.storage)
    (run,) = measured.done.runs()
    again = tmp_path / "again.json"
    shutil.copy(run.path, again)
    compared = reusebench("compare", run.path, again)
    assert {"pipeline.no_reuse", "pipeline"} <= set(compared.out.split()), compared.err
    printed = reusebench("plan", "pipeline", "--run", "latest", *storage)
    assert json.loads(printed.out)["chains"] == [[0, 1], [2, 3]]
    report = reusebench("report", *storage, "--output", tmp_path)
    assert report.exit_code == 0, report.err
    assert "pipeline, no reuse" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_printed_scenario_is_measured_as_the_scenario(
    bench: Bench, reusebench: Reusebench
) -> None:
    """The plan of a printed file, and that of its results' JSON, equal the scenario's plan."""
    text = reusebench("plan", "full_dup", "--streams", 1, "--contexts", 2).out
    path = bench.folder / "mine.toml"
    path.write_text(text.replace('network = "yolov5s", size = 320', 'network = "tiny", size = 64'))
    first = bench.run("--plan", path, "-k", "not no_reuse")
    assert first.code == 0, first.words
    plan = first.results()["my_full_dup"].plan
    assert [context.mechanism for context in plan.contexts] == ["load", "dup"]
    again = bench.folder / "again.json"
    again.write_text(
        reusebench("plan", "my_full_dup", "--run", "latest", "--storage", bench.storage).out
    )
    second = bench.run("--plan", again, "-k", "not no_reuse")
    assert second.code == 0, second.words
    assert second.runs()[-1].results[0].info.plan == plan


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--plan", "absent.toml"), "ERROR: --plan absent.toml: it does not exist"),
        (
            ("bench/test_plans.py",),
            "ERROR: bench/test_plans.py measures plans of yours: name one with --plan FILE",
        ),
        (
            ("bench/test_dup.py", "--plan", "PIPELINE"),
            "ERROR: --plan is measured by bench/test_plans.py: name no other",
        ),
        (("--plan", "CORES"), "contexts.a.core: there is no core 99; valid, of "),
    ],
)
def test_mistakes(bench: Bench, arguments: tuple[str, ...], words: str) -> None:
    """The user gets a sentence and exit code 4: nothing is measured, and there is no traceback."""
    cores = bench.folder / "cores.toml"
    cores.write_text(
        "[models]\nm = { network = 'tiny' }\n[contexts]\na = { model = 'm', core = 99 }"
    )
    files = {"PIPELINE": pipeline_file(bench.folder), "CORES": cores}
    done = bench.run(*(files.get(word, word) for word in arguments))
    assert done.code == 4, done.words
    assert words in done.words
    assert "Traceback" not in done.words
    assert not list(bench.storage.glob("*/*.json"))
