"""Valid files made by the product: the sources of mutants, and a run to show beside them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.faults.sandbox import Sandbox
from reusebench.measured.runtimes import RUNTIMES
from reusebench.storage.fit_answer import FitAnswer, FitGroup, FitPoint, write_answer
from reusebench.storage.run_file import StoredRun, read_storage
from tests.reports.stored import npu_run

__all__ = ["GOOD", "MakingFailed", "Samples", "record_command", "reusebench", "session_command"]

#: Name of the run that every report has to show.
GOOD = "goodrun"
#: A program with phases and a child, which lives for three seconds.
PROGRAM = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3)"])
pathlib.Path(sys.argv[1]).touch()
kept = []
for phase in ("load", "warm", "steady"):
    with open(os.environ["REUSEBENCH_PHASES"], "a") as file:
        print(phase, file=file)
    kept.append(bytearray(4 << 20))
    time.sleep(1)
child.wait()
"""
_PLAN = {
    "name": "plan",
    "cores": 1,
    "models": {"tiny": "tiny.onnx", "again": {"network": "tiny", "size": 64, "seed": 2}},
    "contexts": {
        "first": {"model": "tiny", "internal": "memory"},
        "second": {"dup": "first", "internal": "memory"},
        "third": {"model": "again", "zero_copy": ["input", "output"]},
    },
}
#: Scenarios of reuse, leaks and streams.
_CHOSEN = "partial_dup] or full_dup_internal_reuse] or cycles_contexts] or streams_no_reuse]"
_MAKING_LIMIT_S = 300.0
_NPU_RUN = 90
_PREDICTED_BYTES = 40 << 20


def reusebench(*arguments: str) -> list[str]:
    """Return the arguments of Python for `reusebench ARGUMENTS`."""
    return ["-m", "reusebench", *arguments]


def plan_command(plan: Path, storage: Path, *arguments: str) -> list[str]:
    """Return the command of a session that measures a plan."""
    options = ("--repeats=1", f"--plan={plan}", f"--benchmark-storage=file://{storage}")
    return ["-m", "pytest", "bench/", "-p", "no:cacheprovider", *options, *arguments]


def session_command(
    model: Path, storage: Path, *arguments: str, file: str = "bench/test_dup.py"
) -> list[str]:
    """Return the command of the shortest possible session."""
    size = (
        "--quick",
        "--repeats=1",
        "--rounds=2",
        "--cycles=4",
        "--duration=1",
        "--streams=1",
        "--contexts=2",
    )
    selection = (
        "--runtime=onnxruntime",
        f"--model={model}",
        f"--benchmark-storage=file://{storage}",
    )
    return ["-m", "pytest", file, "-p", "no:cacheprovider", *size, *selection, *arguments]


def record_command(sandbox: Sandbox) -> list[str]:
    """Return the command that records PROGRAM, which makes a file `started` when it runs."""
    started = sandbox.folder / "started"
    phases = sandbox.folder / "phases"
    command = (
        "record",
        "--storage",
        str(sandbox.storage),
        "--name",
        "program",
        "--phases",
        str(phases),
    )
    return reusebench(*command, "--", sys.executable, "-c", PROGRAM, str(started))


class MakingFailed(Exception):
    """The product does not work here even without a fault; the message has its output."""


