"""Accuracy of `reusebench fit` on a CPU: predicted and measured, for docs/evidence/fit.md.

    python -m benchmarks.fit_accuracy --runtime onnxruntime --storage DIR MODEL.onnx [MODEL.onnx]

fit calibrates for 4 streams of 3 contexts. Then this script measures layouts that fit has not
measured, in fresh processes: every form that fit keeps, with other numbers of contexts, and of two
models both together. It prints a row of Markdown for each. The exit code is 1 if memory above the
import is off by more than 5 %, or frames by more than 15 % on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quick import own_folder, parse, tiny_model
from reusebench.commands.benching import run_bench
from reusebench.fit.layouts import ContextGroup, Demand, Layout, spread
from reusebench.fit.prediction import Prediction
from reusebench.fit.process_costs import ProcessCosts
from reusebench.fit.study import Study
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.storage.fit_answer import calibrations
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import BUSY_PERCENT, Result
from reusebench.storage.run_file import StoredRun, read_run_file, read_storage

_CHECKOUT = Path(__file__).resolve().parent.parent
_MIB = 2**20
_STREAMS = 4
_CONTEXTS = 3
#: Contexts of each model in predicted layouts; numbers that fit measures are skipped.
_COUNTS = (3, 5, 6, 8, 12)
_MEMORY_PERCENT = 5.0
_FRAMES_PERCENT = 15.0
_HEADS = (
    "layout",
    "contexts",
    "over the import, MiB",
    "measured",
    "error",
    "trimmed",
    "frames per second",
    "measured",
    "error",
)


@dataclass(frozen=True)
class Row:
    """A layout that fit was not calibrated with."""

    layout: Layout
    prediction: Prediction
    result: Result

    @property
    def memory(self) -> tuple[Figure, Figure]:
        """Memory of the process above the import in bytes: predicted and measured."""
        return self.prediction.over_baseline, _known(
            Figure.of(self.result.memory.application_memory_over_baseline_bytes)
        )

    @property
    def trimmed(self) -> tuple[Figure, Figure]:
        """The same memory after malloc_trim(0)."""
        memory = self.result.memory
        pairs = zip(memory.application_memory_trimmed_bytes, memory.baseline_memory_bytes)
        measured = Figure.of(
            trimmed - baseline for trimmed, baseline in pairs if trimmed and baseline
        )
        return _known(self.prediction.trimmed), _known(measured)

    @property
    def frames(self) -> tuple[Figure, Figure]:
        """Frames per second: predicted and measured."""
        return _known(self.prediction.frames_per_s), _known(
            Figure.of(self.result.speed.throughput_per_s)
        )

    @property
    def is_even(self) -> bool:
        """Whether each core runs equally many contexts, so that none is idle at the end."""
        loads = {sum(counts) for counts in zip(*(group.per_core for group in self.layout.groups))}
        return len(loads - {0}) == 1

    @property
    def was_busy(self) -> bool:
        """Whether other work ran before one of the processes."""
        return max(self.result.speed.idle_cpu_percent) > BUSY_PERCENT

    def cells(self) -> Iterator[str]:
        """Yield the cells of its row."""
        form = self.layout.groups[0].form
        shared = ["internal"] * form.shares_internal + [*form.zero_copy]
        yield ", ".join([form.mechanism, *shared])
        yield " + ".join(str(group.count) for group in self.layout.groups)
        yield from (_shown(figure, _MIB) for figure in self.memory)
        yield f"{_error_percent(*self.memory):+.1f} %"
        yield f"{_error_percent(*self.trimmed):+.1f} %"
        yield from (_shown(figure, 1) for figure in self.frames)
        remark = ""
        if self.was_busy:
            remark = " (busy)"
        elif not self.is_even:
            remark = " (uneven)"
        yield f"{_error_percent(*self.frames):+.1f} %{remark}"


def calibrated_study(answer: dict[str, Any], storage: Path, are_resolutions: bool = False) -> Study:
    """Return fit's measurements for its answer; the recommended plan has all the models."""
    recommended = Plan.from_json(answer["recommended"])
    is_npu = find_runtime(recommended.runtime).device == "npu"
    demand = Demand(
        runtime=recommended.runtime,
        models=recommended.models,
        streams=tuple(answer["streams"]),
        contexts=answer["contexts"],
        cores=answer["cores"],
        binds=is_npu,
        are_resolutions=are_resolutions,
    )
    runs = [run for run in read_storage(calibrations(storage)) if isinstance(run, StoredRun)]
    results = [result.info for run in runs for result in run.results]
    study = Study(demand, computes=results[0].computes)
    study.add(results, calibrations(storage))
    return study


def main(arguments: Sequence[str] | None = None) -> int:
    """Calibrate, measure, and print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.fit_accuracy", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--runtime", required=True, metavar="NAME")
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="processes per layout; default: 3"
    )
    parser.add_argument(
        "--streams", type=int, default=_STREAMS, metavar="N", help="streams for fit; default: 4"
    )
    parser.add_argument(
        "--contexts", type=int, default=_CONTEXTS, metavar="N", help="contexts each; default: 3"
    )
    parser.add_argument(
        "--storage", type=Path, required=True, metavar="DIR", help="an empty folder"
    )
    parser.add_argument("models", nargs="+", type=Path, metavar="FILE")
    options = parse(parser, arguments, _quick_options)
    command = [sys.executable, "-m", "reusebench", "fit", "--json", "--runtime", options.runtime]
    command += ["--streams", str(options.streams), "--contexts", str(options.contexts)]
    command += ["--storage", str(options.storage)]
    for model in options.models:
        command += ["--model", str(model.absolute())]
    answer = json.loads(
        subprocess.run(command, cwd=_CHECKOUT, stdout=subprocess.PIPE, check=True).stdout
    )["result"]
    study = calibrated_study(answer, options.storage)
    costs = ProcessCosts(study)
    candidates = dict.fromkeys(_layouts(study.demand, costs))
    layouts = [layout for layout in candidates if study.result(layout) is None]
    if not layouts:
        sys.exit(
            "fit has measured all layouts of these contexts: there is nothing to predict. Give"
            " more --contexts"
        )
    plans = [study.plan(layout, f"layout-{number}") for number, layout in enumerate(layouts)]
    folder = options.storage / "accuracy"
    results = measured_plans(plans, options.runtime, options.repeats, folder)
    rows = [Row(layout, costs.predict(layout), result) for layout, result in zip(layouts, results)]
    return _report(rows, options.quick)


def _report(rows: Sequence[Row], is_quick: bool) -> int:
    """Print the table and the largest errors; return the exit code."""
    print(f"| {' | '.join(_HEADS)} |\n|{'---|' * len(_HEADS)}")
    for row in rows:
        print(f"| {' | '.join(row.cells())} |")
    memory = max(abs(_error_percent(*row.memory)) for row in rows)
    trimmed = max(abs(_error_percent(*row.trimmed)) for row in rows)
    quiet = [abs(_error_percent(*row.frames)) for row in rows if row.is_even and not row.was_busy]
    frames = f"{max(quiet):.1f} %" if quiet else "not judged"
    print(f"\nLargest errors: memory {memory:.1f} %, trimmed {trimmed:.1f} %, frames {frames}.")
    print(
        f"Frames are judged for {len(quiet)} of {len(rows)} layouts: a quiet machine, equal numbers"
        " on all cores."
    )
    is_far_off = memory > _MEMORY_PERCENT or max(quiet, default=0.0) > _FRAMES_PERCENT
    return int(is_far_off and not is_quick)


def _quick_options() -> list[str]:
    sizes = ["--repeats=1", "--streams=1", "--contexts=4"]
    return ["--runtime=onnxruntime", *sizes, f"--storage={own_folder()}", tiny_model()]


def _layouts(demand: Demand, costs: ProcessCosts) -> Iterator[Layout]:
    """Yield layouts in which all models have one form; each model has one context more than the one
    before, if it can.
    """
    models = range(len(demand.models))
    for form in costs.forms(0):
        if not all(form in costs.forms(model) for model in models):
            continue
        for count in _COUNTS:
            counts = [min(count + model, demand.most[model]) for model in models]
            groups = []
            for model in sorted(models, key=lambda model: -costs.sizes(model, form)[0]):
                cores = range(min(counts[model], demand.cores))
                groups.append(ContextGroup(model, form, spread(counts[model], cores, demand.cores)))
            if all(count <= most for most in demand.most):
                yield Layout(tuple(groups))


def measured_plans(
    plans: Sequence[Plan], runtime: str, repeats: int, storage: Path, may_fail: bool = False
) -> list[Result]:
    """Return the result of each plan, measured by `pytest bench/` in fresh processes.

    The script ends if a plan was not measured, or has failed unless it `may_fail`.
    """
    storage.mkdir(parents=True, exist_ok=True)
    words = [
        "--runtime",
        runtime,
        "--repeats",
        str(repeats),
        "-q",
        "--benchmark-quiet",
    ]
    for plan in plans:
        file = storage / f"{plan.scenario}.json"
        file.write_text(json.dumps(plan.to_json()), encoding="utf-8")
        words += ["--plan", str(file)]
    tests = [f"test_plans.py::test_plans[{runtime}-{plan.scenario}]" for plan in plans]
    _, paths = run_bench(words, storage, tests, sys.stderr)
    by_name: dict[str, Result] = {}
    for run in map(read_run_file, paths):
        assert isinstance(run, StoredRun)
        by_name.update({result.info.scenario: result.info for result in run.results})
    for plan in plans:
        result = by_name.get(plan.scenario)
        if result is None or (result.failure and not may_fail):
            sys.exit(
                f"{plan.scenario} was not measured:"
                f" {result.failure if result else 'pytest says why above'}"
            )
    return [by_name[plan.scenario] for plan in plans]


def _error_percent(predicted: Figure, measured: Figure) -> float:
    return 100 * (predicted.median - measured.median) / measured.median


def _shown(figure: Figure, unit: float) -> str:
    return f"{figure.median / unit:.1f} ±{(figure.spread or 0) / unit:.1f}"


def _known(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


if __name__ == "__main__":
    sys.exit(main())