@dataclass(frozen=True)
class Samples:
    """The samples in a folder."""

    folder: Path

    @property
    def model(self) -> Path:
        """The smallest of the built-in networks."""
        return self.folder / "tiny.onnx"

    @property
    def storage(self) -> Path:
        """A storage with a run of reuse, leaks and streams, an NPU's run, a program and a fit."""
        return Sandbox(self.folder / "made").storage

    @property
    def good(self) -> Path:
        """The storage with the run that has to be shown."""
        return Sandbox(self.folder / "good").storage

    @property
    def page(self) -> Path:
        """A report of the good run."""
        return self.folder / "page"

    @property
    def plan(self) -> Path:
        """A plan file with the smallest network."""
        return self.folder / "plan.json"

    @property
    def models(self) -> list[Path]:
        """The existing model files, of all formats."""
        kinds = {entry.suffix for entry in RUNTIMES}
        return sorted(path for path in (self.folder / "models").iterdir() if path.suffix in kinds)

    def add_models(self, files: Iterable[Path]) -> None:
        """Add the user's model files, and the network in every format that can be made here."""
        folder = self.folder / "models"
        folder.mkdir()
        for file in (self.model, *files):
            shutil.copy(file, folder)
        for entry in RUNTIMES:
            output = str(folder / f"{entry.name}{entry.suffix}")
            size = ("--height", "64", "--runtime", entry.name, "--output", output)
            # Without its converter there is no file.
            Sandbox(self.folder / "made").run(
                reusebench("models", "build", "tiny", *size), _MAKING_LIMIT_S
            )

    def usual_files(self) -> set[str]:
        """Return the files that the product leaves in its cache and temporary folder normally."""
        return Sandbox(self.folder / "made").files() | Sandbox(self.folder / "good").files()

    def make(self) -> Samples:
        """Make all samples except model files of other formats, and return self."""
        self.folder.mkdir(parents=True)
        made = Sandbox(self.folder / "made").make()
        good = Sandbox(self.folder / "good").make()
        # The model goes into the cache, as a user's does.
        _run(made, reusebench("models", "build", "tiny", "--height", "64"))
        shutil.copy(made.output().strip(), self.model)
        clip = str(self.folder / "clip.mp4")
        _run(
            made,
            reusebench("models", "clip", "--duration", "1", "--size", "320x240", "--output", clip),
        )
        _run(
            good,
            session_command(
                self.model, good.storage, "-k", "no_reuse]", f"--benchmark-save={GOOD}"
            ),
        )
        chosen = (
            "bench/test_leaks.py",
            "bench/test_published.py",
            f"--video={clip}",
            "-k",
            _CHOSEN,
        )
        _run(made, session_command(self.model, made.storage, *chosen))
        _run(made, record_command(made))
        # A result as from Rockchip's runtime, which is not here, with a number of its own.
        npu_run(made.storage, number=_NPU_RUN)
        _write_fit(made.storage)
        _run(good, reusebench("report", "--storage", str(good.storage), "--output", str(self.page)))
        self.plan.write_text(json.dumps(_PLAN), encoding="utf-8")
        # A plan that is refused would make useless mutants, so it is run once.
        _run(made, plan_command(self.plan, self.folder / "of-plan"))
        return self


def _run(sandbox: Sandbox, command: Sequence[str]) -> None:
    code = sandbox.run(command, _MAKING_LIMIT_S)
    if code != 0:
        raise MakingFailed(f"{' '.join(command)}: exit code {code}\n{sandbox.output()}")


def _write_fit(storage: Path) -> None:
    """Write an answer of `fit`, which itself would measure for half a minute.

    Its plan is taken from a measured result.
    """
    result = next(
        run.results[0].info
        for run in read_storage(storage)
        if isinstance(run, StoredRun) and run.results
    )
    point = FitPoint(
        layout=(FitGroup("tiny", ()),),
        contexts=2,
        lanes=1,
        bytes=_PREDICTED_BYTES,
        limited_bytes=_PREDICTED_BYTES,
    )
    answer = FitAnswer(
        recorded_at="2026-11-30T12:00:00+00:00",
        runtime="onnxruntime",
        runtime_version=result.runtime_version,
        target=result.target,
        chip=None,
        models=("tiny",),
        streams=(1,),
        contexts=2,
        cores=2,
        fps=None,
        limit_of="application_memory",
        limit_bytes=2 * _PREDICTED_BYTES,
        fits=True,
        recommended=result.plan,
        predicted_npu_memory_bytes=None,
        predicted_npu_peak_bytes=None,
        predicted_npu_components_bytes=None,
        predicted_application_memory_bytes=_PREDICTED_BYTES,
        predicted_application_memory_plus_minus_bytes=0,
        predicted_application_memory_over_baseline_bytes=_PREDICTED_BYTES,
        predicted_application_memory_trimmed_over_baseline_bytes=_PREDICTED_BYTES,
        predicted_frames_per_s=30.0,
        predicted_frames_per_s_plus_minus=None,
        least_bytes=None,
        today=point,
        best=point,
        frontier=(point,),
        points=(point, msgspec.structs.replace(point, bytes=2.0 * _PREDICTED_BYTES)),
        layouts=2,
        busy_percent=0.0,
    )
    write_answer(storage, answer)
